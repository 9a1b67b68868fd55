"""What is said of a download that lacks what chats need, before anything is started."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from llmops.engines.found import InForce
from llmops.engines.vllm.quantizations import check_quantization
from llmops.host.local import LocalHost
from tests.truth.tiny_models import full_attention, write_model
from tests.unit.engines.vllm_host import VLLM, VllmHost, installed, plan_of


def without_template(model: Path) -> None:
    path = model / "tokenizer_config.json"
    said = json.loads(path.read_text(encoding="utf-8"))
    del said["chat_template"]
    path.write_text(json.dumps(said), encoding="utf-8")


def without_tokenizer(model: Path) -> None:
    (model / "tokenizer.json").unlink()


def without_weights(model: Path) -> None:
    (model / "model.safetensors").unlink()
    without_tokenizer(model)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda _: None, None),
        (without_template, "no chat template is beside the model"),
        (without_tokenizer, "no tokenizer is beside the model"),
        (without_weights, None),
    ],
)
def test_what_a_download_lacks_is_a_warning(damage: Callable[[Path], None], said: str | None, tmp_path: Path) -> None:
    model = write_model(full_attention(), tmp_path)
    damage(model)
    found = VLLM.models(LocalHost(), (str(model),), installed("0.32.0"), InForce())
    assert [said is not None and said in line for line in found.warnings] == ([] if said is None else [True])


@pytest.mark.parametrize(
    ("listed", "warns"),
    [
        ('"awq",\n    "compressed-tensors",\n    # below\n    "frobnicate",\n', False),
        ('"awq",\n    "fp8",\n', True),
        (None, False),
    ],
)
def test_a_quantisation_that_the_package_does_not_name(listed: str | None, warns: bool) -> None:
    host, model = VllmHost(), replace(plan_of().model, quantization_method="frobnicate")
    host.environment_of("/opt/vllm", "vllm-0.32.0.dist-info")
    place = "/opt/vllm/lib/python3.12/site-packages/vllm/model_executor/layers/quantization/__init__.py"
    if listed is not None:
        host.files[place] = f"QuantizationMethods = Literal[\n    {listed}]\nOTHER = ['frobnicate']\n"
    said = check_quantization(host, model, installed("0.32.0"))
    assert [f"vllm 0.32.0 does not name the quantisation frobnicate of {model.reference}" in line for line in said] == (
        [True] if warns else []
    )
    assert check_quantization(host, replace(model, quantization_method=None), installed()) == ()
