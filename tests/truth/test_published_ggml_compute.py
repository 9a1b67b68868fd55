"""Compute buffers that engines on real machines printed, against the range of the memory model.

The rows say when they were printed, not always by which build: the build of that time is used. Rows that the range
does not hold stand in `OUTSIDE` with the reason; rows of another engine are listed and not compared.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ruamel.yaml import YAML

from llmops.core.memory.ggml_compute import card_compute_bytes, compute_bytes, input_bytes
from llmops.core.memory.ggml_runtime import card_compute_range, compute_range
from llmops.core.memory.ggml_settings import GgmlSettings
from llmops.core.model import ModelSpec
from llmops.core.version import Version
from llmops.engines.llama_server.builds import FLASH_ATTENTION_BY_ITSELF
from llmops.host.local import LocalHost
from llmops.models import read_model
from tests.truth.shapes import attention, hybrid
from tests.truth.shapes.shape import Shape
from tests.truth.shapes.sizes import COMMAND_R_35B, GEMMA_2_2B, GEMMA_4_12B, QWEN_3_1_7B, QWEN_3_5_9B, QWEN_3_5_27B

HERE = Path(__file__).parent
MIB = 1024**2
# A build of the month in which a row was printed, where it names none.
BUILDS = {
    "2024-03": 2400,
    "2025-06": 5600,
    "LM Studio 2025-07": 5900,
    "2025-11": 7000,
    "b7xxx (2025-12)": 7400,
    "2026-01": 7700,
    "2026-02": 7950,
    "2026-08": 10_800,
    "b10809 (5266f24da)": 10_809,
    "b4701": 4701,
}
SHAPES: dict[str, Callable[[], Shape]] = {
    "phi-3-mini": attention.phi3,
    "qwen3-8b": attention.qwen3,
    "gemma-2-2b": GEMMA_2_2B,
    "gemma-4-12b": GEMMA_4_12B,
    "gpt-oss-20b": attention.gpt_oss,
    "qwen3.5-9b": QWEN_3_5_9B,
    "qwen3-coder-next": hybrid.qwen_hybrid,
    "qwen3-1.7b": QWEN_3_1_7B,
    "qwen3.5/3.6/3.8-27b": QWEN_3_5_27B,
    "command-r-35b": COMMAND_R_35B,
    "qwen2.5-3b": partial(
        attention.llama, layers=36, embedding=2048, count=16, kv_heads=2, width=11_008, vocabulary=151_936, tied=True
    ),
}


# A batch that the row does not say but its host buffer does: masks and vectors of 128 tokens.
UBATCH_TOKENS = {"l63": 128}
ANOTHER_ENGINE = "ik_llama.cpp"
EXPERTS = (
    "experts on the host: the card copies one matrix of them (352 MiB at 5.5 bits), whose type the row does not say"
)
OUTSIDE = {
    "l28": "batches of 2048, and layers on the host: compared as x67 of figures_ggml_more.yaml, which says so",
    "l30": EXPERTS,
    "l31": EXPERTS,
}


class Row(NamedTuple):
    """One published compute buffer in MiB."""

    name: str
    architecture: str
    build: Version
    settings: GgmlSettings
    cards: int
    printed_mib: float
    host_mib: float | None


def published(*, ours: bool = True) -> list[Any]:
    """The rows that print a compute buffer, of llama.cpp itself or of the other engine."""
    rows = YAML(typ="safe").load(HERE / "figures.yaml")["memory"]["llamacpp"]
    return [row for row in rows if "compute_mib" in row["reported"] and (row["engine"] != ANOTHER_ENGINE) is ours]


def row_of(row: Any) -> Row:
    """A row as settings; a batch or a number of slots that it does not say is the engine's default."""
    config, reported = row["config"], row["reported"]
    slots = config.get("n_seq_max", 1)
    batch = config.get("n_ubatch", UBATCH_TOKENS.get(row["id"], 512))
    build = Version((BUILDS[row["version"]],))
    settings = GgmlSettings(
        slots=slots,
        context_tokens_per_slot=config["n_ctx"] // slots,
        kv_unified=config.get("kv_unified", False),
        batch_tokens=max(batch, 2048),
        ubatch_tokens=batch,
        flash_attention=config.get("flash_attn", FLASH_ATTENTION_BY_ITSELF.at(build)),
    )
    host = reported.get("compute_host_mib", reported.get("host_compute_mib"))
    return Row(row["id"], row["arch"], build, settings, row["n_gpu"], max(reported["compute_mib"]), host)


def made(architecture: str, directory: Path) -> ModelSpec:
    """The model of a row, from a file of its shapes."""
    return read_model(LocalHost(), str(SHAPES[architecture]().write(directory / "made.gguf")))


def predicted(row: Row, model: ModelSpec) -> tuple[float, float]:
    """The range in MiB."""
    if row.cards:
        likely = card_compute_bytes(model, row.settings, row.build, in_turn=row.cards > 1)
        _, low, high, _ = card_compute_range(likely, row.build)
    else:
        _, low, high, _ = compute_range(compute_bytes(model, row.settings, row.build), row.build)
    return low / MIB, high / MIB


@pytest.mark.parametrize("row", [row_of(row) for row in published()], ids=lambda row: f"{row.name}-{row.architecture}")
def test_the_range_holds_the_published_buffer(row: Row, tmp_path: Path) -> None:
    """Or the row is explained; an explanation that is no longer needed is wrong too."""
    low, high = predicted(row, made(row.architecture, tmp_path))
    assert (low <= row.printed_mib <= high) is (row.name not in OUTSIDE), (low, row.printed_mib, high)


@pytest.mark.parametrize(
    "row",
    [row for row in map(row_of, published()) if row.cards and row.host_mib and row.name not in OUTSIDE],
    ids=lambda row: f"{row.name}-{row.architecture}",
)
def test_the_buffer_of_the_host_beside_a_card(row: Row, tmp_path: Path) -> None:
    """Masks and vectors, by the build's own types: within 0.2 MiB, or 0.5 where it is printed without decimals."""
    found = input_bytes(made(row.architecture, tmp_path), row.settings, row.build) / MIB
    assert found == pytest.approx(row.host_mib, abs=0.5 if row.host_mib == int(row.host_mib or 0) else 0.2)


def test_every_row_is_compared_explained_or_of_another_engine() -> None:
    ids = [row["id"] for row in published()]
    assert set(OUTSIDE) <= set(ids)
    assert len(OUTSIDE) < len(ids)
    assert {row["engine"] for row in published(ours=False)} == {ANOTHER_ENGINE}
