"""What a config.json says of a model's layers: the caches and states of the main model, and its draft layers."""

from __future__ import annotations

from dataclasses import dataclass

from llmops.core.model import AttentionLayer, StateLayer


@dataclass(frozen=True)
class Layers:
    """`count` layers of the main model, each numbered in the lists; a layer that caches nothing is in neither list.

    `draft_layers` only guess next tokens and are not counted. `state_data_type` is the type that the model asks for its
    recurrent states, None where it does not say. `notes` are facts that an engine may treat differently.
    """

    count: int
    attention_layers: tuple[AttentionLayer, ...]
    state_layers: tuple[StateLayer, ...] = ()
    draft_layers: int = 0
    state_data_type: str | None = None
    notes: tuple[str, ...] = ()
