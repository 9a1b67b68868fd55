"""What the weights of a model take by its config.json alone, for when none of them are there."""

from __future__ import annotations

from dataclasses import dataclass

from llmops.core.errors import UnreadableInput
from llmops.core.model import TensorGroup
from llmops.models.hf_config import ConfigFacts
from llmops.models.hf_defaults import language_facts
from llmops.models.hf_parameters import parameters_of
from llmops.models.hf_parameters_encoders import uncounted_encoders
from llmops.models.hf_scheme import Quantization
from llmops.models.hf_tensors import HfWeights
from llmops.models.hf_weights import Parameters, Weight

# What safetensors calls the types that config.json names, and their bytes.
DATA_TYPES = {
    "float64": ("F64", 8),
    "float32": ("F32", 4),
    "float16": ("F16", 2),
    "half": ("F16", 2),
    "bfloat16": ("BF16", 2),
}
_ROLES = {"embedding": "input", "output": "output", "encoder": "encoder", "draft": "draft"}


@dataclass(frozen=True)
class Estimate:
    """`weights` as likely; the stored bytes lie between the other two, and `notes` say what is not known."""

    weights: HfWeights
    low_bytes: int
    high_bytes: int
    notes: tuple[str, ...]


def estimated_weights(facts: ConfigFacts, quantization: Quantization | None) -> Estimate:
    """The weights that a config.json implies.

    Raises UnknownArchitecture for families whose weights are not known, UnreadableInput for a quantisation whose
    layout is not.
    """
    if quantization is not None and not quantization.is_known:
        raise UnreadableInput(
            f"{facts.path}: what weights quantised by {quantization.method!r:.40} take is not known from config.json",
            hint="download the model: the sizes of its tensors say it",
        )
    part = language_facts(facts)
    named, width = DATA_TYPES.get((part.text("dtype") or "bfloat16").removeprefix("torch."), ("BF16", 2))
    parameters = parameters_of(facts)
    rows = [_Row.of(weight, quantization, named, width) for weight in parameters.weights]
    weights = _summed(parameters, rows, tied=not parameters.of("output"))
    low = weights.stored_bytes - weights.draft_bytes
    high = weights.stored_bytes + _unsure_bytes(facts, rows)
    return Estimate(weights, low, high, _notes(facts, part, weights, quantization))


@dataclass(frozen=True)
class _Row:
    weight: Weight
    role: str
    storage_type: str
    stored_bytes: int  # of one copy

    @classmethod
    def of(cls, weight: Weight, quantization: Quantization | None, named: str, width: int) -> _Row:
        role = _ROLES.get(weight.role, "repeating" if weight.layer is not None else "other")
        scheme = quantization.scheme_of(weight) if quantization is not None else None
        if scheme is None:
            return cls(weight, role, named, weight.elements * width)
        return cls(weight, role, scheme.storage_type, scheme.stored_bytes(weight))


def _summed(parameters: Parameters, rows: list[_Row], *, tied: bool) -> HfWeights:
    sums: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        total = sums.setdefault((row.role, row.storage_type), [0, 0, 0, 0])
        stored = row.stored_bytes * row.weight.copies
        amounts = (row.weight.copies, row.weight.parameters, stored, stored if row.weight.columns else 0)
        for column, amount in enumerate(amounts):
            total[column] += amount
    by_role: dict[str, int] = {}
    for (role, _), total in sums.items():
        by_role[role] = by_role.get(role, 0) + total[2]
    embedding = next((row for row in rows if row.weight.role == "embedding"), None)
    read = sum(row.stored_bytes * row.weight.active_copies for row in rows if row.role in {"repeating", "output"})
    return HfWeights(
        groups=tuple(TensorGroup(*key, *total) for key, total in sorted(sums.items())),
        parameters=parameters.total + parameters.draft,
        active_parameters=parameters.active,
        stored_bytes=sum(by_role.values()),
        active_bytes=read + (embedding.stored_bytes if tied and embedding else 0),
        encoder_bytes=by_role.get("encoder", 0),
        draft_bytes=by_role.get("draft", 0),
        tied_output=tied,
        vocabulary_rows=embedding.weight.rows if embedding else 0,
    )


def _unsure_bytes(facts: ConfigFacts, rows: list[_Row]) -> int:
    """Encoders of unknown kinds may take a quarter more than counted."""
    encoders = sum(row.stored_bytes * row.weight.copies for row in rows if row.role == "encoder")
    return encoders // 4 if uncounted_encoders(facts) else 0


def _notes(
    facts: ConfigFacts, part: ConfigFacts, weights: HfWeights, quantization: Quantization | None
) -> tuple[str, ...]:
    notes = [
        "its weights are computed from config.json, for no .safetensors file is there; those of the whole download are"
        " exact"
    ]
    if not part.has("dtype"):
        notes.append("config.json does not name the type of its weights: bfloat16 is assumed")
    if weights.draft_bytes:
        notes.append("layers that only guess next tokens are counted in its size, which a file may lack")
    notes += [f"the encoder {kind!r:.40} is estimated by its sizes" for kind in uncounted_encoders(facts)]
    if quantization is not None:
        notes.append(f"scales of {quantization.label} are counted as its exporters write them")
    return tuple(notes)
