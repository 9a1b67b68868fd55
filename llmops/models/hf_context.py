"""How long a text a Hugging Face model was trained for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llmops.models.hf_config import ConfigFacts
    from llmops.models.hf_layers import Layers

# A model without positions has no longest text; convert_hf_to_gguf.py of llama.cpp writes this for it (Mamba).
UNBOUNDED_TOKENS = 2**20


# vLLM's own assumption where config.json does not say (config/model.py).
ASSUMED_TOKENS = 2048


def context_tokens(facts: ConfigFacts, layers: Layers) -> int:
    """Trained positions that every engine takes: those of max_position_embeddings.

    vLLM 0.30 and later and convert_hf_to_gguf.py take these as they are; what YaRN adds is said by `context_notes`.
    """
    default = ASSUMED_TOKENS if layers.attention_layers else UNBOUNDED_TOKENS
    return facts.integer("max_position_embeddings", default, least=1)


def context_notes(facts: ConfigFacts, layers: Layers) -> tuple[str, ...]:
    """What engines make differently of the trained positions."""
    tokens = context_tokens(facts, layers)
    if layers.attention_layers and not facts.has("max_position_embeddings"):
        return (
            f"config.json does not say for how long a text it was trained: {tokens} tokens are assumed, as vLLM does",
        )
    stretched = _stretched_tokens(facts)
    if stretched <= tokens:
        return ()
    return (
        f"its positions are stretched to {stretched} tokens (YaRN), which vLLM before 0.30 takes; later ones and"
        f" llama-server take the {tokens} of max_position_embeddings: set that to {stretched} to use them all",
    )


def _stretched_tokens(facts: ConfigFacts) -> int:
    """The original length times the factor of YaRN; 0 without one."""
    for key in ("rope_scaling", "rope_parameters"):
        scaling = facts.part(key)
        if scaling is None or "yarn" not in {scaling.text("rope_type"), scaling.text("type")}:
            continue
        original = scaling.integer("original_max_position_embeddings", 0)
        return scaling.whole_number("factor", int(original * scaling.number("factor", 1.0)))
    return 0
