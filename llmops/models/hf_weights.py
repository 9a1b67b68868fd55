"""The weights of a model as its config.json implies them, one row for each module and layer; no file is read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Weight:
    """The weight of one module (its Hugging Face name without `.weight`), or of `copies` equal ones (experts).

    `columns` 0: a vector of `rows` elements, which no quantisation touches. `role` is embedding, output, attention,
    feed_forward, experts, shared_experts, router, state, norm, encoder or draft. `active_copies` are read for a token.
    """

    module: str
    role: str
    rows: int
    columns: int = 0
    copies: int = 1
    active_copies: int = 1
    layer: int | None = None

    @property
    def elements(self) -> int:
        """Elements of one copy."""
        return self.rows * (self.columns or 1)

    @property
    def parameters(self) -> int:
        """Elements of all copies."""
        return self.elements * self.copies


@dataclass(frozen=True)
class Parameters:
    """All weights of a model; `total` and `active` count the language model and its encoders, not the draft layers."""

    weights: tuple[Weight, ...]

    @property
    def total(self) -> int:
        """Parameters of the main model and its encoders."""
        return sum(weight.parameters for weight in self.weights if weight.role != "draft")

    @property
    def active(self) -> int:
        """Parameters that one token of text passes through: of the experts only those chosen, no encoder."""
        used = (weight for weight in self.weights if weight.role not in {"draft", "encoder"})
        return sum(weight.elements * weight.active_copies for weight in used)

    @property
    def draft(self) -> int:
        """Parameters of the layers that only guess next tokens."""
        return self.of("draft")

    def of(self, role: str) -> int:
        """Parameters of one role."""
        return sum(weight.parameters for weight in self.weights if weight.role == role)
