"""The vLLM rows of figures.yaml as inputs of the memory model: version, settings, card, model."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from llmops.core.hardware import Gpu, Hardware, Memory
from llmops.core.memory.vllm_settings import VllmSettings
from llmops.core.model import ModelSpec
from llmops.core.units import GIB, MIB
from llmops.core.version import Version
from llmops.host.local import LocalHost
from llmops.models import read_model

HERE = Path(__file__).resolve().parent
# Upload dates on the package index: month of each minor release, to date a row that names a month only.
RELEASED = {
    (0, 9, 2): "2025-07", (0, 10, 2): "2025-09", (0, 11, 0): "2025-10", (0, 12, 0): "2025-12", (0, 15, 1): "2026-02",
    (0, 17, 1): "2026-03", (0, 19, 1): "2026-04", (0, 21, 0): "2026-05", (0, 23, 0): "2026-06", (0, 26, 0): "2026-07",
    (0, 28, 0): "2026-08", (0, 30, 0): "2026-09", (0, 32, 0): "2026-10", (0, 33, 0): "2026-11",
}  # fmt: skip
# What a row does not say and its figures show; a row with an entry counts as explained, not as predicted.
UNSTATED: dict[str, tuple[dict[str, Any], str]] = {
    "v45": ({"max_num_batched_tokens": 4_096}, "4,096 tokens in flight: two batches of 2,048 in an unreleased build"),
    "v56": ({"prefix_caching": True}, "prefix caching was off by default in 0.17; concurrency shows two more states"),
    "v58": ({"mamba_state_dtype": "float16"}, "1.70x is 289 / 170 blocks: states of 16 bit instead of 32"),
}
# The configuration whose caches a row without `arch` has.
ARCHITECTURES = {"v35": "qwen3-0.6b"}
# Sizes as nvidia-smi shows them; the other rows give what PyTorch sees, which is less by about this much.
SHOWN_BY_DRIVER_MIB = {24_576, 32_607, 32_768, 40_960, 81_559}
HIDDEN_MIB = 470


@dataclass(frozen=True)
class Row:
    """One published start of vLLM."""

    id: str
    arch: str | None
    config: dict[str, Any]
    reported: dict[str, Any]
    raw: dict[str, Any]

    @property
    def explained(self) -> str | None:
        """Why the row needs a setting that it does not state."""
        return UNSTATED[self.id][1] if self.id in UNSTATED else None


@functools.cache
def rows(file: str = "figures.yaml") -> tuple[Row, ...]:
    """All of one file."""
    document = YAML(typ="safe").load((HERE / file).read_text(encoding="utf-8"))
    return tuple(
        Row(raw["id"], raw.get("arch") or ARCHITECTURES.get(raw["id"]), raw["config"], raw["reported"], raw)
        for raw in document["memory"]["vllm"]
    )


def versions_of(row: Row) -> tuple[Version, ...]:
    """The row's version, newest first where it names a family (0.2x) or a month: the releases that it can mean."""
    text = str(row.raw["version"])
    month = re.search(r"20\d\d-\d\d", text)
    known = [parts for parts, released in RELEASED.items() if not month or released <= month.group()]
    exact = re.search(r"0\.(\d+)(?:\.(\d+))?(?![\dx.])", text.split("(", maxsplit=1)[0])
    if exact:
        minor = int(exact[1])
        return (Version((0, minor, int(exact[2]) if exact[2] else _last_patch(minor))),)
    tens, minor_only = re.search(r"0\.(\d)x", text), re.search(r"0\.(\d+)\.x", text)
    if tens:
        known = [parts for parts in known if parts[1] // 10 == int(tens[1])] or known
    if minor_only:
        known = [parts for parts in known if parts[1] == int(minor_only[1])]
    newest = sorted(known, reverse=True)
    return tuple(Version(parts) for parts in (newest if tens and not month else newest[:1]))


def _last_patch(minor: int) -> int:
    return max((parts[2] for parts in RELEASED if parts[1] == minor), default=2)


def device_of(row: Row) -> str:
    """The backend of the row's card."""
    gpu = str(row.raw["gpu"])
    if "AMD" in gpu:
        return "rocm"
    return "xpu" if "Intel" in gpu else "cuda"


def settings_of(row: Row, *, with_unstated: bool = True, version: Version | None = None) -> VllmSettings:
    """What the row says of its settings; `with_unstated` adds what only its figures show.

    `version` picks one of several that the row can mean; the newest otherwise.
    """
    config = row.config
    speculative = config.get("speculative") is True
    settings = VllmSettings(
        version=version or versions_of(row)[0],
        device=device_of(row),
        tensor_parallel=config.get("tp", 1),
        pipeline_parallel=config.get("pp", 1),
        expert_parallel=bool(config.get("enable_expert_parallel")),
        max_model_len=config.get("max_model_len"),
        max_num_seqs=config.get("max_num_seqs"),
        max_num_batched_tokens=config.get("max_num_batched_tokens"),
        gpu_memory_utilization=config.get("gpu_memory_utilization"),
        cache_dtype=str(config.get("kv_cache_dtype", "auto")).split()[0],
        block_size=config.get("block_size"),
        enforce_eager=bool(config.get("enforce_eager")),
        prefix_caching=config.get("enable_prefix_caching"),
        adapters="max_loras" in config,
        dtype=config.get("dtype"),
        draft_layers=1 if speculative else 0,
        draft_tokens=config.get("speculative_tokens", 0),
    )
    return replace(settings, **UNSTATED[row.id][0]) if with_unstated and row.id in UNSTATED else settings


def hardware_of(row: Row) -> Hardware | None:
    """The row's cards, with nothing else on them; None where it does not say how large they are."""
    total = row.raw.get("vram_total_mib")
    if total is None:
        return None
    by_driver = row.raw.get("vram_shown_by") == "driver" or total in SHOWN_BY_DRIVER_MIB
    unified = row.raw.get("unified", False)
    shown = total if by_driver or unified or device_of(row) != "cuda" else total + HIDDEN_MIB
    cards = tuple(
        Gpu(index, None, str(row.raw["gpu"]), shown * MIB, shown * MIB, unified=unified)
        for index in range(row.config.get("tp", 1))
    )
    return Hardware(gpus=cards, memory=Memory(total_bytes=512 * GIB, available_bytes=500 * GIB))


@functools.cache
def model_of(arch: str) -> ModelSpec:
    """The model of one configuration, read as llmops reads it."""
    name = arch.replace("/", "_")
    home = next(home for home in ("configs", "configs_more") if (HERE / home / name).exists())
    return read_model(LocalHost(), str(HERE / home / name))


def model_for(row: Row) -> ModelSpec:
    """The row's model: its configuration, with the row's own quantisation, without an encoder that is not profiled."""
    assert row.arch is not None
    model = model_of(row.arch)
    if row.config.get("language_model_only") or row.config.get("skip_mm_profiling"):
        model = replace(model, encoder=None, encoder_weights_bytes=0)
    return replace(model, quantization=row.raw["quantization"]) if "quantization" in row.raw else model


def pool_bytes(row: Row) -> int | None:
    """The memory that the engine said it had for the cache."""
    reported = row.reported
    if "kv_bytes" in reported:
        return int(reported["kv_bytes"])
    return int(reported["available_kv_gib"] * GIB) if "available_kv_gib" in reported else None
