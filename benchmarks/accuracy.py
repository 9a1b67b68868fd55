"""How far predictions lie from what engines on other people's machines printed, figure by figure, in one run.

    python benchmarks/accuracy.py [--outside]

The published figures and their sources are in tests/truth; nothing is started, and no engine and no card is needed.
`aim` is what the tests require. `--outside` also lists every figure that is off. Exit code 1 where an aim is missed.
What is compared with engines that really run here: memory_prediction.py, cache_variations.py, peers.py and the tests
marked engines and vllm.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.truth import test_published_ggml_cache as ggml
from tests.truth import test_published_ggml_more as ggml_more
from tests.truth import test_speed as speed
from tests.truth import test_speed_batches as batches
from tests.truth import test_vllm_more as vllm_more
from tests.truth import test_vllm_published as vllm

WITHIN = 0.01
WIDTH = 0.2


@dataclass(frozen=True)
class Score:
    """One kind of figure: how many there are, how many hold, and what must hold."""

    figure: str
    count: int
    holding: int
    detail: str
    aim: str
    is_reached: bool
    outside: tuple[str, ...] = ()

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        reached = "yes" if self.is_reached else "no"
        return (self.figure, f"{self.holding} of {self.count}", self.detail, self.aim, reached)


def cache_of_ggml() -> Score:
    """Rows of llama.cpp and Ollama whose every printed size of cache and state is within 1 % without a hint."""
    rows, outside, errors = (*ggml.LLAMA_CPP, *ggml.OLLAMA), [], []
    for row in rows:
        if row.id in ggml.UNSTATED or row.id in ggml.VALUES_TWICE:
            outside.append(f"{row.id}: {explanation(row.id)}")
            continue
        if row.id in ggml.OWN_RULES:  # held by the rules of Ollama's own engine: test_published_ollama.py
            continue
        errors += [abs(ours / printed - 1) for printed, ours in ggml.compared(row).values() if printed]
    holding = len(rows) - len(outside)
    detail = f"median error {statistics.median(errors):.2%}"
    reached = holding / len(rows) >= 0.9
    return Score(
        "llama.cpp, Ollama: cache and states", len(rows), holding, detail, "all explained", reached, tuple(outside)
    )


def explanation(name: str) -> str:
    """Why a row of llama.cpp or Ollama is off."""
    return ggml.UNSTATED[name][1] if name in ggml.UNSTATED else ggml.VALUES_TWICE[name]


def cache_of_vllm() -> Score:
    """Tokens, blocks, concurrency, needed memory and longest length for the memory that the engine had."""
    results = vllm.compared(with_unstated=True)
    off = [one for one in results if not one.is_within]
    unstated = sorted({one.row.id for one in results if one.row.explained})
    detail = f"a setting was inferred for {', '.join(unstated)}"
    outside = tuple(f"{one.row.id} {one.figure}: printed {one.published:g}, predicted {one.predicted:g}" for one in off)
    holding = len(results) - len(off)
    reached = holding / len(results) >= 0.98
    return Score("vLLM: cache for the memory given", len(results), holding, detail, "98 % within 1 %", reached, outside)


def pool_of_vllm() -> Score:
    """The cache before the first boot against its range."""
    spans = vllm.pools()
    width = statistics.median(span.width for span in spans)
    holding = sum(span.holds for span in spans)
    outside = tuple(f"{span.row.id}: {vllm.POOL_OUTSIDE.get(span.row.id)}" for span in spans if not span.holds)
    reached = holding / len(spans) >= 0.9 and width < WIDTH
    detail = f"median width {width:.1%} of the cache"
    return Score("vLLM: cache before the first boot", len(spans), holding, detail, "90 %, under 20 %", reached, outside)


def later_cache_of_ggml() -> Score:
    """The rows that were collected when the rules stood."""
    holding, errors = 0, []
    for row in ggml_more.ROWS:
        ours = ggml_more.predicted(row)
        pairs = [(row.reported[name], value) for name, value in ours.items() if name in row.reported]
        holding += all(abs(value - printed) <= max(WITHIN * printed, 0.006) for printed, value in pairs)
        errors += [abs(value / printed - 1) for printed, value in pairs if printed]
    count, detail = len(ggml_more.ROWS), f"median error {statistics.median(errors):.2%}"
    return Score("llama.cpp, Ollama, later rows", count, holding, detail, "98 % within 1 %", holding / count >= 0.98)


def later_cache_of_vllm() -> Score:
    """The rows that were collected when the rules stood; the rules for encoders and old versions changed by them."""
    results = vllm_more.compared()
    outside = tuple(f"{one.row.id} {one.figure}: printed {one.published:g}" for one in results if not one.is_within)
    holding, detail = len(results) - len(outside), f"median error {statistics.median(o.error for o in results):.3%}"
    reached = holding / len(results) >= 0.98
    return Score("vLLM, later rows: cache", len(results), holding, detail, "98 % within 1 %", reached, outside)


def later_pool_of_vllm() -> Score:
    """The later rows that say which card, how many weights and which pool."""
    spans, slack = vllm_more.spans(), vllm_more.ROUNDING_BYTES
    holding = sum(span.low - slack <= span.published <= span.high + slack for span in spans)
    width = statistics.median(span.width for span in spans)
    plain = statistics.median(span.width for span in spans if not span.with_pictures)
    detail = f"median width {width:.1%}; without pictures {plain:.1%}"
    reached = holding / len(spans) >= 0.9 and width < WIDTH
    return Score("vLLM, later rows: first boot", len(spans), holding, detail, "90 %, under 20 %", reached)


def many_streams() -> list[speed.Row]:
    """Total rates of 1 to 64 streams."""
    return [row for one in batches.PUBLISHED for row in batches.rows_of(one)]


def rate(figure: str, rows: Callable[[], list[speed.Row]], aim: str, most_error: float) -> Score:
    """Published rates against the range."""
    found = rows()
    median = statistics.median(abs(row.error) for row in found)
    holding = sum(row.is_inside for row in found)
    reached = holding / len(found) >= 0.9 and median <= most_error
    outside = tuple(str(row) for row in found if not row.is_inside)
    detail = f"median error of the likely value {median:.1%}"
    return Score(figure, len(found), holding, detail, aim, reached, outside)


def scores() -> Sequence[Score]:
    """Every kind of figure."""
    return (
        cache_of_ggml(),
        cache_of_vllm(),
        pool_of_vllm(),
        later_cache_of_ggml(),
        later_cache_of_vllm(),
        later_pool_of_vllm(),
        rate("decode", speed.decode_rows, "90 %, within 20 %", 0.2),
        rate("decode, 1 to 64 streams together", many_streams, "90 %", 1.0),
        rate("prefill", speed.prefill_rows, "90 %", 1.0),
    )


def main() -> int:
    """Print the table; 1 where an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--outside", action="store_true", help="list every figure that is off")
    asked = parser.parse_args()
    found = scores()
    headers = ("published figures", "hold", "", "aim", "reached")
    print(tabulate([score.cells for score in found], headers=headers, tablefmt="github"))
    if asked.outside:
        print("\n".join(line for score in found for line in ("", score.figure, *score.outside)))
    return int(not all(score.is_reached for score in found))


if __name__ == "__main__":
    raise SystemExit(main())
