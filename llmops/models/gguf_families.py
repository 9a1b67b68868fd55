"""Which layers of a model keep keys and values, and for how long: one rule for each general.architecture.

Read from src/llama-model.cpp (create_memory, load_hparams) and src/models/*.cpp of llama.cpp b11434. Adding a family
is adding its name to a rule, or a rule of its own. What is not here is refused, never guessed: recurrent and hybrid
models, compressed (MLA) caches, indexers, layers that share a cache, looped layers, draft heads and encoders.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from llmops.core.errors import UnknownArchitecture
from llmops.core.model import AttentionLayer
from llmops.models.gguf_facts import Facts
from llmops.models.gguf_reader import unreadable

Rule = Callable[[Facts], tuple[AttentionLayer, ...]]

PATTERN = "attention.sliding_window_pattern"
WINDOW = "attention.sliding_window"


def full_attention(facts: Facts) -> tuple[AttentionLayer, ...]:
    """Every layer with key-value heads keeps every token, whatever the file says of windows."""
    return _layers(facts, (False,) * facts.layers, None)


def windowed(
    facts: Facts,
    *,
    period: int | None,
    dense_first: bool = False,
    window_tokens: int | None = None,
    window_optional: bool = False,
    window_fixed: bool = False,
) -> tuple[AttentionLayer, ...]:
    """Most layers keep a window; the last (or first) layer of each period keeps everything.

    `period` None: the file must list the layers. `window_tokens` is used where the file gives none, or always when
    `window_fixed`. `window_optional`: a window of 0, or none in the file, means full attention.
    """
    given = facts.integer(WINDOW, 0 if window_optional else window_tokens)
    if given == 0 and window_optional:
        return full_attention(facts)
    if given == 0:
        raise facts.wrong(WINDOW, given)
    inside = _pattern(facts, period, dense_first=dense_first)
    return _layers(facts, inside, window_tokens if window_fixed else given)


def exaone4(facts: Facts) -> tuple[AttentionLayer, ...]:
    """Only the 64-layer model has windows (src/models/exaone4.cpp)."""
    return windowed(facts, period=4, window_tokens=4096) if facts.layers == 64 else full_attention(facts)


def llama4(facts: Facts) -> tuple[AttentionLayer, ...]:
    """Chunks of 8,192 tokens whatever the file says, unless it says 0 (src/models/llama4.cpp)."""
    if facts.has(WINDOW) and facts.integer(WINDOW) == 0:
        return full_attention(facts)
    return windowed(facts, period=4, window_tokens=8192, window_fixed=True)


def _pattern(facts: Facts, period: int | None, *, dense_first: bool) -> tuple[bool, ...]:
    listed = facts.switches(PATTERN)
    if listed is not None:  # layers after the end of the list are full
        return (listed + (False,) * facts.layers)[: facts.layers]
    if period is None:
        raise unreadable(facts.path, f"{PATTERN} of {facts.architecture} does not list its layers")
    period = facts.integer(PATTERN, period)
    if period == 0:
        return (True,) * facts.layers
    full = 0 if dense_first else period - 1
    return tuple(layer % period != full for layer in range(facts.layers))


def _layers(facts: Facts, inside: tuple[bool, ...], window_tokens: int | None) -> tuple[AttentionLayer, ...]:
    """Head counts and head lengths as load_hparams reads them; layers without key-value heads cache nothing."""
    heads = facts.per_layer("attention.head_count")
    kv_heads = facts.per_layer("attention.head_count_kv", heads)
    if heads[0] == 0:
        raise facts.wrong("attention.head_count", heads[0])
    default = facts.integer("embedding_length", least=1) // heads[0]
    key = facts.integer("attention.key_length", default)
    value = facts.integer("attention.value_length", default)
    key_inside = facts.integer("attention.key_length_swa", key)
    value_inside = facts.integer("attention.value_length_swa", value)
    return tuple(
        AttentionLayer(count, key_inside, value_inside, window_tokens)
        if within
        else AttentionLayer(count, key, value, None)
        for count, within in zip(kv_heads, inside, strict=False)
        if count
    )


# Architectures whose memory is one plain cache: the default branch of create_memory, no window set, no MLA.
FULL_ATTENTION = (
    "apertus", "arcee", "arctic", "baichuan", "bailingmoe", "bailingmoe2", "bitnet", "bloom", "chameleon",
    "chatglm", "codeshell", "cogvlm", "command-r", "dbrx", "deci", "deepseek", "deepseek2-ocr", "dots1",
    "ernie4_5", "ernie4_5-moe", "exaone", "falcon", "gemma", "glm4", "glm4moe", "gpt2", "gptneox", "granite",
    "granitemoe", "grok", "grovemoe", "hunyuan-dense", "hunyuan-moe", "hunyuan_vl", "hy_v3", "internlm2",
    "jais", "jais2", "llama", "maincoder", "minicpm", "minimax-m2", "mistral3", "mpt", "nemotron", "olmo",
    "olmoe", "openelm", "orion", "paddleocr", "pangu-embedded", "phi2", "phi3", "phimoe", "plamo", "qwen",
    "qwen2", "qwen2moe", "qwen2vl", "qwen3", "qwen3moe", "qwen3vl", "qwen3vlmoe", "refact", "seed_oss",
    "smollm3", "stablelm", "starcoder", "starcoder2", "xverse",
)  # fmt: skip

RULES: dict[str, Rule] = {
    **dict.fromkeys(FULL_ATTENTION, full_attention),
    "afmoe": partial(windowed, period=4, window_optional=True),
    "cohere2": partial(windowed, period=4),
    "cohere2moe": partial(windowed, period=4, dense_first=True),
    "exaone4": exaone4,
    "exaone-moe": partial(windowed, period=4),
    "gemma2": partial(windowed, period=2, window_tokens=4096),
    "gemma3": partial(windowed, period=6, window_optional=True),
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


def attention_layers(facts: Facts) -> tuple[AttentionLayer, ...]:
    """The layers that cache, in order; UnknownArchitecture where no rule is known."""
    rule = RULES.get(facts.architecture)
    if rule is None:
        raise UnknownArchitecture(
            f"{facts.path}: how much memory a conversation takes is not known for architecture "
            f"{facts.architecture!r} ({_found(facts)})",
            hint="llmops does not guess: use a model of a known architecture (docs/reference/models.md)",
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
        ("window", WINDOW),
        ("trained context", "context_length"),
    )
    shown = [f"{name} {facts.shown(key)}" for name, key in keys if facts.has(key)]
    return "found: " + (", ".join(shown) or "none of the usual facts")
