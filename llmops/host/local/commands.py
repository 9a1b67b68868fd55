"""Running other programs: words, never a shell; the same environment everywhere; always a time limit."""

from __future__ import annotations

import ctypes
import errno
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping

from llmops.host import Completed
from llmops.host.local.signals import held_back

# What a program prints must not depend on who calls: no translation, no pager, no colour (systemd(1), no-color.org).
PINNED_ENVIRONMENT = {
    "LC_ALL": "C.UTF-8",
    "PAGER": "cat",
    "SYSTEMD_PAGER": "",
    "SYSTEMD_COLORS": "0",
    "SYSTEMD_LESS": "",
    "NO_COLOR": "1",
}
# gettext obeys LANGUAGE in every locale but plain "C", so C.UTF-8 alone would not keep messages in English.
DROPPED_VARIABLES = ("LANGUAGE", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "NOTIFY_SOCKET")
# No answer that is asked for is near this; a journal is asked for by lines.
LARGEST_OUTPUT_BYTES = 16 * 1024**2
_PR_SET_PDEATHSIG = 1  # prctl(2)
_LIBC = ctypes.CDLL(None, use_errno=True)


def run(argv: tuple[str, ...], *, timeout_seconds: float) -> Completed:
    """Run a command to its end; a death by signal n gives exit code 128 + n, as a shell says it.

    Raises FileNotFoundError or PermissionError where it cannot be started, TimeoutError when it is late and OSError
    when it prints without end; then the command and all that it started are killed.
    """
    process: subprocess.Popen[bytes] | None = None
    try:
        with held_back():
            process = start(argv, {}, subprocess.PIPE)
        stdout, stderr = _collect(process, timeout_seconds)
    except BaseException as failure:
        if process is not None:
            end_group(process)
        if isinstance(failure, subprocess.TimeoutExpired):
            raise TimeoutError(f"{' '.join(argv)} did not end within {timeout_seconds:g} s") from failure
        raise
    return Completed(argv, shell_exit_code(process.returncode), _text(stdout), _text(stderr))


def _collect(process: subprocess.Popen[bytes], timeout_seconds: float) -> tuple[bytes, bytes]:
    """Both outputs to their ends, and the process waited for; `communicate` would take gigabytes from `yes`."""
    deadline = time.monotonic() + timeout_seconds
    kept: tuple[bytearray, bytearray] = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        for stream, output in zip((process.stdout, process.stderr), kept, strict=True):
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ, output)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise subprocess.TimeoutExpired(process.args, timeout_seconds)
            for key, _ in ready:
                _take(selector, key)
    process.wait(timeout=max(0.1, deadline - time.monotonic()))
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    return bytes(kept[0]), bytes(kept[1])


def _take(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    piece = os.read(key.fd, 65536)
    if not piece:
        selector.unregister(key.fileobj)
        return
    key.data.extend(piece)
    if len(key.data) > LARGEST_OUTPUT_BYTES:
        raise OSError(errno.EFBIG, f"it prints more than {LARGEST_OUTPUT_BYTES // 1024**2} MiB")


def start(argv: tuple[str, ...], environment: Mapping[str, str], errors_to: int) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, without input; errors as in `run`."""
    return subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors_to,
        env=child_environment(environment),
        start_new_session=True,
        preexec_fn=die_with_parent(os.getpid()),  # noqa: PLW1509 - only prctl and getppid run before exec
    )


def child_environment(additions: Mapping[str, str]) -> dict[str, str]:
    """The environment of this process with the pinned variables and then `additions` over it."""
    inherited = {name: value for name, value in os.environ.items() if name not in DROPPED_VARIABLES}
    return {**inherited, **PINNED_ENVIRONMENT, **additions}


def die_with_parent(parent_pid: int) -> Callable[[], None]:
    """What a child runs before exec so that the kernel kills it when the thread that started it is gone."""

    def prepare() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent_pid:  # the parent was gone before the kernel knew of our wish
            os._exit(137)

    return prepare


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and everything in its group, and close its pipes.

    The process must not have been reaped yet: until then nobody else can have its group number.
    """
    if process.returncode is None:
        kill_group(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def kill_group(group: int, signal_number: int) -> None:
    """Signal a whole process group; nothing where nobody is left in it."""
    try:
        os.killpg(group, signal_number)
    except ProcessLookupError:
        return


def shell_exit_code(return_code: int) -> int:
    """128 + n for a death by signal n, as shells and container engines report it."""
    return return_code if return_code >= 0 else 128 - return_code


def _text(output: bytes) -> str:
    return output.decode("utf-8", errors="replace")
