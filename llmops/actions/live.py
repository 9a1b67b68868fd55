"""Making a plan live or trying it, and remembering the rates that were measured on the way."""

from __future__ import annotations

from collections.abc import Callable

from llmops.actions.apply import Applied, ApplyOptions, apply
from llmops.actions.trial import TrialResult, trial
from llmops.actions.verify import verify
from llmops.core.hardware import Hardware
from llmops.core.plan import MeasuredRates, Plan
from llmops.core.verification import VerificationReport
from llmops.engines.base import Engine
from llmops.engines.found import Installation
from llmops.host import MutableHost
from llmops.state import Subject, subject, write_rates


def make_live(
    host: MutableHost,
    engine: Engine,
    installation: Installation,
    plan: Plan,
    *,
    hardware: Hardware,
    options: ApplyOptions,
    progress: Callable[[str], None],
) -> Applied:
    """Apply with verification; raise what `apply` and `verify` raise. The rates count for the next plan."""
    measured: list[MeasuredRates] = []

    def verified(live: Installation) -> VerificationReport:
        found = verify(host, engine, live, plan, progress=progress)
        measured.extend([found.rates] if found.rates else [])
        return found.report

    applied = apply(host, engine, installation, plan, options=options, verify=verified, progress=progress)
    for rates in measured:
        _remember_rates(host, subject_of(hardware, plan, installation), rates, progress)
    return applied


def try_out(
    host: MutableHost,
    engine: Engine,
    installation: Installation,
    plan: Plan,
    *,
    hardware: Hardware,
    progress: Callable[[str], None],
) -> TrialResult:
    """Run a trial; raise what `trial` raises. The rates of one that passed count for the next plan."""
    result = trial(host, engine, installation, plan, progress=progress)
    if result.rates is not None and result.report.passed:
        _remember_rates(host, subject_of(hardware, plan, installation), result.rates, progress)
    return result


def subject_of(hardware: Hardware, plan: Plan, installation: Installation) -> Subject:
    """What the rates of this plan are remembered under."""
    return subject(hardware, plan.model, plan.engine, installation.version_text)


def _remember_rates(
    host: MutableHost, measured_on: Subject, rates: MeasuredRates, progress: Callable[[str], None]
) -> None:
    """A machine where nothing can be remembered is planned for with predictions again: worth a line, not a failure."""
    try:
        write_rates(host, measured_on, rates)
    except OSError as problem:
        progress(f"the measured rates are not remembered: {problem}")
