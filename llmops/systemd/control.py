"""What systemd says of a unit, and telling it to start, stop, restart and reload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llmops.core.errors import LlmopsError, Misconfigured, NoPermission, NotInstalled
from llmops.host import Completed, Host, MutableHost
from llmops.systemd.syntax import UnitFile

# sd_booted(3): systemd is the init system of this machine exactly when this directory exists.
BOOTED_DIRECTORY = "/run/systemd/system"
_JOB_TIMEOUT_SECONDS = 900.0  # longer than any TimeoutStopSec= and TimeoutStartSec= of the units that llmops renders
_START_DENIED = 4  # systemctl(1) follows LSB codes: 4 insufficient privileges, 5 no such unit
_NO_SUCH_UNIT = 5


@dataclass(frozen=True)
class UnitState:
    """A unit as systemd sees it; `file_state` is enabled, disabled, static, ... and empty where there is no file."""

    load_state: str
    active_state: str
    sub_state: str
    file_state: str
    invocation_id: str
    restarts: int
    main_pid: int | None
    need_daemon_reload: bool
    result: str
    exit_status: int | None

    @property
    def exists(self) -> bool:
        """True when there is a unit file that can be loaded."""
        return self.load_state not in {"not-found", ""}

    @property
    def active(self) -> bool:
        """True while it runs as intended."""
        return self.active_state == "active"


def is_booted(host: Host) -> bool:
    """True where systemd runs this machine."""
    try:
        return host.status(BOOTED_DIRECTORY).kind == "directory"
    except OSError:
        return False


def require_systemd(host: Host) -> None:
    """Raise NotInstalled where systemd does not run this machine or systemctl is missing."""
    if not is_booted(host) or host.which("systemctl") is None:
        raise NotInstalled(
            "systemd does not run this machine",
            hint="try the plan without it: llmops tune --trial; or print the settings: llmops render",
        )


def show(host: Host, unit: str, *properties: str) -> Mapping[str, str]:
    """Properties as `systemctl show` prints them; lines of one property that comes several times are joined."""
    argv = ["systemctl", "show", unit, "--no-pager", *(f"--property={name}" for name in properties)]
    found: dict[str, str] = {}
    for line in _answer(host, tuple(argv)).stdout.splitlines():
        name, equals, value = line.partition("=")
        if equals:
            found[name] = f"{found[name]}\n{value}" if name in found else value
    return found


def state(host: Host, unit: str) -> UnitState:
    """The state of a unit; `exists` is False for one that systemd does not know."""
    names = (
        "LoadState", "ActiveState", "SubState", "UnitFileState", "InvocationID", "NRestarts", "MainPID",
        "NeedDaemonReload", "Result", "ExecMainStatus",
    )  # fmt: skip
    shown = show(host, unit, *names)
    exit_status = shown.get("ExecMainStatus", "")
    return UnitState(
        load_state=shown.get("LoadState", ""),
        active_state=shown.get("ActiveState", ""),
        sub_state=shown.get("SubState", ""),
        file_state=shown.get("UnitFileState", ""),
        invocation_id=shown.get("InvocationID", ""),
        restarts=int(shown.get("NRestarts") or 0),
        main_pid=int(shown.get("MainPID") or 0) or None,
        need_daemon_reload=shown.get("NeedDaemonReload") == "yes",
        result=shown.get("Result", ""),
        exit_status=int(exit_status) if exit_status.isdigit() else None,
    )


def unit_files(host: Host, unit: str) -> tuple[UnitFile, ...]:
    """The unit's file and then its drop-ins, in the order in which systemd applies them; () where there is none."""
    shown = show(host, unit, "FragmentPath", "DropInPaths")
    paths = [shown.get("FragmentPath", ""), *shown.get("DropInPaths", "").split()]
    files = []
    for path in paths:
        if path:
            try:
                files.append(UnitFile(path, host.read_text(path)))
            except FileNotFoundError:  # removed since systemd last looked
                continue
            except PermissionError:  # drop-ins that hold secrets are often readable by root only
                files.append(UnitFile(path, "", readable=False))
    return tuple(files)


def is_active(host: Host, unit: str) -> bool:
    """True while the unit runs."""
    return state(host, unit).active


def is_enabled(host: Host, unit: str) -> bool:
    """True when the unit starts at boot by itself."""
    return state(host, unit).file_state in {"enabled", "enabled-runtime"}


def journal_tail(
    host: Host, unit: str, *, lines: int = 12, invocation_id: str = "", matching: str = ""
) -> tuple[str, ...]:
    """The unit's last words, of one start or of lines with some words alone; () where the journal cannot be read."""
    argv = ["journalctl", "--unit", unit, "--lines", str(lines), "--output", "cat", "--no-pager", "--quiet"]
    if invocation_id:
        argv.append(f"_SYSTEMD_INVOCATION_ID={invocation_id}")
    if matching:
        argv += ["--grep", matching]
    try:
        answer = host.query(tuple(argv))
    except (OSError, TimeoutError):
        return ()
    return tuple(line.rstrip() for line in answer.stdout.splitlines() if line.strip())


def daemon_reload(host: MutableHost) -> None:
    """Make systemd read its files again."""
    _change(host, "daemon-reload")


def restart(host: MutableHost, unit: str) -> None:
    """Stop and start; a counter of failed starts is forgotten first, so that it cannot refuse this one."""
    host.execute(("systemctl", "reset-failed", unit))
    _change(host, "restart", unit)


def reload_or_restart(host: MutableHost, unit: str) -> None:
    """Let a running unit read its configuration again; start one that does not run or cannot."""
    host.execute(("systemctl", "reset-failed", unit))
    _change(host, "reload-or-restart", unit)


def start(host: MutableHost, unit: str) -> None:
    """Start a unit that does not run."""
    host.execute(("systemctl", "reset-failed", unit))
    _change(host, "start", unit)


def start_later(host: MutableHost, unit: str) -> None:
    """Ask for the start of a unit and do not wait for it: for one that what runs now must end before."""
    _change(host, "start", "--no-block", unit)


def stop(host: MutableHost, unit: str) -> None:
    """Stop a unit and wait for its end."""
    _change(host, "stop", unit)


def enable(host: MutableHost, unit: str) -> None:
    """Start the unit at every boot."""
    _change(host, "enable", unit)


def disable(host: MutableHost, unit: str) -> None:
    """Start the unit no more at boot; nothing where there is no such unit."""
    _change(host, "disable", unit, ignored=(1, _NO_SUCH_UNIT))


def _change(host: MutableHost, verb: str, *units: str, ignored: tuple[int, ...] = ()) -> None:
    argv = ("systemctl", verb, *units)
    try:
        done = host.execute(argv, timeout_seconds=_JOB_TIMEOUT_SECONDS)
    except FileNotFoundError as missing:
        raise NotInstalled("systemctl is not installed", hint="llmops applies plans through systemd") from missing
    if done.exit_code not in (0, *ignored):
        raise failure(done, host.effective_uid())


def _answer(host: Host, argv: tuple[str, ...]) -> Completed:
    try:
        answer = host.query(argv)
    except FileNotFoundError as missing:
        raise NotInstalled("systemctl is not installed", hint="llmops applies plans through systemd") from missing
    if answer.exit_code != 0:
        raise failure(answer, host.effective_uid())
    return answer


def failure(done: Completed, uid: int) -> LlmopsError:
    """What a systemctl that ended with another code than 0 means, from its code and the caller's rights."""
    said = " ".join(done.stderr.split()) or f"exit code {done.exit_code}"
    message = f"{' '.join(done.argv)}: {said}"
    if done.exit_code == _START_DENIED or (uid != 0 and "denied" in said.lower()):
        return NoPermission(message, hint="run it as root: sudo llmops ...")
    if done.exit_code == _NO_SUCH_UNIT:
        return NotInstalled(message, hint="install the unit: llmops tune --apply --install-unit")
    if "not been booted with systemd" in said:
        return NotInstalled(message, hint="try the plan without systemd: llmops tune --trial")
    return Misconfigured(message, hint="look at: systemctl status and journalctl -xe")
