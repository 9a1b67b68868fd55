"""What config.json files leave out and every engine fills in: the defaults of transformers' configuration classes.

Read from configuration_*.py of transformers 5. Sizes that a whole model must say are filled in only for the language
part of a model that also sees or hears, because only there do published files leave them out.
"""

from __future__ import annotations

from collections.abc import Mapping

from llmops.models.hf_config import ALIASES, ConfigFacts

HEAD_DIM: Mapping[str, int] = {
    "afmoe": 128, "bailing_hybrid": 128, "cohere2_moe": 128, "ernie4_5": 128, "gemma": 256, "gemma2": 256,
    "gemma3_text": 256, "gemma3n_text": 256, "gemma4_text": 256, "gemma4_unified_text": 256, "glm": 128, "glm4": 128,
    "gpt_oss": 64, "helium": 128, "internlm3": 128, "laguna": 128, "llama4_text": 128, "mellum": 128,
    "mimo_v2_flash": 192, "minimax_m2": 128, "ministral3": 128, "nemotron_h": 128, "qwen3": 128,
    "qwen3_5_moe_text": 256, "qwen3_5_text": 256, "qwen3_next": 256, "qwen3_vl_text": 128, "seed_oss": 128,
    "solar_open": 128, "vaultgemma": 256,
}  # fmt: skip

# The classes that take the output matrix from the input embeddings where the file does not say.
TIED = frozenset(
    {
        "bloom", "cohere", "cohere2", "cohere2_moe", "ernie4_5", "ernie4_5_moe", "falcon", "falcon_mamba", "gemma",
        "gemma2", "gemma3_text", "gemma3n_text", "gemma4_text", "gemma4_unified_text", "gpt2", "gpt_bigcode",
        "granite_swa", "lfm2", "lfm2_moe", "mamba", "minicpm3", "mpt", "opt", "smollm3", "starcoder2", "vaultgemma",
        "youtu", "zamba2",
    }
)  # fmt: skip

# vocabulary, hidden, feed-forward, layers, heads, key-value heads, trained context
_SIZES: Mapping[str, tuple[int, ...]] = {
    "gemma3_text": (262208, 2304, 9216, 26, 8, 4, 131072),
    "gemma3n_text": (262400, 2048, 16384, 35, 8, 2, 32768),
    "gemma4_text": (262144, 2304, 9216, 30, 8, 4, 131072),
    "gemma4_unified_text": (262144, 2304, 9216, 30, 8, 4, 262144),
    "llama": (32000, 4096, 11008, 32, 32, 32, 2048),
    "llama4_text": (202048, 5120, 8192, 48, 40, 8, 131072),
    "mistral": (32000, 4096, 14336, 32, 32, 8, 131072),
    "qwen2": (151936, 4096, 22016, 32, 32, 32, 32768),
    "qwen3": (151936, 4096, 22016, 32, 32, 32, 32768),
    "qwen3_5_moe_text": (248320, 2048, 0, 40, 16, 2, 32768),
    "qwen3_5_text": (248320, 4096, 12288, 32, 16, 4, 32768),
    "qwen3_vl_text": (151936, 4096, 22016, 32, 32, 32, 128000),
}
_SIZE_KEYS = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "max_position_embeddings",
)  # fmt: skip


def language_facts(facts: ConfigFacts) -> ConfigFacts:
    """The language part of a config.json with what its class fills in for keys that are not there at all."""
    part = facts.language()
    family = part.model_type
    defaults: dict[str, object] = {}
    if family in HEAD_DIM:
        defaults["head_dim"] = HEAD_DIM[family]
    if family in TIED and not part.has("tie_word_embeddings"):
        defaults["tie_word_embeddings"] = True
    if part.whole is not part:
        defaults.update(zip(_SIZE_KEYS, _SIZES.get(family, ()), strict=False))
    added = {key: value for key, value in defaults.items() if not _named(part, key)}
    tied = facts.whole.values.get("tie_word_embeddings")
    if isinstance(tied, bool):  # the class of the whole model has the output matrix, so its word counts
        added["tie_word_embeddings"] = tied
    return ConfigFacts(part.path, {**part.values, **added}, part.where, facts.whole if part.where else None)


def _named(facts: ConfigFacts, key: str) -> bool:
    """Whether the key is there under any of its names, if only as null."""
    return any(name in facts.values for name in (key, *ALIASES.get(key, ())))
