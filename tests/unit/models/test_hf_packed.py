"""Checkpoints in every common quantised form: as many parameters as in 16 bits, and the bytes of their tensors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from llmops.models import read_model
from tests.doubles import safetensors_files as made
from tests.unit.models.hub import HubDisk, Shape, llama_tensors, write_model

HOST = HubDisk().as_host()
PARAMETERS = sum(shape[0] * (shape[1] if len(shape) > 1 else 1) for _, shape in llama_tensors().values())
Packed = Callable[[int, int], dict[str, Shape]]


def compressed(form: str, **weights: object) -> dict[str, object]:
    group = {"targets": ["Linear"], "weights": weights}
    return {"quant_method": "compressed-tensors", "format": form, "ignore": ["lm_head"], "config_groups": {"a": group}}


FORMS: dict[str, tuple[dict[str, object], Packed]] = {
    "awq": (
        {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True},
        lambda rows, columns: {
            "qweight": ("I32", (columns, rows // 8)),
            "qzeros": ("I32", (columns // 32, rows // 8)),
            "scales": ("F16", (columns // 32, rows)),
        },
    ),
    "gptq, 8 bits": (
        {"quant_method": "gptq", "bits": 8, "group_size": 32, "desc_act": False},
        lambda rows, columns: {
            "qweight": ("I32", (columns // 4, rows)),
            "qzeros": ("I32", (columns // 32, rows // 4)),
            "scales": ("F16", (columns // 32, rows)),
            "g_idx": ("I32", (columns,)),
        },
    ),
    "compressed-tensors, packed": (
        compressed("pack-quantized", num_bits=4, type="int", group_size=32, strategy="group", symmetric=True),
        lambda rows, columns: {
            "weight_packed": ("I32", (rows, columns // 8)),
            "weight_scale": ("BF16", (rows, columns // 32)),
            "weight_shape": ("I64", (2,)),
        },
    ),
    "compressed-tensors, NVFP4": (
        compressed("nvfp4-pack-quantized", num_bits=4, type="float", group_size=16, strategy="tensor_group"),
        lambda rows, columns: {
            "weight_packed": ("U8", (rows, columns // 2)),
            "weight_scale": ("F8_E4M3", (rows, columns // 16)),
            "weight_global_scale": ("F32", (1,)),
            "input_global_scale": ("F32", (1,)),
        },
    ),
    "compressed-tensors, FP8": (
        compressed("float-quantized", num_bits=8, type="float", strategy="channel", symmetric=True),
        lambda rows, columns: {"weight": ("F8_E4M3", (rows, columns)), "weight_scale": ("BF16", (rows, 1))},
    ),
    "modelopt, NVFP4": (
        {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16, "exclude_modules": ["lm_head"]},
        lambda rows, columns: {
            "weight": ("U8", (rows, columns // 2)),
            "weight_scale": ("F8_E4M3", (rows, columns // 16)),
            "weight_scale_2": ("F32", ()),
            "input_scale": ("F32", ()),
        },
    ),
    "bitsandbytes": (
        {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
        lambda rows, columns: {
            "weight": ("U8", (rows * columns // 2, 1)),
            "weight.absmax": ("F32", (rows * columns // 64,)),
            "weight.quant_map": ("F32", (16,)),
            "weight.quant_state.bitsandbytes__nf4": ("U8", (80,)),
        },
    ),
    "fp8": (
        {"quant_method": "fp8", "weight_block_size": [32, 32], "activation_scheme": "dynamic"},
        lambda rows, columns: {
            "weight": ("F8_E4M3", (rows, columns)),
            "weight_scale_inv": ("F32", (rows // 32, columns // 32)),
        },
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_parameters_and_bytes(form: str, tmp_path: Path) -> None:
    said, pack = FORMS[form]
    tensors: dict[str, Shape] = {}
    for name, (data_type, shape) in llama_tensors().items():
        if "_proj." in name:
            module = name.removesuffix("weight")
            tensors |= {f"{module}{part}": packed for part, packed in pack(*shape).items()}
        else:
            tensors[name] = (data_type, shape)
    found = read_model(HOST, str(write_model(tmp_path / "tensors", tensors, quantization_config=said)))
    assert found.parameters == found.active_parameters == PARAMETERS
    assert found.weights_bytes == made.data_bytes(tensors) < 2 * PARAMETERS
    assert found.quantization_method == str(said["quant_method"]) or form.startswith("modelopt")
    computed = read_model(HOST, str(write_model(tmp_path / "config", {}, quantization_config=said)))
    assert computed.parameters == PARAMETERS
    assert computed.weights_bytes == pytest.approx(found.weights_bytes, rel=0.04)
