"""How single matrices of a quantised checkpoint are stored, and which of them are."""

from __future__ import annotations

from dataclasses import dataclass

from llmops.models.hf_patterns import NONE, Patterns
from llmops.models.hf_weights import Weight

# What quantisers leave alone without being told; experts are theirs, routers are not.
QUANTISED_ROLES = frozenset({"attention", "feed_forward", "experts", "shared_experts", "state"})


@dataclass(frozen=True)
class Scheme:
    """How one matrix is stored: `bits` of one weight, and `scale_bytes` for each block of rows by columns.

    A block of 0 rows or columns is as long as the matrix. `storage_type` is what safetensors calls the weights' tensor,
    whose integers hold several weights where `is_packed`.
    """

    bits: int
    storage_type: str
    block_rows: int
    block_columns: int
    scale_bytes: float
    is_packed: bool = False

    def stored_bytes(self, weight: Weight) -> int:
        """Bytes of one copy of a matrix with its scales."""
        blocks = _blocks(weight.rows, self.block_rows) * _blocks(weight.columns, self.block_columns)
        return -(-weight.elements * self.bits // 8) + int(blocks * self.scale_bytes + 0.999)


def _blocks(length: int, block: int) -> int:
    return -(-length // block) if block else 1


@dataclass(frozen=True)
class Rule:
    """The modules that a scheme is for."""

    targets: Patterns
    scheme: Scheme | None


@dataclass(frozen=True)
class Quantization:
    """What a checkpoint says of its weights: `method` in its own word, `label` for people.

    `is_known` False: the method's layout is not known here, so only tensors can tell what the weights take.
    `cache_data_type` is what the checkpoint was made for its keys and values, None where it does not say.
    """

    method: str
    label: str
    rules: tuple[Rule, ...] = ()
    ignored: Patterns = NONE
    roles: frozenset[str] = QUANTISED_ROLES
    cache_data_type: str | None = None
    is_known: bool = True

    @property
    def block(self) -> tuple[int, int]:
        """Rows and columns that share a scale, by the rule for most matrices; 0 where none do, or all of them."""
        scheme = next((rule.scheme for rule in reversed(self.rules) if rule.scheme is not None), None)
        return (0, 0) if scheme is None else (scheme.block_rows, scheme.block_columns)

    def scheme_of(self, weight: Weight) -> Scheme | None:
        """How a weight is stored; None for one that keeps the model's own type."""
        if weight.role not in self.roles or not weight.columns or self.ignored.match(weight.module):
            return None
        return next((rule.scheme for rule in self.rules if rule.targets.match(weight.module)), None)

    def packed_bits(self, tensor: str) -> int | None:
        """Bits of one weight in a tensor whose integers hold several; None where they do not."""
        module = tensor.rpartition(".")[0] or tensor
        scheme = next((rule.scheme for rule in self.rules if rule.targets.match(module)), None)
        return scheme.bits if scheme is not None and scheme.is_packed else None
