"""Which layers of a model keep keys and values or a state: one rule for each general.architecture.

Read from src/llama-model.cpp (create_memory, load_hparams) and src/models/*.cpp of llama.cpp b11434 (k2-horizon and
gemma-embedding2: b11549). Adding a family is adding its name to a rule, or a rule of its own. What is not here is
refused, never guessed: compressed caches of several ratios, draft heads in files of their own, encoder-decoders and
diffusion models.
"""

from __future__ import annotations

from functools import partial

from llmops.core.errors import UnknownArchitecture
from llmops.models import gguf_families_latent as latents
from llmops.models import gguf_families_state as states
from llmops.models.gguf_facts import Facts
from llmops.models.gguf_families_attention import (
    WINDOW,
    Caches,
    Rule,
    encoder,
    exaone4,
    full_attention,
    full_attention_and_router,
    gemma3n,
    gemma4,
    llama4,
    windowed,
)

# Architectures whose memory is one plain cache: the default branch of create_memory, no window set, no MLA.
FULL_ATTENTION = (
    "apertus", "arcee", "arctic", "baichuan", "bailingmoe", "bailingmoe2", "bitnet", "bloom", "chameleon", "chatglm",
    "codeshell", "cogvlm", "command-r", "dbrx", "deci", "deepseek", "deepseek2-ocr", "dots1", "ernie4_5",
    "ernie4_5-moe", "exaone", "falcon", "gemma", "glm4", "glm4moe", "gpt2", "gptneox", "granite", "granitemoe",
    "grok", "grovemoe", "hrm_text", "hunyuan-dense", "hunyuan-moe", "hunyuan_vl", "hy_v3", "internlm2", "jais",
    "jais2", "k2-horizon", "llama", "llama-embed", "maincoder", "minicpm", "minicpm3", "minimax-m2", "mistral3",
    "mpt", "nanbeige", "nemotron", "olmo", "olmoe", "openelm", "orion", "paddleocr", "pangu-embedded", "phi2", "phi3",
    "phimoe", "plamo", "plm", "qwen", "qwen2", "qwen2moe", "qwen2vl", "qwen3", "qwen3moe", "qwen3vl", "qwen3vlmoe",
    "refact", "seed_oss", "smollm3", "stablelm", "starcoder", "starcoder2", "talkie", "xverse",
)  # fmt: skip

WINDOWED: dict[str, Rule] = {
    "afmoe": partial(windowed, period=4, window_optional=True),
    "cohere2": partial(windowed, period=4),
    "cohere2moe": partial(windowed, period=4, dense_first=True),
    "exaone4": exaone4,
    "exaone-moe": partial(windowed, period=4),
    "gemma2": partial(windowed, period=2, window_tokens=4096),
    "gemma3": partial(windowed, period=6, window_optional=True),
    "gemma3n": gemma3n,
    "gemma4": gemma4,
    "gpt-oss": partial(windowed, period=2),
    "granite_swa": partial(windowed, period=None),
    "laguna": partial(windowed, period=4, dense_first=True, window_optional=True),
    "llama4": llama4,
    "maple": partial(windowed, period=None),
    "mellum": partial(windowed, period=4, window_optional=True),
    "mimo2": partial(windowed, period=None),
    "muse-glimmer": partial(windowed, period=4),
    "olmo2": partial(windowed, period=4, window_optional=True),
    "plamo3": partial(windowed, period=8, window_optional=True),
    "smallthinker": partial(
        windowed, period=4, dense_first=True, window_tokens=4096, window_optional=True, window_fixed=True
    ),
    "spark2_5": partial(windowed, period=None),
    "step35": partial(windowed, period=None),
}

LATENT: dict[str, Rule] = {
    "deepseek2": latents.latent,
    "deepseek32": latents.latent_with_indexer,
    "dots3note": latents.dots3note,
    "glm-dsa": latents.glm_dsa,
    "hy_v4": latents.hy_v4,
    "minimax-m3": latents.minimax_m3,
    "mistral4": latents.latent,
}

STATE: dict[str, Rule] = {
    "arwkv7": partial(states.recurrent, sizes=states.rwkv_state),
    "bailingmoe3": partial(states.by_heads, sizes=states.kimi_delta_state),
    "falcon-h1": states.side_by_side,
    "glm5-next": states.glm5_next,
    "granitehybrid": partial(states.by_heads, sizes=states.mamba_state),
    "jamba": partial(states.by_heads, sizes=states.mamba_state),
    "kimi-k3": partial(states.by_heads, sizes=states.kimi_delta_state),
    "kimi-linear": partial(states.by_heads, sizes=states.kimi_delta_state),
    "lfm2": states.short_convolution,
    "lfm2moe": states.short_convolution,
    "mamba": partial(states.recurrent, sizes=states.mamba_state),
    "mamba2": partial(states.recurrent, sizes=states.mamba_state),
    "minimax-01": partial(states.by_interval, sizes=states.lightning_state, interval=8),
    "nemotron_h": states.nemotron_h,
    "nemotron_h_moe": states.nemotron_h,
    "plamo2": partial(states.by_heads, sizes=states.mamba_state),
    "qwen35": partial(states.by_interval, sizes=states.gated_delta_state, interval=4),
    "qwen35moe": partial(states.by_interval, sizes=states.gated_delta_state, interval=4),
    "qwen3next": partial(states.by_interval, sizes=states.gated_delta_state, interval=4),
    "rwkv6": partial(states.recurrent, sizes=states.rwkv_state),
    "rwkv6qwen2": partial(states.recurrent, sizes=states.rwkv_state),
    "rwkv7": partial(states.recurrent, sizes=states.rwkv_state),
}

# Architectures without a memory in create_memory that turn texts into vectors.
ENCODERS = (
    "bert", "eurobert", "gemma-embedding", "gemma-embedding2", "jina-bert-v2", "jina-bert-v3", "modern-bert",
    "neo-bert", "nomic-bert", "nomic-bert-moe",
)  # fmt: skip

RULES: dict[str, Rule] = {
    **dict.fromkeys(FULL_ATTENTION, full_attention),
    "graniteswitch": full_attention_and_router,
    **WINDOWED,
    **LATENT,
    **STATE,
    **dict.fromkeys(ENCODERS, encoder),
}


UNKNOWN = "llmops does not guess: use a model of a known architecture (docs/reference/models.md)"
_ASK_THE_ENGINE = (
    "its cache keeps tokens in several ways that no rule here covers: the engine itself tells what it takes, without"
    " loading the model (llama-fit-params -m FILE -c TOKENS -fitp on)"
)
_GUESSES = "it only guesses tokens for another model: size that one"
_DIFFUSES = "it answers by diffusion, which llama-server does not serve: use a model that writes token by token"
_TRANSLATES = "llama-server keeps no requests apart with an encoder and a decoder: use a model with a decoder only"
_SPEAKS = "it makes sound, not text: use a model that writes text"
# What to do about architectures that llama.cpp b11434 knows and no rule covers.
REFUSED = {
    "deepseek4": _ASK_THE_ENGINE,
    "qwen4exp": _ASK_THE_ENGINE,
    "dflash": _GUESSES,
    "eagle3": _GUESSES,
    "gemma4-assistant": _GUESSES,
    "dream": _DIFFUSES,
    "llada": _DIFFUSES,
    "llada-moe": _DIFFUSES,
    "rnd1": _DIFFUSES,
    "t5": _TRANSLATES,
    "t5encoder": _TRANSLATES,
    "pockettts": _SPEAKS,
    "qwen3tts": _SPEAKS,
    "wavtokenizer-dec": _SPEAKS,
}


def caches_of(facts: Facts) -> Caches:
    """The layers that cache, in order; UnknownArchitecture where no rule is known."""
    rule = RULES.get(facts.architecture)
    if rule is None:
        raise UnknownArchitecture(
            f"{facts.path}: how much memory a conversation takes is not known for architecture "
            f"{facts.architecture!r} ({_found(facts)})",
            hint=REFUSED.get(facts.architecture, UNKNOWN),
        )
    return rule(facts)


def _found(facts: Facts) -> str:
    """The facts that a rule would begin with, as far as the file has them."""
    keys = (
        ("layers", "block_count"),
        ("heads", "attention.head_count"),
        ("key-value heads", "attention.head_count_kv"),
        ("key length", "attention.key_length"),
        ("value length", "attention.value_length"),
        ("compressed length", "attention.kv_lora_rank"),
        ("window", WINDOW),
        ("state", "ssm.state_size"),
        ("trained context", "context_length"),
    )
    shown = [f"{name} {facts.shown(key)}" for name, key in keys if facts.has(key)]
    return "found: " + (", ".join(shown) or "none of the usual facts")
