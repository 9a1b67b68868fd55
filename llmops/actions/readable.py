"""Whether the account of a service can read its model: mode bits of files and of the directories on the way to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from llmops import systemd
from llmops.actions.service_account import Account, Undecided, account_of, mode_for, said_by
from llmops.core.errors import LlmopsError, Misconfigured
from llmops.core.model import ModelSpec
from llmops.core.verification import Check, CheckStatus
from llmops.engines.found import Installation
from llmops.engines.unit import closed_file
from llmops.host import FileStatus, Host
from llmops.systemd import Confinement, UnitFile, changed_by, confinement, hidden_by, shown_from

READ, ENTER, RUN = 4, 1, 1
# Of what lies beside the weights: configuration, tokenizers of every form, templates, code. States of a training, also
# often closed to others, are not for serving.
_READ_BESIDE = frozenset({".json", ".jinja", ".txt", ".model", ".tiktoken", ".py"})
CHECK = "model_readable"


@dataclass(frozen=True)
class Obstacle:
    """Why an account cannot read something, and what would let it."""

    message: str
    hint: str


def require(host: Host, unit: str, files: Sequence[UnitFile], paths: Sequence[str], needed: int = READ) -> None:
    """Raise Misconfigured where the service of these files could not read (RUN: run) a path; what is unclear passes."""
    try:
        found = obstacle(host, unit, files, paths, needed)
    except Undecided:
        return
    if found is not None:
        raise Misconfigured(found.message, hint=found.hint)


def readable_check(host: Host, installation: Installation, model: ModelSpec) -> tuple[Check, ...]:
    """Whether the unit could read its model at the next start; nothing where no unit starts it."""
    unit = installation.unit
    if unit is None:
        return ()
    try:
        found = obstacle(host, unit, systemd.unit_files(host, unit), model_paths(host, model))
    except (Undecided, LlmopsError) as why:
        return (Check(CHECK, "by its service", None, CheckStatus.NOT_EVALUATED, str(why)),)
    if found is None:
        return (Check(CHECK, "by its service", "yes", CheckStatus.PASS, f"{unit} could be started again"),)
    detail = f"the next start would fail: {found.message}; {found.hint}"
    return (Check(CHECK, "by its service", "no", CheckStatus.FAIL, detail),)


def model_paths(host: Host, model: ModelSpec) -> tuple[str, ...]:
    """The files of a model; of a checkpoint its directory, which its server lists, and what it may read in it."""
    if model.format != "safetensors" or not model.source_paths:
        return model.source_paths
    directory = str(PurePosixPath(model.source_paths[0]).parent)
    try:
        names = host.list_directory(directory)
    except OSError:
        names = ()
    beside = (f"{directory}/{name}" for name in names if PurePosixPath(name).suffix in _READ_BESIDE)
    return tuple(dict.fromkeys((directory, *model.source_paths, *(path for path in beside if _is_file(host, path)))))


def _is_file(host: Host, path: str) -> bool:
    try:
        return host.status(path).kind == "file"
    except OSError:
        return False


def obstacle(
    host: Host, unit: str, files: Sequence[UnitFile], paths: Sequence[str], needed: int = READ
) -> Obstacle | None:
    """The first thing that keeps the service of these files from one of the paths; raise Undecided."""
    closed = closed_file(files)
    if closed is not None:
        raise Undecided(f"{closed} is readable by root only, and may say who the service runs as")
    confined = confinement(unit, files)
    # systemd follows links of both ends of a bind.
    confined = replace(confined, bound=tuple(host.resolve(path) for path in confined.bound))
    if confined.has_own_root:
        raise Undecided(f"{unit} has a root directory of its own")
    seen = _Seen(host, confined, account_of(host, confined), frozenset(paths))
    for path in paths:
        for place in dict.fromkeys((path, host.resolve(path))):
            setting = changed_by(confined, place)
            if setting is not None:
                raise Undecided(f"{unit} shows its service another {place} than this machine has ({setting})")
            found = seen.obstacle(place, needed)
            if found is not None:
                return found
    return None


@dataclass(frozen=True)
class _Seen:
    """The file system as one account sees it inside its unit."""

    host: Host
    confined: Confinement
    account: Account
    wanted: frozenset[str]

    def obstacle(self, path: str, needed: int) -> Obstacle | None:
        unit = self.confined.unit
        setting = hidden_by(self.confined, path)
        if setting is not None:
            return Obstacle(
                f"{unit} hides {path} from its service ({setting})",
                f"move it to a place that every service sees, such as /srv/models, or let the unit show it"
                f" (systemctl edit {unit}): ProtectHome=tmpfs and BindReadOnlyPaths={PurePosixPath(path).parent}",
            )
        if self._status(path) is None:
            return Obstacle(f"{path} is not there", "put it back, or plan with a model that is here: --model PATH")
        for directory in self._on_the_way(path):
            if not self._may(directory, ENTER):
                return self._refused(directory, "enter", f"chmod a+x {directory}")
        if not self._may(path, needed):
            return self._unreadable(path) if needed == READ else self._refused(path, "run", f"chmod a+rx {path}")
        return None

    def _unreadable(self, path: str) -> Obstacle:
        """Of a directory that is wanted as a whole, all of it is let be read at once."""
        parent = str(PurePosixPath(path).parent)
        whole = next((one for one in (path, parent) if one in self.wanted and self._is_directory(one)), None)
        return self._refused(path, "read", f"chmod a+r {path}" if whole is None else f"chmod -R a+rX {whole}")

    def _status(self, path: str) -> FileStatus | None:
        """None where nothing is there."""
        try:
            return self.host.status(path)
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise Undecided(f"{path}: {problem.strerror or problem}") from None

    def _is_directory(self, path: str) -> bool:
        status = self._status(path)
        return status is not None and status.kind == "directory"

    def _on_the_way(self, path: str) -> Iterator[str]:
        """Outermost first; above what is bound into an emptied place systemd makes directories that let through."""
        shown = shown_from(self.confined, path)
        for parent in reversed(PurePosixPath(path).parents):
            if shown is None or PurePosixPath(shown) in (parent, *parent.parents):
                yield str(parent)

    def _refused(self, path: str, verb: str, cure: str) -> Obstacle:
        mode = self.host.status(path).mode & 0o7777
        who = f"{self.confined.unit} runs as {self.account.name}, which may not {verb} {path} (mode {mode:04o})"
        return Obstacle(who, f"let it: {cure}; or move it to a place that it may read")

    def _may(self, path: str, bit: int) -> bool:
        if self.account.reads_all:
            return True
        status = self._status(path)
        if status is None:
            raise Undecided(f"{path} is not there")
        bits = bit | ENTER if bit == READ and status.kind == "directory" else bit
        if mode_for(self.account, status) & bits == bits:
            return True
        self._require_no_access_list(path)
        return False

    def _require_no_access_list(self, path: str) -> None:
        """`ls` marks a file with an access list (setfacl) by a plus sign: then the mode does not say who may read."""
        if said_by(self.host, "ls", "-ld", "--", path).partition(" ")[0].endswith("+"):
            raise Undecided(f"{path} has an access list")
