"""What is expected of every engine alike, and how it is compared with what was seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from llmops.core.verification import CheckStatus, Expectation
from llmops.engines.found import InForce, Installation
from llmops.engines.unit import drop_in_path

# Status, what was observed (None where nothing was), and the detail.
Verdict = tuple[CheckStatus, str | None, str]


def unit_expectations(installation: Installation, in_force: InForce | None) -> tuple[Expectation, ...]:
    """What systemd must have loaded; nothing where no unit starts the server."""
    if installation.unit is None:
        return ()
    reload = Expectation("daemon_reload_needed", "unit", "no")
    if in_force is not None and in_force.unit_file_managed:  # the whole unit is ours and has no drop-in
        return (reload,)
    return Expectation("drop_in", "unit", drop_in_path(installation.unit)), reload


def compared(expected: str, observed: str, detail: str) -> Verdict:
    """A pass where both are the same to the letter."""
    return (CheckStatus.PASS if observed == expected else CheckStatus.FAIL), observed, detail


def not_evaluated(in_force: InForce, *parts: str) -> Verdict:
    """The reason why one of these parts, or what they are read from, was not seen."""
    unseen = dict(in_force.unseen)
    why = next((unseen[part] for part in (*parts, "unit", "arguments", "url") if part in unseen), "not observed")
    return CheckStatus.NOT_EVALUATED, None, why


def in_environment(expectation: Expectation, in_force: InForce) -> Verdict:
    """A variable of the running process."""
    if in_force.environment is None:
        return not_evaluated(in_force, "environment")
    observed = dict(in_force.environment).get(expectation.name, "unset")
    return compared(expectation.value, observed, "environment of the running process")


def same_command(
    expectation: Expectation, in_force: InForce, program_length: Callable[[Sequence[str]], int | None]
) -> Verdict:
    """Whether ExecStart= was started as it stands now; `program_length` counts the words before the arguments."""
    running, configured = in_force.arguments, in_force.configured_arguments
    if running is None or configured is None:
        return not_evaluated(in_force, "arguments")
    same = running[program_length(running) or 1 :] == configured[program_length(configured) or 1 :]
    observed = expectation.value if same else " ".join(running)
    return compared(expectation.value, observed, "arguments of ExecStart= and of the running process")


def _listener(expectation: Expectation, in_force: InForce) -> Verdict:
    if in_force.pid is None or in_force.listener_pid is None:
        return not_evaluated(in_force, "listener_pid", "url")
    own = in_force.listener_pid == in_force.pid
    observed = expectation.value if own else f"process {in_force.listener_pid}"
    return compared(expectation.value, observed, f"who listens at {in_force.url}")


def _drop_in(expectation: Expectation, in_force: InForce) -> Verdict:
    if in_force.need_daemon_reload is None:
        return not_evaluated(in_force, "unit")
    loaded = in_force.drop_ins
    if not loaded or loaded[-1] != expectation.value:
        detail = "it must be the last, so that nothing overrides it" if expectation.value in loaded else "not loaded"
        return CheckStatus.FAIL, " ".join(loaded) or "none", detail
    return CheckStatus.PASS, loaded[-1], "the last of DropInPaths"


def _daemon_reload(expectation: Expectation, in_force: InForce) -> Verdict:
    if in_force.need_daemon_reload is None:
        return not_evaluated(in_force, "unit")
    return compared(expectation.value, "yes" if in_force.need_daemon_reload else "no", "NeedDaemonReload")


COMMON: Mapping[tuple[str, str], Callable[[Expectation, InForce], Verdict]] = {
    ("listener", "listener"): _listener,
    ("unit", "drop_in"): _drop_in,
    ("unit", "daemon_reload_needed"): _daemon_reload,
}
