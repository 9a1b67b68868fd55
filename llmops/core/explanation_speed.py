"""Why a plan's rates are what they are: the parts of a step, the bandwidth behind them, and what was measured."""

from __future__ import annotations

from llmops.core.card_rates import known_bandwidth
from llmops.core.hardware import Hardware
from llmops.core.plan import Plan, Reason, Speed
from llmops.core.problem import Problem
from llmops.core.throughput import Knee, Rates, find_knee, prefill_parameters
from llmops.core.throughput_model import KNEE_MOST_STREAMS, KNEE_SHARE
from llmops.core.units import format_bytes, format_rate

Inputs = tuple[tuple[str, str], ...]

_CAUSES = {
    "arithmetic": "streams from which computing takes as long as reading the weights that all of them share",
    "plateau": f"fewest streams with {KNEE_SHARE:.0%} of what all streams can get together",
}


def rate_reasons(problem: Problem, plan: Plan) -> tuple[Reason, ...]:
    """Prefill, decode and first token at each number of streams that is shown, then where more add little."""
    rates, model = problem.rates, plan.model
    prefill = rates.likely.prefill_tokens_per_second
    multiplied = prefill_parameters(model)
    span = f"{_plain(rates.low.prefill_tokens_per_second)} to {_plain(rates.high.prefill_tokens_per_second)}"
    return (
        Reason(
            "prefill",
            f"{prefill:.5g} tokens/s",
            "measured" if rates.measured else "operations per second / (2 x active parameters, no tables)",
            (
                ("parameters", str(multiplied)),
                ("operations", f"{prefill * 2 * multiplied:.5g}/s"),
                *(() if rates.measured else (("range", f"{span} tokens/s"),)),
            ),
            rates.source,
        ),
        *(_speed_reason(problem, speed) for speed in plan.speeds),
        _knee_reason(rates, find_knee(rates.likely)),
    )


def _plain(number: float) -> str:
    """Four digits, and no powers of ten where a small model gets tens of thousands."""
    return f"{number:.4g}" if number < 10_000 else f"{number:.0f}"


def _knee_reason(rates: Rates, knee: Knee) -> Reason:
    at = knee.streams or KNEE_MOST_STREAMS
    value = f"{at} streams get {_plain(knee.total_tokens_per_second)} tokens/s together"
    more = f"and no number of them more than {_plain(knee.plateau_tokens_per_second)}"
    inputs: Inputs = (("limit", f"{_plain(knee.plateau_tokens_per_second)} tokens/s"),)
    if not rates.measured:
        likely = rates.likely
        inputs += (
            ("reading weights", f"{likely.reading_seconds(at) * 1000:.4g} ms"),
            ("computing", f"{at * likely.arithmetic_seconds * 1000:.4g} ms"),
            ("caches", f"{at * likely.stream_seconds * 1000:.4g} ms"),
            ("ends of the range", f"{_knee_text(find_knee(rates.low))} to {_knee_text(find_knee(rates.high))}"),
        )
    formula = _CAUSES[knee.cause] if knee.streams else f"not reached by {KNEE_MOST_STREAMS} streams"
    return Reason("knee", f"{value}, {more}", formula, inputs, rates.source)


def _knee_text(knee: Knee) -> str:
    return str(knee.streams) if knee.streams else f"more than {KNEE_MOST_STREAMS}"


def _speed_reason(problem: Problem, speed: Speed) -> Reason:
    rates, model = problem.rates, problem.model
    rate = speed.decode_tokens_per_second_per_stream.likely
    inputs: Inputs = ()
    formula = "measured"
    if speed.basis != "measured":
        formula, inputs = _step_formula(rates, speed.streams)
        inputs += (("active weights", format_bytes(model.active_weights_bytes)), *_bandwidth(problem))
    return Reason(
        "speed" if speed.streams == 1 else f"speed of {speed.streams}",
        f"{rate:.1f} tokens/s each, first token after {speed.ttft_seconds:.2f} s",
        f"{formula}; first token: (streams + 1) / 2 x prompt / prefill rate + one step",
        (
            ("streams", str(speed.streams)),
            *inputs,
            ("prompt", f"{problem.workload.prompt_tokens} tokens"),
            ("prefill", f"{speed.prefill_tokens_per_second:.5g} tokens/s"),
        ),
        rates.source,
    )


def _step_formula(rates: Rates, streams: int) -> tuple[str, Inputs]:
    """1 / step time, with the parts that it is made of."""
    likely = rates.likely
    step = ("step", f"{likely.step_seconds(streams) * 1000:.5g} ms")
    if rates.measured:
        each = ("further stream", f"{likely.stream_seconds * 1000:.5g} ms")
        return "1 / step: continued from the measured steps", (step, each)
    return (
        "1 / step; step = starting kernels + the longer of reading weights and computing"
        " + what does not overlap x the shorter + streams x cache",
        (
            step,
            ("starting kernels", f"{likely.fixed_seconds * 1000:.5g} ms"),
            ("reading weights", f"{likely.reading_seconds(streams) * 1000:.5g} ms"),
            ("computing", f"{streams * likely.arithmetic_seconds * 1000:.5g} ms"),
            ("not overlapping", f"{1.0 - likely.overlap:g}"),
            ("cache of each stream", f"{likely.stream_seconds * 1000:.5g} ms"),
        ),
    )


def _bandwidth(problem: Problem) -> Inputs:
    if problem.rates.measured:
        return ()
    rate = _card_bandwidth(problem.hardware) if problem.on_gpu else _host_bandwidth(problem.hardware)
    known: Inputs = (("bandwidth", "assumed"),)
    if rate is not None and problem.rates.likely.reading_seconds(1) > 0.0:
        share = problem.model.active_weights_bytes / rate / problem.rates.likely.reading_seconds(1)
        known = (("bandwidth", format_rate(rate)), ("share of it reached", f"{share:.2f}"))
    return (*known, ("class", problem.rates.basis))


def _card_bandwidth(hardware: Hardware) -> int | None:
    known = [rate for rate in map(known_bandwidth, hardware.gpus) if rate]
    return min(known) if known and len(known) == len(hardware.gpus) else None


def _host_bandwidth(hardware: Hardware) -> int | None:
    return hardware.bandwidth.read_bytes_per_second if hardware.bandwidth else None
