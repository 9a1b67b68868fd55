"""Which layers of a model keep what, from its config.json: one rule for each model_type, by the file's own keys.

Adding a family is adding its name to a rule, or a rule of its own. What is not here is refused with the numbers that
were found, never guessed; the other hf_families_* modules name their sources.
"""

from __future__ import annotations

from collections.abc import Callable
from reprlib import repr as brief

from llmops.core.errors import UnknownArchitecture
from llmops.models.gguf_facts import MAX_VALUE
from llmops.models.hf_config import ConfigFacts
from llmops.models.hf_defaults import language_facts
from llmops.models.hf_families_attention import Decoder, heads_with_indexer, latent, latent_twice, latent_with_indexer
from llmops.models.hf_families_special import (
    encoder,
    gemma3,
    gemma4,
    grouped_blocks,
    groups_when_switched_on,
    llama4,
    mimo,
    nested_heads,
    one_or_all,
    rebuilt_latent,
    shared_at_the_end,
)
from llmops.models.hf_families_state import (
    all_both,
    all_state,
    by_group,
    by_indices,
    by_interval,
    by_numbers,
    by_period,
    gated_delta,
    hybrid,
    kimi_delta,
    mamba,
    mamba2,
    short_convolution,
)
from llmops.models.hf_layers import Layers
from llmops.models.hf_overrides import with_overrides
from llmops.models.hf_windows import window_by_period, window_listed, window_when_switched_on, window_where_rotated

Rule = Callable[[ConfigFacts], Layers]

PHI_NOTE = "the window is used by vLLM; llama.cpp keeps every token of this family"
QWEN_NOTE = "windows in some layers only: vLLM refuses such a file or gives all layers the window"

_DECODERS = (
    "apertus", "arcee", "aria_text", "baichuan", "bailing_moe", "bailing_moe_v2", "bitnet", "bloom", "codegen",
    "cohere", "deepseek", "dots1", "ernie4_5", "ernie4_5_moe", "ernie4_5_vl_moe_text", "exaone", "flex_olmo", "gemma",
    "glm", "glm4", "glm4_moe", "glm4v_moe_text", "glm4v_text", "gpt2", "gpt_neox", "gptj", "granite", "granitemoe",
    "granitemoeshared", "helium", "hunyuan_v1_dense", "hunyuan_v1_moe", "hunyuan_vl_text", "hy_v3", "hyperclovax",
    "internlm", "internlm2", "internlm3", "iquestcoder", "jais2", "llama", "minicpm", "minimax_m2", "ministral",
    "ministral3", "mistral", "mixtral", "nemotron", "olmo", "olmo2", "olmoe", "opt", "orion", "paddleocr_vl_text",
    "persimmon", "phi", "qwen", "qwen3_vl_moe_text", "qwen3_vl_text", "sarvam_moe", "seed_oss", "solar_open",
    "PanguEmbedded", "TeleFLM", "param2moe", "solar", "stablelm", "starcoder2", "step3_text", "telechat", "telechat2",
    "telechat3",
)  # fmt: skip
_QWENS = (
    "mimo", "minicpmo", "minicpmv", "qwen2", "qwen2_5_omni_text", "qwen2_5_vl", "qwen2_5_vl_text", "qwen2_moe",
    "qwen2_vl", "qwen2_vl_text", "qwen3", "qwen3_moe", "qwen3_omni_moe_text",
)  # fmt: skip
_LATENT = (
    "AXK1", "axk1", "deepseek_v2", "deepseek_v3", "deepseek_vl_v2", "glm4_moe_lite", "kimi_k2", "mistral4",
    "pangu_ultra_moe", "sarvam_mla", "youtu",
)  # fmt: skip
_ENCODERS = (
    "albert", "bert", "camembert", "deberta-v2", "distilbert", "electra", "modernbert", "mpnet", "nomic_bert",
    "roberta", "xlm-roberta",
)  # fmt: skip

RULES: dict[str, Rule] = {
    **dict.fromkeys(_DECODERS, Decoder()),
    **dict.fromkeys(_QWENS, Decoder(window_when_switched_on, QWEN_NOTE)),
    **dict.fromkeys(_LATENT, latent),
    **dict.fromkeys(_ENCODERS, encoder),
    **dict.fromkeys(("phi3", "phi4_multimodal", "phi4mm", "phimoe"), Decoder(note=PHI_NOTE)),
    **dict.fromkeys(("deepseek_v32", "glm_moe_dsa"), latent_with_indexer),
    **dict.fromkeys(("falcon", "gpt_bigcode"), one_or_all),
    **dict.fromkeys(("minimax_m3", "minimax_m3_text", "minimax_m3_vl_text"), heads_with_indexer),
    **dict.fromkeys(("dbrx", "mpt"), nested_heads),
    **dict.fromkeys(("deci", "nemotron-nas"), grouped_blocks),
    "afmoe": Decoder(window_by_period(4, key="global_attn_every_n_layers")),
    "bailing_hybrid": hybrid(kimi_delta, by_group),
    "bamba": hybrid(mamba2, by_indices),
    "chatglm": groups_when_switched_on,
    **dict.fromkeys(("cwm", "granite_swa", "granitemoe_swa"), Decoder(window_by_period(4, full_first=True))),
    **dict.fromkeys(("gemma4_text", "gemma4_unified_text"), gemma4),
    **dict.fromkeys(("gemma2", "vaultgemma"), Decoder(window_by_period(2))),
    **dict.fromkeys(("step3p5", "step3p7"), Decoder(window_listed)),
    "cohere2": Decoder(window_by_period(4)),
    "cohere2_moe": Decoder(window_by_period(4)),
    "exaone4": Decoder(window_by_period(4)),
    "exaone_moe": Decoder(window_by_period(4)),
    "falcon_h1": hybrid(mamba2, all_both),
    "falcon_mamba": hybrid(mamba, all_state),
    "gemma3_text": gemma3,
    "gemma3n_text": shared_at_the_end,
    "gpt_oss": Decoder(window_by_period(2)),
    "granitemoehybrid": hybrid(mamba2, all_state),
    "jamba": hybrid(mamba, by_period),
    "kimi_linear": hybrid(kimi_delta, by_numbers),
    "longcat_flash": latent_twice,
    "laguna": Decoder(window_by_period(4, full_first=True)),
    "lfm2": hybrid(short_convolution, by_indices),
    "lfm2_moe": hybrid(short_convolution, by_indices),
    "llama4_text": llama4,
    "mamba": hybrid(mamba, all_state),
    "mamba2": hybrid(mamba2, all_state),
    "mellum": Decoder(window_by_period(4)),
    **dict.fromkeys(("mimo_v2", "mimo_v2_flash"), mimo),
    "minicpm3": rebuilt_latent,
    "nemotron_h": hybrid(mamba2, all_state),
    "olmo_hybrid": hybrid(gated_delta, by_interval),
    "olmo3": Decoder(window_by_period(4)),
    "qwen3_5_moe_text": hybrid(gated_delta, by_interval),
    "qwen3_5_text": hybrid(gated_delta, by_interval),
    "qwen3_next": hybrid(gated_delta, by_interval),
    "smollm3": Decoder(window_where_rotated),
    "zamba2": hybrid(mamba2, all_state),
}


def layers_of(facts: ConfigFacts) -> Layers:
    """What each layer of the model keeps; UnknownArchitecture where no rule is known, UnreadableInput otherwise."""
    part = language_facts(facts)
    rule = RULES.get(family_of(part))
    if rule is None:
        raise unknown(part, "how much memory a conversation takes")
    return with_overrides(part, rule(part))


def family_of(facts: ConfigFacts) -> str:
    """The model_type, or for a file without one the name that its class would have."""
    if facts.model_type:
        return facts.model_type
    name = "".join(facts.architectures[:1]).removesuffix("ForCausalLM").lower()
    return next((family for family in RULES if family.replace("_", "") == name), name)


def unknown(facts: ConfigFacts, what: str) -> UnknownArchitecture:
    """The refusal, with the numbers that a rule would begin with."""
    keys = (
        "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "hidden_size", "sliding_window",
        "kv_lora_rank", "max_position_embeddings",
    )  # fmt: skip
    found = [f"{key} {_shown(facts.find(key)[1])}" for key in keys if facts.has(key)]
    named = family_of(facts) or "(no model_type)"
    return UnknownArchitecture(
        f"{facts.path}: {what} is not known for model_type {named!r:.60} (found: "
        f"{', '.join(found) or 'none of the usual facts'})",
        hint="llmops does not guess: use a model of a known architecture (docs/reference/models.md)",
    )


def _shown(value: object) -> str:
    """A value as it may stand in a message; numbers of any size too."""
    if isinstance(value, int) and abs(value) > MAX_VALUE:
        return "a number that cannot be"
    return brief(value)
