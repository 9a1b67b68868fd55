"""How long a text a Hugging Face model was trained for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llmops.models.hf_config import ConfigFacts
    from llmops.models.hf_layers import Layers

# A model without positions has no longest text; convert_hf_to_gguf.py of llama.cpp writes this for it (Mamba).
UNBOUNDED_TOKENS = 2**20


def context_tokens(facts: ConfigFacts, layers: Layers) -> int:
    """Trained positions, stretched where the file says so (YaRN), as vLLM derives them (config/model.py, 0.33).

    Only YaRN keeps its original length beside the factor; other ways of stretching are in max_position_embeddings.
    """
    tokens = facts.integer("max_position_embeddings", None if layers.attention_layers else UNBOUNDED_TOKENS, least=1)
    for key in ("rope_scaling", "rope_parameters"):
        scaling = facts.part(key)
        if scaling is None or "yarn" not in {scaling.text("rope_type"), scaling.text("type")}:
            continue
        original = scaling.integer("original_max_position_embeddings", 0)
        factor = scaling.number("factor", 1.0)
        return max(tokens, scaling.whole_number("factor", int(original * factor)))
    return tokens
