"""Who a unit runs as and which places it hides from its service, read from its files (systemd.exec(5)). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from llmops.systemd.syntax import UnitFile, assignments, resolve_specifiers, split_words, values

_YES = frozenset({"1", "yes", "y", "true", "t", "on"})
# What ProtectHome= and PrivateTmp= hide.
HOMES = ("/home", "/root", "/run/user")
TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - named, never written to
_FOREIGN_ROOTS = ("RootDirectory", "RootImage")
# Directories of a service with an account of its own: systemd gives them to it at every start, wherever they lie.
_OWN_DIRECTORIES = (("StateDirectory", "/var/lib"), ("CacheDirectory", "/var/cache"))
# Capabilities that let root read what its mode bits keep from it (capabilities(7)).
_READS_ALL = frozenset({"CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH"})
# A word of a setting that colons divide: quoted pieces, escaped and plain characters; a quoted colon divides nothing.
_DIVIDED = re.compile(r"""(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\\.|[^\s"'\\])+""")
_PIECE = re.compile(r""""((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|(\\.)|(:)|([^"'\\:]+)""")
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True)
class Confinement:
    """What a unit says of its service's account and of what the service can see.

    `user` None is root, or with `is_dynamic` an account named like the unit. `closed` places are hidden with all that
    is bound below them (setting, path); in `emptied` ones, what is bound there is seen. `bound` are the paths that are
    shown at their own place. At `changed` places the service sees what the machine does not, or may do what modes do
    not say. `has_own_root`: another directory or image is its file system. `reads_all` is of an account that is not
    root.
    """

    unit: str
    user: str | None = None
    groups: tuple[str, ...] = ()
    is_dynamic: bool = False
    closed: tuple[tuple[str, str], ...] = ()
    emptied: tuple[tuple[str, str], ...] = ()
    bound: tuple[str, ...] = ()
    changed: tuple[tuple[str, str], ...] = ()
    has_own_root: bool = False
    root_reads_all: bool = True
    reads_all: bool = False


def confinement(unit: str, files: Sequence[UnitFile]) -> Confinement:
    """Read the settings that are in force over all files of the unit."""
    said = _Said(unit, files)
    homes = said.last("ProtectHome")
    return Confinement(
        unit=unit,
        user=said.last("User") or None,
        groups=tuple(name for name in (said.last("Group"), *said.words("SupplementaryGroups")) if name),
        is_dynamic=said.last("DynamicUser") in _YES,
        closed=(
            *((f"ProtectHome={homes}", path) for path in HOMES if homes in _YES),
            *(("InaccessiblePaths=", path.lstrip("-+")) for path in said.words("InaccessiblePaths")),
        ),
        emptied=(
            *(("ProtectHome=tmpfs", path) for path in HOMES if homes == "tmpfs"),
            *(("PrivateTmp=", path) for path in TEMPORARY if said.has_temporary_of_its_own),
            *(("TemporaryFileSystem=", parts[0]) for parts in said.divided("TemporaryFileSystem")),
        ),
        bound=tuple(source for source, shown in said.binds if source == shown),
        changed=(*(("BindPaths=", shown) for source, shown in said.binds if source != shown), *said.own_directories),
        has_own_root=any(said.last(key) not in {"", "/"} for key in _FOREIGN_ROOTS),
        root_reads_all=said.keeps_capabilities and not said.has_users_of_its_own,
        reads_all=said.is_given_capabilities,
    )


def hidden_by(found: Confinement, path: str) -> str | None:
    """The setting that hides a path, written without links, from the service; None where it can be seen."""
    for setting, place in found.closed:
        if _is_below(path, place):
            return setting
    for setting, place in found.emptied:
        if _is_below(path, place) and not any(_is_below(path, one) and _is_below(one, place) for one in found.bound):
            return setting
    return None


def changed_by(found: Confinement, path: str) -> str | None:
    """The setting that shows the service something else at a path than the machine has there; None where none does."""
    return next((setting for setting, place in found.changed if _is_below(path, place)), None)


def shown_from(found: Confinement, path: str) -> str | None:
    """The bound place in an emptied one through which a path is seen: systemd makes the directories above it."""
    for one in found.bound:
        if _is_below(path, one) and any(_is_below(one, place) for _, place in found.emptied):
            return one
    return None


def _is_below(path: str, place: str) -> bool:
    return PurePosixPath(place) in (PurePosixPath(path), *PurePosixPath(path).parents)


def _parts(word: str) -> list[str]:
    """The parts of one word between colons, quotes undone."""
    parts = [""]
    for double, single, escaped, colon, plain in _PIECE.findall(word):
        if colon:
            parts.append("")
        else:
            parts[-1] += _ESCAPED.sub(r"\1", double or single or escaped) + plain
    return parts


class _Said:
    """The settings of the [Service] section, specifiers resolved as far as the files tell."""

    def __init__(self, unit: str, files: Sequence[UnitFile]) -> None:
        self._unit, self._files = unit, files

    def last(self, key: str) -> str:
        found = values(self._files, "Service", key)
        return resolve_specifiers(found[-1][1], self._unit) if found else ""

    def words(self, key: str) -> tuple[str, ...]:
        found: list[str] = []
        for _, value in values(self._files, "Service", key):
            try:
                found += (resolve_specifiers(word, self._unit) for word in split_words(value))
            except ValueError:  # a quote that is not closed: systemd ignores the line too
                continue
        return tuple(found)

    def divided(self, key: str) -> Iterator[list[str]]:
        """The parts of every word of settings such as SOURCE:DESTINATION:OPTIONS."""
        for _, value in values(self._files, "Service", key):
            for word in _DIVIDED.findall(value):
                yield [resolve_specifiers(part, self._unit) for part in _parts(word)]

    @property
    def binds(self) -> tuple[tuple[str, str], ...]:
        """What is bound, and where the service sees it."""
        found = []
        for key in ("BindPaths", "BindReadOnlyPaths"):
            for first, *rest in self.divided(key):
                source = first.removeprefix("-").removeprefix("+")
                found.append((source, (rest[0] if rest else "") or source))
        return tuple(found)

    @property
    def own_directories(self) -> Iterator[tuple[str, str]]:
        """Only of an account that exists while the service runs: a lasting one has its modes on disk."""
        for key, base in _OWN_DIRECTORIES if self.last("DynamicUser") in _YES else ():
            for name, *_ in self.divided(key):
                yield from ((f"{key}=", f"{base}/{name}"), (f"{key}=", f"{base}/private/{name}"))

    @property
    def has_users_of_its_own(self) -> bool:
        """Then root's capabilities do not reach what belongs to others on the machine (user_namespaces(7))."""
        return self.last("PrivateUsers") in {*_YES, "self"}

    @property
    def has_temporary_of_its_own(self) -> bool:
        """DynamicUser= implies it."""
        return self.last("PrivateTmp") in {*_YES, "disconnected"} or self.last("DynamicUser") in _YES

    @property
    def keeps_capabilities(self) -> bool:
        """Whether root stays able to read everything; an empty CapabilityBoundingSet= leaves it nothing."""
        kept = self._capabilities("CapabilityBoundingSet")  # all, as long as nobody says anything
        return kept is None or bool(kept)

    @property
    def is_given_capabilities(self) -> bool:
        """Whether another account than root gets what lets it read everything."""
        return bool(self._capabilities("AmbientCapabilities")) and self.keeps_capabilities

    def _capabilities(self, key: str) -> frozenset[str] | None:
        kept: frozenset[str] | None = None
        for file in self._files:
            for one in assignments(file.text):
                if (one.section, one.key) == ("Service", key):
                    kept = _bounded(kept, one.value)
        return kept


def _bounded(kept: frozenset[str] | None, value: str) -> frozenset[str]:
    """What one more line leaves of the two capabilities: names add to earlier ones, after a tilde they are taken."""
    named = _READS_ALL & set(value.removeprefix("~").split())
    if not value:
        return frozenset()
    if value.startswith("~"):
        return _READS_ALL if value == "~" else (_READS_ALL if kept is None else kept) - named
    return named if kept is None else kept | named
