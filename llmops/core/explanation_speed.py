"""Why a plan's rates are what they are: the parts of a step, the bandwidth behind them, and what was measured."""

from __future__ import annotations

from llmops.core.hardware import Hardware
from llmops.core.plan import Plan, Reason, Speed
from llmops.core.problem import Problem
from llmops.core.throughput import Rates, prefill_parameters
from llmops.core.units import format_bytes, format_rate


def rate_reasons(problem: Problem, plan: Plan) -> tuple[Reason, ...]:
    """Prefill, then decode and first token at each number of streams that is shown."""
    rates, model = problem.rates, plan.model
    prefill = rates.likely.prefill_tokens_per_second
    multiplied = prefill_parameters(model)
    return (
        Reason(
            "prefill",
            f"{prefill:.5g} tokens/s",
            "measured" if rates.measured else "operations per second / (2 x active parameters without the embeddings)",
            (("parameters", str(multiplied)), ("operations", f"{prefill * 2 * multiplied:.5g}/s")),
            rates.source,
        ),
        *(_speed_reason(problem, speed) for speed in plan.speeds),
    )


def _speed_reason(problem: Problem, speed: Speed) -> Reason:
    rates, model = problem.rates, problem.model
    rate = speed.decode_tokens_per_second_per_stream.likely
    inputs: tuple[tuple[str, str], ...] = ()
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


def _step_formula(rates: Rates, streams: int) -> tuple[str, tuple[tuple[str, str], ...]]:
    """1 / step time; what does not grow with the streams includes the weights, which all of them share."""
    likely = rates.likely
    shared = likely.step_seconds(streams) - streams * likely.stream_seconds
    what = "continued from the measured steps" if rates.measured else "reading the active weights once, and launching"
    return (
        "1 / (shared + streams x per stream)",
        (
            (f"shared ({what})", f"{shared * 1000:.5g} ms"),
            ("per stream (its cache and arithmetic)", f"{likely.stream_seconds * 1000:.5g} ms"),
        ),
    )


def _bandwidth(problem: Problem) -> tuple[tuple[str, str], ...]:
    rate = _card_bandwidth(problem.hardware) if problem.on_gpu else _host_bandwidth(problem.hardware)
    if problem.rates.measured:
        return ()
    if rate is None:
        return (("bandwidth", "assumed"),)
    likely = problem.rates.likely
    share = problem.model.active_weights_bytes / rate / likely.weights_seconds if not likely.expert_seconds else None
    reached = () if share is None else (("share of it reached", f"{share:.2f}"),)
    return (("bandwidth", format_rate(rate)), *reached)


def _card_bandwidth(hardware: Hardware) -> int | None:
    known = [gpu.bandwidth_bytes_per_second for gpu in hardware.gpus if gpu.bandwidth_bytes_per_second]
    return min(known) if known and len(known) == len(hardware.gpus) else None


def _host_bandwidth(hardware: Hardware) -> int | None:
    return hardware.bandwidth.read_bytes_per_second if hardware.bandwidth else None
