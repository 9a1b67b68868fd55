"""A systemd unit as an engine sees it: the words it starts with, its variables, and which files are whose."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from llmops import systemd
from llmops.core.errors import NoPermission
from llmops.host import Host, ProcessInfo
from llmops.systemd import Command, UnitFile
from llmops.systemd.confinement import HOMES, TEMPORARY
from llmops.systemd.syntax import literal, resolve_specifiers, variables_in

DROP_IN_NAME = "zz-llmops.conf"
# Where an administrator's units are, and those that llmops makes.
UNIT_DIRECTORY = "/etc/systemd/system"
UNIT_DIRECTORIES = (
    UNIT_DIRECTORY, "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
    "/lib/systemd/system",
)  # fmt: skip
# Files that llmops names in its units; only the person writes secrets into them.
OWN_DIRECTORY = "/etc/llmops/"
# What a complete unit of llmops hides from its service (ProtectHome, PrivateTmp): a model or a program below these must
# be shown to it one by one.
HIDDEN_PLACES = tuple(f"{place}/" for place in (*HOMES, *TEMPORARY))
_MANAGED_MARK = "# Managed by llmops."
# Specifiers that systemd.command() resolves from the unit's name alone; others need systemd itself.
_RESOLVED_SPECIFIERS = frozenset("%nNpitSCLETVhu")
_SPECIFIER = re.compile(r"%(.)")
# Variables that systemd gives to a service by itself (systemd.exec(5)): no file says what they hold.
_GIVEN_VARIABLE = re.compile(r"PATH|HOME|USER|LOGNAME|SHELL|MAINPID|INVOCATION_ID|[A-Z]+_DIRECTORY")
# The others (`@`, `:`) only say how the line itself is read.
_KEPT_PREFIXES = frozenset("-+!|")
_WILDCARDS = re.compile(r"[*?\[]")


def unit_path(unit: str) -> str:
    """Where llmops writes a unit that it makes itself."""
    return f"{UNIT_DIRECTORY}/{unit}"


def drop_in_path(unit: str) -> str:
    """The only file that llmops writes for a unit that it did not make."""
    return f"{unit_path(unit)}.d/{DROP_IN_NAME}"


def is_managed(file: UnitFile) -> bool:
    """Whether llmops wrote this file."""
    return PurePosixPath(file.path).name == DROP_IN_NAME or file.text.startswith(_MANAGED_MARK)


def managed_fragment(files: Sequence[UnitFile]) -> bool:
    """Whether the unit itself, not only a drop-in, was written by llmops."""
    return bool(files) and not files[0].path.endswith(".conf") and is_managed(files[0])


def user_files(files: Sequence[UnitFile]) -> tuple[UnitFile, ...]:
    """The unit without our drop-in."""
    return tuple(file for file in files if PurePosixPath(file.path).name != DROP_IN_NAME)


def unmanaged_drop_ins(files: Sequence[UnitFile]) -> tuple[tuple[str, str], ...]:
    """(path, text) of drop-ins that a person wrote; those of a package are under /usr."""
    return tuple(
        (file.path, file.text)
        for file in files
        if file.path.endswith(".conf") and not is_managed(file) and not file.path.startswith(("/usr/", "/lib/"))
    )


def exec_words(host: Host, unit: str, files: Sequence[UnitFile]) -> tuple[str, ...] | None:
    """The words that systemd would start; None where there is no ExecStart= or the files do not tell all of it."""
    command = exec_command(host, unit, files)
    if command is None or any(_is_unresolved(word) for word in command.written):
        return None
    unsaid = set().union(*map(variables_in, command.written)) - dict(environment(host, unit, files)).keys()
    if any(_GIVEN_VARIABLE.fullmatch(name) for name in unsaid):
        return None
    unseen = bool(unsaid) and any(_is_closed(host, path) for path in environment_file_paths(host, unit, files))
    return None if unseen else command.words


def exec_command(host: Host, unit: str, files: Sequence[UnitFile]) -> Command | None:
    """The last ExecStart=, variables replaced as far as the files say them; None without one that can be read."""
    if closed_file(files) is not None:
        return None
    said = systemd.values(files, "Service", "ExecStart")
    try:
        return systemd.command(said[-1][1], unit, dict(environment(host, unit, files))) if said else None
    except ValueError:  # a quote that is not closed: systemd refuses it too
        return None


def literals(words: Sequence[str]) -> tuple[str, ...]:
    """Words as a unit file would have them; systemd looks for no variables in the first, the program."""
    return (*(word.replace("%", "%%") for word in words[:1]), *map(literal, words[1:]))


def kept_prefix(command: Command | None) -> str:
    """What has to stand before the program in a drop-in too: what decides about privileges and the exit code."""
    return "".join(mark for mark in command.prefix if mark in _KEPT_PREFIXES) if command else ""


def closed_file(files: Sequence[UnitFile]) -> str | None:
    """The first file of a unit that this process may not read."""
    return next((file.path for file in files if not file.readable), None)


def require_open(unit: str, closed: str | None) -> None:
    """Raise NoPermission where the words of a unit are unknown for want of rights; `closed` says of which file."""
    if closed is not None:
        raise NoPermission(f"{closed}, so what {unit} starts is not known", hint="run it as root: sudo llmops ...")


def _is_unresolved(text: str) -> bool:
    return any(name not in _RESOLVED_SPECIFIERS for name in _SPECIFIER.findall(text))


def _is_closed(host: Host, path: str) -> bool:
    """Whether an environment file may set what is not seen here; one that is not there sets nothing."""
    try:
        host.read_text(path)
    except OSError as problem:
        return not isinstance(problem, FileNotFoundError) or _is_unresolved(path)
    return False


def environment(host: Host, unit: str, files: Sequence[UnitFile]) -> tuple[tuple[str, str], ...]:
    """The variables that the unit would start with; those from an EnvironmentFile win over Environment=."""
    pairs: dict[str, str] = {}
    for _, value in systemd.values(files, "Service", "Environment"):
        pairs.update(pairs_of(value, unit))
    for _, name, value in environment_file_settings(host, unit, files):
        pairs[name] = value
    return tuple(pairs.items())


def pairs_of(value: str, unit: str) -> tuple[tuple[str, str], ...]:
    """The variables of one Environment= line; none where a quote is not closed, for systemd ignores the line then."""
    try:
        return systemd.environment_pairs(value, unit)
    except ValueError:
        return ()


def environment_file_paths(host: Host, unit: str, files: Sequence[UnitFile]) -> tuple[str, ...]:
    """The files that EnvironmentFile= names, in order: specifiers resolved, and a name with wildcards looked up."""
    said = systemd.values(files, "Service", "EnvironmentFile")
    named = (resolve_specifiers(value.removeprefix("-"), unit) for _, value in said)
    return tuple(path for name in named for path in _matching(host, PurePosixPath(name)))


def _matching(host: Host, name: PurePosixPath) -> tuple[str, ...]:
    """The files of one name; wildcards stand in its last part (those in a directory's name are not looked up)."""
    if not _WILDCARDS.search(name.name):
        return (str(name),)
    try:
        listed = host.list_directory(name.parent)
    except OSError:
        return (str(name),)
    return tuple(f"{name.parent}/{entry}" for entry in sorted(listed) if fnmatchcase(entry, name.name))


def environment_file_settings(host: Host, unit: str, files: Sequence[UnitFile]) -> Iterator[tuple[str, str, str]]:
    """(path, name, value) of every variable in the environment files that can be read."""
    for path in environment_file_paths(host, unit, files):
        for name, value in pairs_in_file(host, path):
            yield path, name, value


def pairs_in_file(host: Host, path: str) -> tuple[tuple[str, str], ...]:
    """The variables of one environment file; () for one that is optional and absent, or that only root may read."""
    try:
        return systemd.environment_file_pairs(host.read_text(path))
    except OSError:
        return ()


def unit_of(process: ProcessInfo) -> str | None:
    """The system unit that a process belongs to; None for a user's manager, a container or a login."""
    names = [part for part in (process.control_group or "").split("/") if part.endswith(".service")]
    return names[-1] if len(names) == 1 and not names[0].startswith("user@") else None


def units_on_disk(host: Host, words: str) -> Iterator[str]:
    """Names of service units whose files or drop-ins match `words`, an extended regular expression; no templates."""
    argv = ("grep", "-RlsE", "--include=*.service", "--include=*.conf", words)  # -R: `systemctl link` makes links
    try:
        answer = host.query((*argv, *UNIT_DIRECTORIES))
    except (OSError, TimeoutError):
        return
    for line in answer.stdout.splitlines():
        path = PurePosixPath(line)
        name = path.parent.name.removesuffix(".d") if path.suffix == ".conf" else _without_alias(host, path)
        if name.endswith(".service") and not name.endswith("@.service"):
            yield name


def _without_alias(host: Host, path: PurePosixPath) -> str:
    """The name of the unit that a file makes; a link to another unit only gives that one a second name.

    A link to a template (llama@.service) is one of its instances.
    """
    target = PurePosixPath(host.resolve(path))
    alias = str(target.parent) in UNIT_DIRECTORIES and not target.name.endswith("@.service")
    return target.name if alias else path.name
