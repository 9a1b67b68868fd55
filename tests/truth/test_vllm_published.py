"""The memory model of vLLM against what engines on real machines printed."""

from __future__ import annotations

import functools
import statistics
from dataclasses import dataclass, replace

import pytest

from llmops.core.errors import UnknownArchitecture
from llmops.core.memory.vllm import budgets
from llmops.core.memory.vllm_budget import card_facts
from llmops.core.memory.vllm_cache import (
    CacheFigures,
    cache_figures,
    cache_layout,
    figures_of_blocks,
    request_blocks,
)
from llmops.core.memory.vllm_defaults import CardFacts
from llmops.core.memory.vllm_settings import VllmSettings
from llmops.core.units import GIB
from tests.truth.vllm_rows import Row, hardware_of, model_of, pool_bytes, rows, settings_of, versions_of

TOLERANCE = 0.01
SHARE_WITHIN = 0.98
# Half of the last printed digit of the memory is part of what a row can be compared at.
ROUNDING_BYTES = 0.005 * GIB
# The cause of each figure that lies outside; anything else outside fails.
OUTSIDE = {
    "v01": "0.9 prints memory and tokens for every worker: the post quotes those of two of them, 1.1 % apart",
}
NO_RULE = {
    "v59": "a build between releases of a model whose configuration is not public",
    "v60": "compressed tokens in five groups: no rule, refused by its architecture",
    "v61": "compressed tokens in five groups: no rule, refused by its architecture",
    "v63": "the model is not named",
    "v65": "the model is not named",
    "v66": "compressed tokens: no rule, refused by its architecture",
}


@dataclass(frozen=True)
class Compared:
    """One published figure beside ours."""

    row: Row
    figure: str
    published: float
    predicted: float
    rounding: float

    @property
    def is_within(self) -> bool:
        """Within the tolerance, or within what the row's own rounding leaves open."""
        return abs(self.predicted / self.published - 1) <= max(TOLERANCE, self.rounding)


def figures_of(row: Row, settings: VllmSettings) -> CacheFigures | None:
    """Ours for the memory that the row's engine had."""
    size = pool_bytes(row)
    if row.arch is None or size is None or (settings.max_model_len is None and "max_concurrency" in row.reported):
        return None
    hardware = hardware_of(row)
    card = card_facts(hardware.gpus[0]) if hardware else CardFacts()
    return cache_figures(model_of(row.arch), settings, size, card)


@functools.cache
def compared(*, with_unstated: bool) -> tuple[Compared, ...]:
    """Every published figure of the cache beside ours; a row that names a family of versions by the nearest of them."""
    found: list[Compared] = []
    for row in rows():
        ways = [_compared(row, settings_of(row, with_unstated=with_unstated, version=one)) for one in versions_of(row)]
        found += min(ways, key=lambda ones: sum(abs(one.predicted / one.published - 1) for one in ones))
    return tuple(found)


def _compared(row: Row, settings: VllmSettings) -> list[Compared]:
    figures, size = figures_of(row, settings), pool_bytes(row)
    if figures is None or size is None:
        return []
    reported = row.reported
    rounding = ROUNDING_BYTES / size if "kv_bytes" not in reported else 0.0
    pairs = [
        ("tokens", reported.get("kv_tokens"), figures.tokens, rounding),
        ("blocks", reported.get("gpu_blocks"), figures.blocks, rounding),
        ("concurrency", reported.get("max_concurrency"), figures.max_concurrency, rounding),
        ("needed", reported.get("needed_kv_gib"), figures.needed_bytes / GIB, 0.0),
        ("longest", reported.get("est_max_len"), figures.longest_request_tokens, rounding),
    ]
    return [Compared(row, name, theirs, ours, error) for name, theirs, ours, error in pairs if theirs is not None]


def test_figures_of_the_cache_are_those_that_engines_print() -> None:
    results = compared(with_unstated=True)
    off = [one for one in results if not one.is_within]
    assert len(results) >= 50
    assert {one.row.id for one in off} <= set(OUTSIDE), [(o.row.id, o.figure, o.published, o.predicted) for o in off]
    assert 1 - len(off) / len(results) >= SHARE_WITHIN


def test_a_row_is_off_only_where_its_post_leaves_out_a_setting() -> None:
    off = {one.row.id for one in compared(with_unstated=False) if not one.is_within}
    assert off == set(OUTSIDE) | {row.id for row in rows() if row.explained}


def test_the_enlarged_block_is_the_printed_one() -> None:
    for row in rows():
        if row.arch and "attention_block" in row.reported:
            assert (
                cache_layout(model_of(row.arch), settings_of(row)).attention_block_tokens
                == (row.reported["attention_block"])
            )


def test_tokens_follow_from_concurrency_where_no_memory_is_printed() -> None:
    row = next(row for row in rows() if row.id == "v52")
    assert row.arch is not None
    settings = settings_of(row)
    layout, longest = cache_layout(model_of(row.arch), settings), row.config["max_model_len"]
    blocks = round(row.reported["max_concurrency"] * request_blocks(layout, longest))
    assert figures_of_blocks(layout, settings, blocks, longest).tokens == row.reported["kv_tokens"]


def test_every_row_is_compared_or_says_why_not() -> None:
    seen = {one.row.id for one in compared(with_unstated=True)} | {span.row.id for span in pools()}
    left = {row.id for row in rows()} - seen - set(NO_RULE) - {"v52"}
    assert not left


@dataclass(frozen=True)
class PoolSpan:
    """Our range of what the cache gets beside the published figure, in bytes."""

    row: Row
    low: int
    high: int
    published: int
    weights_known: bool

    @property
    def holds(self) -> bool:
        """True when the published figure, as printed, lies within."""
        return self.low - ROUNDING_BYTES <= self.published <= self.high + ROUNDING_BYTES

    @property
    def width(self) -> float:
        """The range as a share of the pool."""
        return (self.high - self.low) / self.published


@functools.cache
def pools(*, weights_known: bool = True) -> tuple[PoolSpan, ...]:
    """The pool before the first boot; with the printed weights where the row has them, or without."""
    found = []
    for row in rows():
        hardware, published = hardware_of(row), pool_bytes(row)
        if row.arch is None or hardware is None or published is None or row.id in NO_POOL:
            continue
        model, settings = model_of(row.arch), settings_of(row)
        printed = row.reported.get("weights_gib")
        if weights_known and printed is not None:
            settings = replace(settings, weights_rank_bytes=int(printed * GIB))
        elif not model.weights_bytes or row.id in OTHER_WEIGHTS:
            continue
        card = budgets(hardware, model, settings)[1]
        low, high = next((low, high) for name, low, high, _ in card.ranges if name == "cache_bytes")
        found.append(PoolSpan(row, low, high, published, printed is not None))
    return tuple(found)


# Rows that do not say what decides the pool.
NO_POOL = {
    "v14": "it did not start: see the test of starts",
    "v27": "the model was guessed from its bytes for a token; its weights are not known",
    "v29": "an NPU: none of the three backends",
}
# Rows whose checkpoint is not the configuration's own: quantised, with adapters or with a drafter.
OTHER_WEIGHTS = {
    "v01": "FP8", "v09": "FP8", "v10": "adapters", "v11": "adapters", "v12": "adapters", "v13": "adapters",
    "v28": "a drafter", "v33": "FP8", "v45": "a drafter", "v46": "FP8", "v49": "NVFP4", "v50": "FP8", "v58": "4 bit",
    "v44": "4 bit",
}  # fmt: skip
POOL_OUTSIDE = {
    "v30": "the printed peak of 2.12 GiB is less than sorting the logits of 1,024 requests takes; ours is lower",
}


def test_the_pool_before_the_first_boot_lies_in_the_range() -> None:
    spans = pools()
    assert len(spans) >= 12
    out = {span.row.id for span in spans if not span.holds}
    assert out <= set(POOL_OUTSIDE), [
        (s.row.id, s.low / GIB, s.published / GIB, s.high / GIB) for s in spans if not s.holds
    ]
    assert sum(span.holds for span in spans) / len(spans) >= 0.9


def test_the_range_of_the_pool_is_narrow() -> None:
    assert statistics.median(span.width for span in pools()) < 0.2


def test_weights_read_from_a_configuration_keep_the_pool_in_the_range() -> None:
    spans = pools(weights_known=False)
    assert {span.row.id for span in spans if not span.holds} <= set(POOL_OUTSIDE)


def test_the_low_end_never_promises_more_than_there_was() -> None:
    assert [span.row.id for span in pools() if span.low > span.published + ROUNDING_BYTES] == []


def test_a_start_that_ran_out_of_memory_is_not_planned() -> None:
    row = next(row for row in rows() if row.id == "v14")
    hardware = hardware_of(row)
    assert hardware is not None and row.arch is not None
    # Another process held 500 MiB of the card.
    card = replace(hardware.gpus[0], free_bytes=(hardware.gpus[0].total_bytes or 0) - (470 + 500) * 1024**2)
    settings = settings_of(row)
    plan = budgets(replace(hardware, gpus=(card,)), model_of(row.arch), settings)[1]
    assert plan.free_bytes < 0


def test_a_request_that_was_refused_is_refused() -> None:
    refused = [row for row in rows() if "needed_kv_gib" in row.reported and row.arch]
    assert refused
    for row in refused:
        figures = figures_of(row, settings_of(row))
        assert figures is not None and not figures.starts


def test_a_cache_without_a_rule_is_refused() -> None:
    model = replace(model_of("deepseek-v3_r1"), architecture="deepseek_v4")
    with pytest.raises(UnknownArchitecture):
        cache_layout(model, VllmSettings(max_model_len=8_192))
