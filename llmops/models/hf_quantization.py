"""How a checkpoint is quantised, by the quantization_config of config.json or by a hf_quant_config.json beside it."""

from __future__ import annotations

from collections.abc import Callable

from llmops.models.hf_config import ConfigFacts
from llmops.models.hf_quantization_formats import (
    affine,
    bitnet,
    bitsandbytes,
    compressed_tensors,
    float8,
    float8_rows,
    integers,
    modelopt,
    mxfp4,
)
from llmops.models.hf_scheme import Quantization

_READERS: dict[str, Callable[[ConfigFacts], Quantization]] = {
    "auto-round": integers,
    "auto_round": integers,
    "awq": integers,
    "awq_marlin": integers,
    "bitnet": bitnet,
    "bitsandbytes": bitsandbytes,
    "compressed-tensors": compressed_tensors,
    "fbgemm_fp8": float8_rows,
    "fp8": float8,
    "gptq": integers,
    "gptq_marlin": integers,
    "inc": integers,
    "mlx": affine,
    "modelopt": modelopt,
    "modelopt_fp4": modelopt,
    "modelopt_mixed": modelopt,
    "modelopt_mxfp8": modelopt,
    "mxfp4": mxfp4,
}

# Formats of other programs: their sizes may be known, but no engine here loads them.
FOREIGN = frozenset({"exl2", "exl3", "mlx"})


def quantization_of(facts: ConfigFacts, separate: ConfigFacts | None = None) -> Quantization | None:
    """How the model is quantised, None where it is not. `separate` is a hf_quant_config.json beside config.json."""
    part = facts.language().part("quantization_config") or facts.whole.part("quantization_config")
    part = part or facts.whole.part("compression_config") or facts.whole.part("quantization")
    if part is None and separate is not None:
        part = separate.part("quantization") or separate
    if part is None:
        return None
    method = (part.text("quant_method") or _implied(part)).lower()
    reader = _READERS.get(method)
    if reader is None:
        return Quantization(method or "unknown", method or "unknown", is_known=False)
    return reader(part)


def _implied(part: ConfigFacts) -> str:
    """The method of a configuration that does not name it, by keys that one alone has."""
    if part.has("quant_algo"):
        return "modelopt"
    if part.has("load_in_4bit") or part.has("load_in_8bit"):
        return "bitsandbytes"
    return "mlx" if part.has("bits") and part.has("group_size") else ""
