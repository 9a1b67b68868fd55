"""The small unit that takes back a killed apply at the next boot, and what it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llmops import checkpoint, systemd
from llmops.core.errors import NoPermission
from llmops.core.files import RenderedFile
from llmops.host import Host, MutableHost
from llmops.render import render

UNIT = "llmops-recover.service"
UNIT_PATH = f"/etc/systemd/system/{UNIT}"
ARGUMENTS = ("rollback", "--recover")


def recovery_file(host: Host, executable: Sequence[str]) -> RenderedFile:
    """The unit as it should be: one that is in place and whose llmops still exists stays as it is.

    So a second llmops on the same machine, or one that was moved by an upgrade, changes nothing needlessly.
    """
    present = checkpoint.read_content(host, UNIT_PATH)
    kept = None if present is None else _program(host, present)
    return RenderedFile(UNIT_PATH, _rendered(kept or (*executable, *ARGUMENTS)))


def recover(host: MutableHost, *, at_boot: bool) -> checkpoint.Checkpoint | None:
    """Take back what a killed run left unfinished; the change, or None where there was none.

    Raise NoPermission without root, Locked while another llmops works, RollbackFailed where files were edited since.
    """
    require_root(host, "recover an unfinished change")
    with checkpoint.locked(host):
        return checkpoint.recover(host, at_boot=at_boot)


def recover_first(host: MutableHost, progress: Callable[[str], None]) -> int | None:
    """Take back an unfinished change before anything is planned, so that no plan is made from half of one; its number.

    Nothing for anybody but root, who alone can have left one and can take it back. Raise as `recover` does.
    """
    if host.effective_uid() != 0 or checkpoint.read_content(host, checkpoint.JOURNAL_PATH) is None:
        return None
    unfinished = recover(host, at_boot=False)
    if unfinished is None:
        return None
    progress(f"a change that was cut short (number {unfinished.identifier}) was taken back first")
    return unfinished.identifier


def require_root(host: Host, purpose: str) -> None:
    """Raise NoPermission for anybody but root."""
    if host.effective_uid() != 0:
        raise NoPermission(
            f"only root may {purpose}",
            hint="run it with sudo; without root `llmops tune --trial` tries the plan in a process of its own",
        )


def _rendered(words: Sequence[str]) -> str:
    return render(
        "llmops-recover.service.j2",
        exec_start=tuple(words),
        state_directory=checkpoint.STATE_DIRECTORY,
        journal=checkpoint.JOURNAL_PATH,
    )


def _program(host: Host, text: str) -> tuple[str, ...] | None:
    said = systemd.values((systemd.UnitFile(UNIT_PATH, text),), "Service", "ExecStart")
    try:
        words = systemd.command(said[-1][1], UNIT).words if said else ()
        host.status(words[0] if words else "")
    except (ValueError, OSError):
        return None
    return words if _rendered(words) == text else None
