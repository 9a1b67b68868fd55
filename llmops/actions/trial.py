"""A trial: the engine with the plan's settings as a throw-away child process, verified there, always stopped."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from llmops.actions.memory_checks import HOST, held_bytes
from llmops.actions.verify import FIRST_REPLY, Verified, verify
from llmops.core.errors import DoesNotFit, EngineNotAnswering, Misconfigured, NotInstalled
from llmops.core.plan import MeasuredRates, Plan
from llmops.core.units import format_bytes
from llmops.core.verification import CheckStatus, VerificationReport
from llmops.engines.base import Engine, Health, Launch
from llmops.engines.found import CONTAINERS, Installation
from llmops.host import ChildProcess, MutableHost
from llmops.probe import read_hardware

# Below the range from which kernels take ports for outgoing connections (32768 and up on Linux).
_FIRST_PORT, _LAST_PORT = 20_000, 32_767
_PORT_ATTEMPTS = 3
_POLL_SECONDS = 0.1
_SAY_EVERY_SECONDS = 5.0
# A server that loads says so; no answer of another kind has ever turned into the right one.
_NONSENSE_SECONDS = 20.0
_WAITING_FOR = {
    Health.LOADING: "loading the model",
    Health.DOWN: "waiting for its first answer",
    Health.NONSENSE: "waiting for an answer that makes sense",
}
_SHOWN_LINES = 40


@dataclass(frozen=True)
class TrialResult:
    """What the trial showed; `log_tail` holds the engine's last lines."""

    report: VerificationReport
    rates: MeasuredRates | None
    argv: tuple[str, ...]
    log_tail: tuple[str, ...]
    load_seconds: float
    resident_bytes: int | None


class PortTaken(EngineNotAnswering):
    """Another program was faster on the port; another port may do."""


def trial(
    host: MutableHost,
    engine: Engine,
    installation: Installation,
    plan: Plan,
    *,
    progress: Callable[[str], None],
    ready_seconds: float = 600.0,
) -> TrialResult:
    """Start, wait until ready, verify, stop. Neither files nor units are touched.

    Raise Misconfigured or TooOld for a program that cannot be used, DoesNotFit where a second engine has no room
    beside what runs now, EngineNotAnswering where it ends early, is late or answers nonsense.
    """
    installation = startable(host, engine, installation)
    engine.require_usable(installation)
    _require_room(host, plan)
    for attempt in range(_PORT_ATTEMPTS):
        launch = engine.launch(plan, installation, free_port(host, attempt))
        try:
            return _Run(host, engine, installation, plan, launch, progress).to_the_end(ready_seconds)
        except PortTaken:
            if attempt + 1 == _PORT_ATTEMPTS:
                raise
    raise AssertionError


def startable(host: MutableHost, engine: Engine, installation: Installation) -> Installation:
    """The installation itself, or another one on this machine where its program lies inside a container.

    Raise NotInstalled where there is no other.
    """
    if installation.managed_by not in CONTAINERS:
        return installation
    for found in engine.detect(host):
        if found.managed_by not in CONTAINERS:
            return found
    raise NotInstalled(
        f"{engine.name} is only in a container ({installation.detail}), where a trial cannot start it",
        hint="; ".join(engine.install_steps),
    )


def free_port(host: MutableHost, attempt: int) -> int:
    """A port of loopback that nobody listens on now; where to begin depends on the time, so that trials differ."""
    taken = {listener.port for listener in host.listening_sockets()}
    count = _LAST_PORT - _FIRST_PORT + 1
    begin = int(host.now() * 1000) + attempt * 101
    free = (port for step in range(count) if (port := _FIRST_PORT + (begin + step) % count) not in taken)
    for port in free:
        return port
    raise EngineNotAnswering(f"every port from {_FIRST_PORT} to {_LAST_PORT} is taken", hint="stop what holds them")


def _require_room(host: MutableHost, plan: Plan) -> None:
    """The plan counts the memory of the engine that runs now as free; a trial beside it cannot."""
    budget = next((budget for budget in plan.budgets if budget.device == HOST), None)
    usable = read_hardware(host).memory.usable_bytes
    if budget is None or usable is None:
        return
    needed = held_bytes(budget) - budget.prompt_cache_bytes  # the prompt cache grows with traffic only
    if needed > usable:
        raise DoesNotFit(
            f"a trial needs {format_bytes(needed)} of memory beside what runs now, and {format_bytes(usable)} are free",
            hint="stop the engine that runs now for the time of the trial, or use --apply, which replaces it",
        )


@dataclass(frozen=True)
class _Run:
    """One start of the engine, from spawn to stop."""

    host: MutableHost
    engine: Engine
    installation: Installation
    plan: Plan
    launch: Launch
    progress: Callable[[str], None]

    def to_the_end(self, ready_seconds: float) -> TrialResult:
        with self._running() as child:
            load_seconds = self._wait_until_ready(child, ready_seconds)
            self.progress(f"ready after {load_seconds:.1f} s")
            verified = self._verified(child)
            output = child.output()
            checks = (*verified.report.checks, *self.engine.log_checks(self.plan, output))
            return TrialResult(
                VerificationReport(checks),
                verified.rates,
                self.launch.argv,
                tuple(output.splitlines()[-_SHOWN_LINES:]),
                load_seconds,
                verified.in_force.resident_bytes,
            )

    @contextmanager
    def _running(self) -> Iterator[ChildProcess]:
        try:
            child = self.host.spawn(self.launch.argv, self.launch.environment)
        except OSError as problem:
            raise Misconfigured(
                f"{self.launch.argv[0]} cannot be started: {problem.strerror or problem}", hint=self._by_hand()
            ) from problem
        try:
            yield child
        finally:
            child.stop(grace_seconds=self.launch.stop_seconds)

    def _wait_until_ready(self, child: ChildProcess, ready_seconds: float) -> float:
        started = said = sensible = self.host.monotonic()
        self.progress(f"starting {self.engine.name} on {self.launch.url}")
        while True:
            self._require_alive(child)
            health = self.engine.health(self.host, self.launch.url)
            now = self.host.monotonic()
            if health is Health.READY:
                self._require_alive(child)  # the answer may have come from somebody else while ours was dying
                return now - started
            sensible = sensible if health is Health.NONSENSE else now
            if now - started >= ready_seconds or now - sensible >= _NONSENSE_SECONDS:
                raise self._late(child, health, now - started)
            if now - said >= _SAY_EVERY_SECONDS:
                self.progress(f"{_WAITING_FOR[health]} ({now - started:.0f} s)")
                said = now
            self.host.sleep(_POLL_SECONDS)

    def _require_alive(self, child: ChildProcess) -> None:
        code = child.exit_code()
        if code is None:
            return
        child.stop(grace_seconds=0.0)  # so that everything it printed has been read
        words = self.engine.last_words(code, child.output())
        kind = PortTaken if self.engine.port_was_taken(child.output()) else EngineNotAnswering
        raise kind(
            f"{self.engine.name} ended before it had served: {words}", hint=f"nothing was changed; {self._by_hand()}"
        )

    def _by_hand(self) -> str:
        return f"to see all that it says: {shlex.join(self.launch.argv)}"

    def _late(self, child: ChildProcess, health: Health, waited_seconds: float) -> EngineNotAnswering:
        last = child.output().splitlines()[-1:]
        said = f"; its last line: {last[0].strip()}" if last else ""
        name, url = self.engine.name, self.launch.url
        if health is Health.NONSENSE:
            message = f"what answers at {url} does not speak the protocol of {name}{said}"
            return EngineNotAnswering(message, hint=f"is this program really {name}? {self._by_hand()}")
        state = "still loads its model" if health is Health.LOADING else "does not answer"
        return EngineNotAnswering(
            f"{name} {state} after {waited_seconds:.0f} s{said}",
            hint="a slow disk needs longer for a large model: try once more while the file is in the page cache",
        )

    def _verified(self, child: ChildProcess) -> Verified:
        here = replace(self.installation, managed_by="process", unit=None, pid=child.pid, detail="the trial")
        try:
            verified = verify(self.host, self.engine, here, self.plan, progress=self.progress)
        except EngineNotAnswering:
            self._require_alive(child)  # a crash under load is the better explanation
            raise
        for check in verified.report.checks:
            # Nobody else decides how the child is asked, so a trial without one served request has shown nothing.
            if check.name == FIRST_REPLY and check.status is CheckStatus.NOT_EVALUATED:
                raise EngineNotAnswering(
                    f"{self.engine.name} could not be sent a test request: {check.detail}",
                    hint="a trial takes the variables of this shell over: unset those that set a key or an address",
                )
        return verified
