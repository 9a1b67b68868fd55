"""Real commands and children on this machine: their environment, their end, and everything that they started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from llmops.core.errors import Interrupted
from llmops.host.local import LocalHost
from llmops.host.local.children import KEPT_OUTPUT_BYTES
from llmops.host.local.signals import interruptible

HOST = LocalHost()
REPOSITORY = Path(__file__).resolve().parents[2]


def is_running(pid: int) -> bool:
    """False for what has ended, zombies included."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def wait_until_gone(*pids: int) -> None:
    deadline = time.monotonic() + 60.0
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < deadline, f"still running: {[pid for pid in pids if is_running(pid)]}"
        time.sleep(0.01)


def wait_for_text(path: Path) -> str:
    deadline = time.monotonic() + 60.0
    while not path.exists() or not path.read_text().endswith("\n"):
        assert time.monotonic() < deadline, f"{path} was not written"
        time.sleep(0.01)
    return path.read_text()


def test_exit_codes_and_both_streams_come_back() -> None:
    found = HOST.query(("sh", "-c", "echo out; echo err >&2; exit 3"))
    assert (found.exit_code, found.stdout, found.stderr) == (3, "out\n", "err\n")
    assert HOST.query(("sh", "-c", "kill -SEGV $$")).exit_code == 139


def test_words_are_never_read_by_a_shell() -> None:
    assert HOST.query(("echo", "$HOME; rm -rf *", "a  b")).stdout == "$HOME; rm -rf * a  b\n"


def test_the_environment_is_pinned_and_input_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"LC_ALL": "de_DE.UTF-8", "LANGUAGE": "de", "PAGER": "less", "NOTIFY_SOCKET": "/x"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    lines = HOST.query(("env",)).stdout.splitlines()
    assert {"LC_ALL=C.UTF-8", "PAGER=cat", "SYSTEMD_PAGER=", "SYSTEMD_COLORS=0", "NO_COLOR=1"} <= set(lines)
    assert not [line for line in lines if line.startswith(("LANGUAGE=", "NOTIFY_SOCKET="))]
    assert HOST.query(("cat",)).stdout == ""


def test_output_that_is_not_text_is_no_failure() -> None:
    assert HOST.query(("printf", r"a\377b")).stdout == "a\ufffdb"


def test_an_absent_program_is_not_an_exit_code() -> None:
    with pytest.raises(FileNotFoundError):
        HOST.query(("no-such-program-anywhere",))


def test_a_late_command_dies_with_all_that_it_started(tmp_path: Path) -> None:
    script = f"sleep 300 & echo $! $$ > {tmp_path}/pids; wait"
    started = time.monotonic()
    with pytest.raises(TimeoutError, match=r"did not end within 3 s"):
        HOST.execute(("sh", "-c", script), timeout_seconds=3.0)
    assert time.monotonic() - started < 60.0
    wait_until_gone(*map(int, wait_for_text(tmp_path / "pids").split()))


def test_a_signal_ends_the_wait_for_a_command_and_the_command(tmp_path: Path) -> None:
    script = f"echo $$ > {tmp_path}/pid; kill -TERM {os.getpid()}; sleep 300"
    with pytest.raises(Interrupted) as stopped, interruptible():
        HOST.execute(("sh", "-c", script))
    assert stopped.value.exit_code == 143
    wait_until_gone(int(wait_for_text(tmp_path / "pid")))


def test_a_child_tells_what_it_prints_and_stops_when_asked() -> None:
    child = HOST.spawn(("sh", "-c", 'echo "$GREETING"; echo err >&2; exec sleep 300'), {"GREETING": "hello"})
    while child.output() != "hello\nerr\n":
        time.sleep(0.01)
    assert child.exit_code() is None
    assert child.stop(grace_seconds=60.0) == 143
    assert child.stop(grace_seconds=60.0) == child.exit_code() == 143


def test_a_child_that_will_not_stop_is_killed_with_its_children(tmp_path: Path) -> None:
    script = f"trap '' TERM; sleep 300 & echo $! > {tmp_path}/pid; while :; do sleep 0.1; done"
    child = HOST.spawn(("sh", "-c", script), {})
    grandchild = int(wait_for_text(tmp_path / "pid"))
    assert child.stop(grace_seconds=0.3) == 137
    wait_until_gone(child.pid, grandchild)


def test_what_a_child_that_has_ended_left_behind_is_ended_too(tmp_path: Path) -> None:
    child = HOST.spawn(("sh", "-c", f"sleep 300 & echo $! > {tmp_path}/pid; exit 7"), {})
    grandchild = int(wait_for_text(tmp_path / "pid"))
    while child.exit_code() is None:
        time.sleep(0.01)
    assert is_running(grandchild)
    assert child.stop(grace_seconds=0.1) == 7
    wait_until_gone(grandchild)


def test_only_the_end_of_a_long_output_is_kept() -> None:
    child = HOST.spawn(("sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x; echo; echo last"), {})
    while not child.output().endswith("last\n"):
        time.sleep(0.01)
    assert len(child.output()) == KEPT_OUTPUT_BYTES
    assert child.stop(grace_seconds=1.0) == 0


@pytest.mark.parametrize("start", ["HOST.spawn(words, {})", "HOST.execute(words)"])
def test_a_child_dies_when_llmops_is_killed(start: str, tmp_path: Path) -> None:
    program = f"""
        import time
        from llmops.host.local import LocalHost
        HOST = LocalHost()
        words = ("sh", "-c", "echo $$ > {tmp_path}/pid; exec sleep 300")
        {start}
        time.sleep(300)
    """
    llmops = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], cwd=REPOSITORY)
    child = int(wait_for_text(tmp_path / "pid"))
    assert is_running(child)
    llmops.send_signal(signal.SIGKILL)
    llmops.wait()
    wait_until_gone(child)


def test_a_command_that_prints_without_end_is_stopped() -> None:
    started = time.monotonic()
    with pytest.raises(OSError, match="prints more than 16 MiB"):
        HOST.query(("yes",))
    assert time.monotonic() - started < 60.0


def test_large_output_on_both_streams_is_whole() -> None:
    script = "head -c 3000000 /dev/zero | tr '\\0' a; head -c 3000000 /dev/zero | tr '\\0' b >&2"
    found = HOST.query(("sh", "-c", script))
    assert (found.stdout, found.stderr) == ("a" * 3_000_000, "b" * 3_000_000)
