"""What systemctl's answers mean."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from llmops import systemd
from llmops.core.errors import EngineNotAnswering, LlmopsError, Misconfigured, NoPermission, NotInstalled
from llmops.host import Completed
from llmops.systemd.control import failure
from tests.unit.fake_machine import FakeFile, FakeMachine

UNIT = "llama-server.service"
FRAGMENT = f"/etc/systemd/system/{UNIT}"


def machine() -> FakeMachine:
    made = FakeMachine(files={FRAGMENT: FakeFile("[Service]\nExecStart=/usr/bin/llama-server\n")})
    made.reload()
    made.start(UNIT)
    return made


def test_state_of_a_running_unit() -> None:
    state = systemd.state(machine(), UNIT)
    assert (state.exists, state.active, state.main_pid, state.need_daemon_reload) == (True, True, 100, False)


def test_state_of_an_unknown_unit() -> None:
    state = systemd.state(machine(), "other.service")
    assert (state.exists, state.active, state.main_pid, state.file_state) == (False, False, None, "")


def test_files_come_in_the_order_in_which_they_are_applied() -> None:
    host = machine()
    for name in ("zz-llmops.conf", "10-user.conf"):
        host.files[f"{FRAGMENT}.d/{name}"] = FakeFile("[Service]\n")
    host.reload()
    paths = [file.path for file in systemd.unit_files(host, UNIT)]
    assert paths == [FRAGMENT, f"{FRAGMENT}.d/10-user.conf", f"{FRAGMENT}.d/zz-llmops.conf"]


def test_a_file_that_went_since_systemd_looked_is_left_out() -> None:
    host = machine()
    del host.files[FRAGMENT]
    assert systemd.unit_files(host, UNIT) == ()


def test_no_systemd() -> None:
    host = machine()
    host.directories.discard("/run/systemd/system")
    with pytest.raises(NotInstalled, match="systemd does not run this machine"):
        systemd.require_systemd(host)


class NoSystemctl(FakeMachine):
    def query(self, argv: Sequence[str], *, timeout_seconds: float = 20.0) -> Completed:
        raise FileNotFoundError(argv[0])

    def execute(self, argv: Sequence[str], *, timeout_seconds: float = 120.0) -> Completed:
        raise FileNotFoundError(argv[0])


def test_no_systemctl() -> None:
    with pytest.raises(NotInstalled):
        systemd.state(NoSystemctl(), UNIT)
    with pytest.raises(NotInstalled):
        systemd.daemon_reload(NoSystemctl())
    assert systemd.journal_tail(NoSystemctl(), UNIT) == ()


@pytest.mark.parametrize(
    ("code", "stderr", "uid", "kind"),
    [
        (4, "Access denied", 0, NoPermission),
        (1, "Failed to reload daemon: Access denied", 1000, NoPermission),
        (5, "Unit x.service not found.", 0, NotInstalled),
        (1, "System has not been booted with systemd as init system (PID 1). Can't operate.", 0, NotInstalled),
        (1, "Job for x.service failed", 0, Misconfigured),
    ],
)
def test_failures_by_code_and_rights(code: int, stderr: str, uid: int, kind: type[LlmopsError]) -> None:
    error = failure(Completed(("systemctl", "restart", "x.service"), code, "", stderr), uid)
    assert type(error) is kind
    assert stderr in error.message
    assert error.hint


class Loading(FakeMachine):
    """Becomes ready after a while; `dies_at` is when it is gone instead."""

    ready_at = 1005.0
    dies_at = float("inf")

    def probe(self) -> bool:
        return self.seconds >= self.ready_at

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self.seconds >= self.dies_at:
            self.start(UNIT)


def loading(**keywords: float) -> Loading:
    host = Loading(files={FRAGMENT: FakeFile("[Service]\nExecStart=/usr/bin/llama-server\n")})
    for name, value in keywords.items():
        setattr(host, name, value)
    host.reload()
    host.start(UNIT)
    return host


def test_waiting_ends_when_the_engine_is_ready() -> None:
    host = loading()
    systemd.wait_until_ready(host, UNIT, host.probe, timeout_seconds=60)
    assert 1005.0 <= host.seconds < 1006.0


def test_a_crash_loop_is_seen_at_once_and_quoted() -> None:
    host = loading(dies_at=1002.0)
    host.comes_up = lambda _words: False
    with pytest.raises(EngineNotAnswering, match=r"ended while starting.*invalid argument: --new"):
        systemd.wait_until_ready(host, UNIT, host.probe, timeout_seconds=600)
    assert host.seconds < 1003.0


def test_a_start_that_ended_is_explained_from_its_own_log() -> None:
    host = loading(dies_at=1002.0)
    host.comes_up = lambda _words: False
    seen: list[tuple[int, str]] = []

    def explain(exit_code: int, log: str) -> str:
        seen.append((exit_code, log))
        return "the port is taken"

    with pytest.raises(EngineNotAnswering, match=r"ended while starting \(.*\): the port is taken$"):
        systemd.wait_until_ready(host, UNIT, host.probe, timeout_seconds=600, explain=explain)
    ((exit_code, log),) = seen
    assert exit_code > 0
    assert "invalid argument: --new" in log


def test_an_engine_that_was_started_anew_is_not_the_same_start() -> None:
    host = loading(dies_at=1002.0)
    with pytest.raises(EngineNotAnswering, match="crashed and was started again"):
        systemd.wait_until_ready(host, UNIT, host.probe, timeout_seconds=600)


def test_a_late_engine_has_the_time_in_its_error() -> None:
    host = loading(ready_at=5000.0)
    with pytest.raises(EngineNotAnswering, match="within 30 s"):
        systemd.wait_until_ready(host, UNIT, host.probe, timeout_seconds=30)


def test_a_start_that_ends_later_is_seen_while_it_must_stay_up() -> None:
    host = loading(dies_at=1010.0)
    first = systemd.wait_until_ready(host, UNIT, host.probe, timeout_seconds=60)
    systemd.stay_up(host, UNIT, first, until_seconds=host.monotonic() + 2.0)
    with pytest.raises(EngineNotAnswering, match="crashed and was started again"):
        systemd.stay_up(host, UNIT, first, until_seconds=host.monotonic() + 60.0)
    assert host.seconds < 1011.0
