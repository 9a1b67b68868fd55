"""How a checkpoint is quantised, by the quantization_config of config.json or by a hf_quant_config.json beside it."""

from __future__ import annotations

from collections.abc import Callable

from llmops.models.hf_config import ConfigFacts
from llmops.models.hf_quantization_formats import (
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
    "awq": integers,
    "bitnet": bitnet,
    "bitsandbytes": bitsandbytes,
    "compressed-tensors": compressed_tensors,
    "fbgemm_fp8": float8_rows,
    "fp8": float8,
    "gptq": integers,
    "modelopt": modelopt,
    "modelopt_fp4": modelopt,
    "mxfp4": mxfp4,
}


def quantization_of(facts: ConfigFacts, separate: ConfigFacts | None = None) -> Quantization | None:
    """How the model is quantised, None where it is not. `separate` is a hf_quant_config.json beside config.json."""
    part = facts.language().part("quantization_config") or facts.whole.part("quantization_config")
    part = part or facts.whole.part("compression_config")
    if part is None and separate is not None:
        part = separate.part("quantization") or separate
    if part is None:
        return None
    method = (part.text("quant_method") or ("modelopt" if part.has("quant_algo") else "")).lower()
    reader = _READERS.get(method)
    if reader is None:
        return Quantization(method or "unknown", method or "unknown", is_known=False)
    return reader(part)
