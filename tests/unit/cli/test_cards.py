"""Cards through the command line: those that the engine may use are planned for, the rest is told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from llmops.cli import hosts
from llmops.core.hardware import Gpu, GpuReading
from llmops.core.units import GIB
from tests.unit.cli.conftest import Run
from tests.unit.cli.machine import Machine

VERSION = ("--engine", "llama-server", "--engine-version", "11434")
CARDS = (
    Gpu(0, "GPU-a", "NVIDIA fast", 24 * GIB, 23 * GIB, (8, 6), 936 * 10**9),
    Gpu(1, "GPU-b", "NVIDIA hot", 12 * GIB, 11 * GIB, (8, 6), 900 * 10**9, throttle_reasons=("thermal",)),
)


class WithCards(Machine):
    """The machine with two cards."""

    variables: Mapping[str, str] = {}

    def gpus(self) -> GpuReading:
        return GpuReading("ok", "2 seen by NVML", CARDS, "570.1")

    def environment(self) -> Mapping[str, str]:
        return self.variables


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> WithCards:
    found = WithCards(disk=tmp_path)
    monkeypatch.setattr(hosts, "build_host", lambda *_, **__: found)
    return found


def test_probe_tells_what_the_values_mean(run: Run, cards: WithCards) -> None:
    (notice,) = run("probe", "--output", "json").envelope["data"]["notices"]
    assert (notice["code"], notice["severity"], notice["devices"]) == ("gpu-thermal-throttle", "warning", [1])
    text = run("probe").stdout
    assert "To know" in text
    assert "gpu-thermal-throttle" in text


def test_a_plan_uses_the_cards_that_the_engine_may_use(run: Run, cards: WithCards, model: str) -> None:
    data = run("plan", *VERSION, "--model", model, "--output", "json").envelope["data"]
    assert [row["device"] for row in data["budget"]] == ["host", "gpu0", "gpu1"]
    assert any("too hot" in line for line in data["warnings"])
    cards.variables = {"CUDA_VISIBLE_DEVICES": "0"}
    data = run("plan", *VERSION, "--model", model, "--output", "json").envelope["data"]
    assert [row["device"] for row in data["budget"]] == ["host", "gpu0"]
    assert [gpu["name"] for gpu in data["hardware"]["other_gpus"]] == ["NVIDIA hot"]
    assert data["notices"] == []
    assert not any("too hot" in line for line in data["warnings"])
    assert any("put Environment=CUDA_VISIBLE_DEVICES=0 into a drop-in" in line for line in data["warnings"])


def test_a_saved_probe_with_cards_that_do_not_count_is_read_again(
    run: Run, cards: WithCards, model: str, tmp_path: Path
) -> None:
    cards.variables = {"CUDA_VISIBLE_DEVICES": "GPU-b"}
    saved = tmp_path / "probe.json"
    saved.write_text(run("probe", "--output", "json").stdout)
    words = ("plan", *VERSION, "--model", model, "--hardware", str(saved), "--output", "json")
    data = run(*words).envelope["data"]
    assert [row["device"] for row in data["budget"]] == ["host", "gpu1"]
    assert [gpu["compute_capability"] for gpu in data["hardware"]["other_gpus"]] == ["8.6"]


def test_a_person_divides_the_model(run: Run, cards: WithCards, model: str) -> None:
    words = ("--gpu-layers", "2", "--tensor-split", "0,1")
    data = run("plan", *VERSION, "--model", model, *words, "--output", "json").envelope["data"]
    assert (data["plan"]["gpu_layers"], data["plan"]["tensor_split"]) == (2, [0.0, 1.0])
    by_device = {row["device"]: row["cache_bytes"] for row in data["budget"]}
    assert by_device["gpu0"] == 0
    assert by_device["gpu1"] > 0
    assert by_device["host"] > 0
    assert any("stay in main memory as asked for" in line for line in data["warnings"])


def test_no_layer_on_cards_still_takes_of_them(run: Run, cards: WithCards, model: str) -> None:
    words = ("size", *VERSION, "--model", model, "--slots", "1", "--context", "4096", "--gpu-layers", "0")
    ran = run(*words, "--output", "json")
    host, first, second = ran.envelope["data"]["budget"]
    assert first["weights_bytes"] == first["cache_bytes"] == second["compute_bytes"] == 0
    assert first["compute_bytes"] > 0
    assert second["runtime_bytes"] > 0
    assert host["cache_bytes"] > 0
    assert "--gpu-layers 0" in " ".join(ran.envelope["data"]["plan"]["arguments"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--n-cpu-moe", "3"), "has no experts"),
        (("--tensor-split", "1,2,3"), "there are 2 cards"),
        (("--tensor-split", "1,x"), "are no shares"),
        (("--tensor-split", "0,0"), "are no shares"),
        (("--no-gpu", "--gpu-layers", "3"), "no card is used"),
        (("--mmproj", "/nowhere/mmproj.gguf"), "no such file"),
    ],
)
def test_divisions_that_cannot_be(run: Run, cards: WithCards, model: str, words: tuple[str, ...], said: str) -> None:
    result = run("plan", *VERSION, "--model", model, *words)
    assert result.exit_code != 0
    assert said in " ".join(result.stderr.split())


def test_ollama_divides_by_itself(run: Run, cards: WithCards, model: str) -> None:
    words = ("--engine", "ollama", "--engine-version", "0.32.0", "--model", model, "--gpu-layers", "2")
    assert "--gpu-layers is an option of llama-server" in " ".join(run("plan", *words).stderr.split())
