"""The memory model of vLLM against starts that were published elsewhere and collected after its rules were written."""

from __future__ import annotations

import functools
import statistics
from dataclasses import dataclass, replace

from llmops.core.memory.vllm import budgets
from llmops.core.memory.vllm_budget import card_facts
from llmops.core.memory.vllm_cache import CacheFigures, cache_figures, cache_layout
from llmops.core.memory.vllm_defaults import CardFacts
from llmops.core.units import GIB
from tests.truth.vllm_rows import (
    Row,
    hardware_of,
    model_for,
    model_of,
    pool_bytes,
    rows,
    settings_of,
    versions_of,
)

TOLERANCE = 0.01
SHARE_WITHIN = 0.98
# Half of the last printed digit of the memory.
ROUNDING_BYTES = 0.005 * GIB
# The cause of each figure that lies outside; anything else outside fails.
OUTSIDE = {
    "w38": "the memory of one machine of two; the blocks are those of the one with less",
    "x19": "2.8 % more tokens for a byte than in x20 with the same settings: another context than the one shown",
}


@dataclass(frozen=True)
class Compared:
    """One published figure beside ours: with the printed memory, with a little less and with a little more."""

    row: Row
    figure: str
    published: float
    predicted: tuple[float, ...]

    @property
    def is_within(self) -> bool:
        """Within the tolerance of what the memory, as it was rounded, can mean."""
        low, high = min(self.predicted), max(self.predicted)
        return low * (1 - TOLERANCE) <= self.published <= high * (1 + TOLERANCE)

    @property
    def error(self) -> float:
        """How far ours is off with the memory as printed."""
        return abs(self.predicted[0] / self.published - 1)


def _figures(row: Row, size: float) -> CacheFigures:
    hardware = hardware_of(row)
    card = card_facts(hardware.gpus[0]) if hardware else CardFacts()
    assert row.arch is not None
    ways = [settings_of(row, version=version) for version in versions_of(row)]
    wanted = row.reported.get("kv_tokens")
    found = [cache_figures(model_of(row.arch), settings, int(size), card) for settings in ways]
    return min(found, key=lambda one: abs(one.tokens / wanted - 1)) if wanted else found[0]


@functools.cache
def compared() -> tuple[Compared, ...]:
    """Every figure of the cache beside ours."""
    results = []
    for row in rows("figures_more.yaml"):
        size = pool_bytes(row)
        if size is None:
            continue
        rounding = 0.0 if "kv_bytes" in row.reported else ROUNDING_BYTES
        ours = [_figures(row, size + sign * rounding) for sign in (0, -1, 1)]
        published: dict[str, list[float]] = {
            "kv_tokens": [one.tokens for one in ours],
            "gpu_blocks": [one.blocks for one in ours],
            "max_concurrency": [one.max_concurrency for one in ours],
            "needed_kv_gib": [one.needed_bytes / GIB for one in ours],
            "est_max_len": [one.longest_request_tokens for one in ours],
        }
        if "max_model_len" not in row.config:
            published.pop("max_concurrency")
        results += [
            Compared(row, name, row.reported[name], tuple(values))
            for name, values in published.items()
            if name in row.reported
        ]
    return tuple(results)


def test_figures_that_no_rule_was_written_for_are_those_that_engines_print() -> None:
    results = compared()
    off = [one for one in results if not one.is_within]
    assert len(results) >= 145
    assert {one.row.id for one in off} == set(OUTSIDE), [(o.row.id, o.figure, o.published, o.predicted) for o in off]
    assert 1 - len(off) / len(results) >= SHARE_WITHIN
    assert statistics.median(one.error for one in results) < 0.001


def test_a_request_that_was_refused_there_is_refused_here() -> None:
    refused = [row for row in rows("figures_more.yaml") if "needed_kv_gib" in row.reported]
    assert len(refused) >= 8
    for row in refused:
        size = pool_bytes(row)
        assert size is not None and not _figures(row, size).starts, row.id


def test_what_started_there_starts_here() -> None:
    for row in rows("figures_more.yaml"):
        size = pool_bytes(row)
        stated = "max_model_len" in row.config
        if size is not None and stated and "needed_kv_gib" not in row.reported:
            assert _figures(row, size).starts, row.id


def test_blocks_that_states_enlarge_are_the_printed_ones() -> None:
    printed = [row for row in rows("figures_more.yaml") if "attention_block" in row.reported]
    assert len(printed) >= 16
    for row in printed:
        assert row.arch is not None
        layouts = [cache_layout(model_of(row.arch), settings_of(row, version=one)) for one in versions_of(row)]
        assert row.reported["attention_block"] in {layout.attention_block_tokens for layout in layouts}, row.id


@dataclass(frozen=True)
class Span:
    """Our range of what the cache gets beside the published figure, in bytes; with the weights that were printed."""

    row: Row
    low: int
    high: int
    published: int
    with_pictures: bool

    @property
    def width(self) -> float:
        """The range as a share of the pool."""
        return (self.high - self.low) / self.published


@functools.cache
def spans() -> tuple[Span, ...]:
    """Every row that says which card, how many weights and which pool."""
    found = []
    for row in rows("figures_more.yaml"):
        hardware, published, printed = hardware_of(row), pool_bytes(row), row.reported.get("weights_gib")
        if hardware is None or published is None or printed is None:
            continue
        model = model_for(row)
        settings = replace(settings_of(row), weights_rank_bytes=int(printed * GIB))
        own = next(one for one in budgets(hardware, model, settings) if one.cache_tokens is not None)
        low, high = next((low, high) for name, low, high, _ in own.ranges if name == "cache_bytes")
        found.append(Span(row, low, high, published, model.encoder is not None))
    return tuple(found)


def test_every_pool_lies_in_the_range_and_none_is_promised_more() -> None:
    assert len(spans()) >= 31
    out = [
        (span.row.id, span.low / GIB, span.published / GIB, span.high / GIB)
        for span in spans()
        if not span.low - ROUNDING_BYTES <= span.published <= span.high + ROUNDING_BYTES
    ]
    assert out == []


def test_the_range_is_narrow_where_no_picture_is_read() -> None:
    assert statistics.median(span.width for span in spans() if not span.with_pictures) < 0.2


def test_an_encoder_widens_the_range_by_what_its_largest_pictures_may_take() -> None:
    # Up to 65,536 patches take 4 GiB whatever the pool, and more only for steps longer than the largest picture.
    wide = [
        span for span in spans() if span.with_pictures and span.row.config.get("max_num_batched_tokens", 0) <= 8_192
    ]
    assert len(wide) >= 6
    unified = [span for span in wide if span.row.raw.get("unified")]
    assert max(span.high - span.low for span in wide if span not in unified) < 7.5 * GIB
    assert max(span.high - span.low for span in unified) < 13 * GIB
