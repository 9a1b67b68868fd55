"""The result of a trial: plan, checks and what was measured; problems found are exit code 3."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from llmops.cli.result import Result, Status, failed
from llmops.core.errors import ProblemsFound
from llmops.core.serialization import encode
from llmops.core.units import format_bytes

if TYPE_CHECKING:
    from llmops.actions.trial import TrialResult
    from llmops.cli.session import Session
    from llmops.core.plan import MeasuredRates
    from llmops.core.verification import VerificationReport


def report_data(report: VerificationReport, rates: MeasuredRates | None) -> dict[str, Any]:
    """The keys of `data` that a verification adds."""
    return {
        "checks": [encode(check) for check in report.checks],
        "measured": None
        if rates is None
        else {
            "decode_tokens_per_second": [
                {"streams": streams, "per_stream": rate} for streams, rate in rates.decode_tokens_per_second
            ],
            "prefill_tokens_per_second": rates.prefill_tokens_per_second,
        },
    }


def report_text(report: VerificationReport, rates: MeasuredRates | None, *, verbose: bool) -> str:
    """Checks and measured rates for people."""
    from llmops.cli.text.changes import checks_text
    from llmops.cli.text.layout import heading, pairs, sections

    measured = ""
    if rates is not None:
        rows = [(f"{streams} at once", f"{rate:.1f} tokens/s each") for streams, rate in rates.decode_tokens_per_second]
        rows.append(("prompts", f"{rates.prefill_tokens_per_second:.0f} tokens/s"))
        measured = heading("Measured") + "\n" + pairs(rows)
    return sections((checks_text(report.checks, verbose=verbose), measured))


def problems(report: VerificationReport, what: str, hint: str) -> ProblemsFound | None:
    """The error of a report that did not pass, naming the checks; None for one that did."""
    if report.passed:
        return None
    names = ", ".join(check.name for check in report.failed)
    return ProblemsFound(f"{what}: {names}" if names else f"{what}: nothing could be observed", hint=hint)


def trial_result(tried: TrialResult, data: Mapping[str, Any], shown: Callable[[], str], session: Session) -> Result:
    """The verdict of a trial, with the plan before it."""
    everything = {
        **data,
        **report_data(tried.report, tried.rates),
        "trial": {
            "argv": list(tried.argv),
            "load_seconds": tried.load_seconds,
            "resident_bytes": tried.resident_bytes,
            "log_tail": list(tried.log_tail),
        },
    }

    def text() -> str:
        from llmops.cli.text.layout import bad, good, sections

        verdict = good("The trial passed; nothing was changed.") if tried.report.passed else bad("The trial failed.")
        tail = "\n".join(f"  {line}" for line in tried.log_tail) if session.debug or not tried.report.passed else ""
        return sections(
            (shown(), report_text(tried.report, tried.rates, verbose=session.verbose), _facts(tried), tail, verdict)
        )

    problem = problems(tried.report, "the trial found problems", "nothing was changed; the checks say what was seen")
    if problem is not None:
        return failed("tune", problem, data=everything, text=text)
    return Result("tune", Status.OK, data=everything, text=text)


def _facts(tried: TrialResult) -> str:
    from llmops.cli.text.layout import heading, pairs

    resident = None if tried.resident_bytes is None else f"{format_bytes(tried.resident_bytes)} resident"
    rows = (("started in", f"{tried.load_seconds:.1f} s"), ("memory", resident), ("command", " ".join(tried.argv)))
    return heading("Trial") + "\n" + pairs(rows)
