"""What every layer of a model weighs, and how much of it are experts: what a split over devices divides."""

from __future__ import annotations

from itertools import pairwise

from llmops.core.model import ModelSpec

# Bytes of one layer, and those of them in routed experts.
LayerWeight = tuple[int, int]


def layer_weights(model: ModelSpec) -> tuple[LayerWeight, ...]:
    """Every layer of the main model; together exactly the repeating weights.

    Layers whose tensors were not read one by one are taken as equally large, with equally many bytes of experts.
    """
    repeating = sum(group.stored_bytes for group in model.tensors if group.role == "repeating")
    known = model.layer_weights
    if len(known) != model.layers or sum(size for size, _ in known) != repeating:
        experts = min(int(expert_bytes(model)), repeating)
        return _even(repeating, experts, known if len(known) == model.layers else (), model.layers)
    return known


def _even(repeating: int, experts: int, shares: tuple[LayerWeight, ...], layers: int) -> tuple[LayerWeight, ...]:
    """Sizes of which only the sums are known, by the shares of another storage type where there are any."""
    whole = [size for size, _ in shares] or [1] * layers
    routed = [size for _, size in shares] or [1] * layers
    sizes, of_experts = _divided(repeating, whole), _divided(experts, routed)
    return tuple((size, min(size, expert)) for size, expert in zip(sizes, of_experts, strict=True))


def _divided(total: int, shares: list[int]) -> list[int]:
    """Whole numbers that sum to the total, as large as their shares."""
    whole = sum(shares)
    if not whole:
        return [0] * len(shares)
    ends, reached = [0], 0
    for share in shares:
        reached += share
        ends.append(total * reached // whole)
    return [end - start for start, end in pairwise(ends)]


def expert_bytes(model: ModelSpec) -> float:
    """All routed experts' bytes, from the part of the weights that one token leaves unread."""
    share = model.experts_used / model.experts if model.experts else 0.0
    if not 0.0 < share < 1.0:
        return 0.0
    never_read = {"draft"} if model.tied_output else {"draft", "input"}
    other_bytes = sum(group.stored_bytes for group in model.tensors if group.role in never_read)
    unread = model.weights_bytes - model.active_weights_bytes - other_bytes - model.encoder_weights_bytes
    return min(max(unread, 0) / (1.0 - share), model.active_weights_bytes / share)


def output_role(model: ModelSpec) -> str:
    """The tensors that the output layer multiplies with: its own, or the token embeddings where it has none."""
    return "input" if model.tied_output else "output"
