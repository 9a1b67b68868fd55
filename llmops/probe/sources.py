"""Reading the small text files that the kernel shows; every value keeps where it came from or why it is missing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from llmops.core.hardware import Observation
from llmops.host import Host

T = TypeVar("T")


@dataclass
class Notes:
    """Collects observations while one probe runs."""

    rows: list[Observation] = field(default_factory=list)

    def note(self, quantity: str, value: T | None, source: str, reason: str | None = None) -> T | None:
        """Keep the source of a value, or the reason why it is None; give the value back."""
        missing = None if value is not None else (reason or f"{source} does not show it")
        self.rows.append(Observation(quantity, source, missing))
        return value


@dataclass(frozen=True)
class Text:
    """The content of one file, or why it could not be read."""

    content: str | None
    reason: str | None = None


def read_source(host: Host, path: str) -> Text:
    """Read one file; a missing, forbidden or failing one becomes a reason."""
    try:
        return Text(host.read_text(path))
    except FileNotFoundError:
        return Text(None, f"{path} does not exist")
    except PermissionError:
        return Text(None, f"no permission to read {path}")
    except OSError as error:
        return Text(None, f"{path}: {error.strerror or error}")


def read_value(host: Host, path: str) -> str | None:
    """The stripped content of a file where its absence needs no reason."""
    content = read_source(host, path).content
    return None if content is None else content.strip()


def list_names(host: Host, path: str) -> tuple[str, ...]:
    """Names in a directory, none where it cannot be listed."""
    try:
        return host.list_directory(path)
    except OSError:
        return ()


def to_int(text: str | None) -> int | None:
    """A whole number, or None for anything else."""
    try:
        return None if text is None else int(text.strip())
    except ValueError:
        return None


def keyed_numbers(content: str | None) -> dict[str, int]:
    """First number behind each name: `MemTotal:  123 kB` and `inactive_file 123` alike; units stay as they are."""
    numbers: dict[str, int] = {}
    for line in (content or "").splitlines():
        words = line.replace(":", " ").split()
        number = to_int(words[1]) if len(words) > 1 else None
        if number is not None:
            numbers.setdefault(words[0], number)
    return numbers


def parse_cpu_list(text: str | None) -> frozenset[int] | None:
    """`0-3,8,10-11` as numbers, as the kernel writes sets of processors; None for nonsense or nothing."""
    cpus: set[int] = set()
    for part in (text or "").strip().split(","):
        first, _, last = part.partition("-")
        low = to_int(first)
        high = to_int(last) if last else low
        if low is None or high is None:
            return None
        cpus.update(range(low, high + 1))
    return frozenset(cpus) or None
