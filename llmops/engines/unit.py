"""A systemd unit as an engine sees it: the words it starts with, its variables, and which files are whose."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from llmops import systemd
from llmops.host import Host, ProcessInfo
from llmops.systemd import UnitFile

DROP_IN_NAME = "zz-llmops.conf"
UNIT_DIRECTORIES = (
    "/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
    "/lib/systemd/system",
)  # fmt: skip
# What a complete unit of llmops hides from its service (ProtectHome, PrivateTmp): a model or a program below these must
# be shown to it one by one.
HIDDEN_PLACES = ("/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/")  # noqa: S108 - nothing is written there
_MANAGED_MARK = "# Managed by llmops."
# Specifiers that systemd.command() resolves from the unit's name alone; others need systemd itself.
_RESOLVED_SPECIFIERS = frozenset("%nNpitSCLETVhu")
_SPECIFIER = re.compile(r"%(.)")


def drop_in_path(unit: str) -> str:
    """The only file that llmops writes for a unit that it did not make."""
    return f"/etc/systemd/system/{unit}.d/{DROP_IN_NAME}"


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
    """The words that systemd would start; None where there is no ExecStart= or a specifier cannot be resolved."""
    said = systemd.values(files, "Service", "ExecStart")
    if not said:
        return None
    value = said[-1][1]
    if any(name not in _RESOLVED_SPECIFIERS for name in _SPECIFIER.findall(value)):
        return None
    try:
        return systemd.command(value, unit, dict(environment(host, unit, files))).words
    except ValueError:  # a quote that is not closed: systemd refuses it too
        return None


def environment(host: Host, unit: str, files: Sequence[UnitFile]) -> tuple[tuple[str, str], ...]:
    """The variables that the unit would start with; those from an EnvironmentFile win over Environment=."""
    pairs: dict[str, str] = {}
    for _, value in systemd.values(files, "Service", "Environment"):
        pairs.update(pairs_of(value, unit))
    for _, name, value in environment_file_settings(host, files):
        pairs[name] = value
    return tuple(pairs.items())


def pairs_of(value: str, unit: str) -> tuple[tuple[str, str], ...]:
    """The variables of one Environment= line; none where a quote is not closed, for systemd ignores the line then."""
    try:
        return systemd.environment_pairs(value, unit)
    except ValueError:
        return ()


def environment_file_paths(files: Sequence[UnitFile]) -> tuple[str, ...]:
    """The paths of EnvironmentFile=, in order; the dash that makes one optional left out."""
    return tuple(value.removeprefix("-") for _, value in systemd.values(files, "Service", "EnvironmentFile"))


def environment_file_settings(host: Host, files: Sequence[UnitFile]) -> Iterator[tuple[str, str, str]]:
    """(path, name, value) of every variable in the environment files that can be read."""
    for path in environment_file_paths(files):
        try:
            text = host.read_text(path)
        except OSError:  # optional and absent, or not ours to read
            continue
        for name, value in systemd.environment_file_pairs(text):
            yield path, name, value


def unit_of(process: ProcessInfo) -> str | None:
    """The system unit that a process belongs to; None for a user's manager, a container or a login."""
    names = [part for part in (process.control_group or "").split("/") if part.endswith(".service")]
    return names[-1] if len(names) == 1 and not names[0].startswith("user@") else None


def units_on_disk(host: Host, words: str) -> Iterator[str]:
    """Names of service units whose files or drop-ins match `words`, an extended regular expression; no templates."""
    argv = ("grep", "-rlsE", "--include=*.service", "--include=*.conf", words)
    try:
        answer = host.query((*argv, *UNIT_DIRECTORIES))
    except (OSError, TimeoutError):
        return
    for line in answer.stdout.splitlines():
        path = PurePosixPath(line)
        name = path.parent.name.removesuffix(".d") if path.suffix == ".conf" else path.name
        if name.endswith(".service") and not name.endswith("@.service"):
            yield name
