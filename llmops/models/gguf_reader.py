"""Bounded sequential reading of a GGUF header through a Host: one window of the file at a time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from operator import length_hint
from struct import Struct, error
from typing import TYPE_CHECKING

from llmops.core.errors import NoPermission, UnreadableInput

if TYPE_CHECKING:
    from llmops.host import Host

WINDOW_BYTES = 1024 * 1024
# The headers of the largest vocabularies (262,144 tokens and their merges) take about 20 MB.
MAX_HEADER_BYTES = 256 * 1024 * 1024
# Thirty times the tokens of the largest vocabulary; passing over one string takes about 50 ns.
MAX_STRINGS = 8 * 1024 * 1024
# Limits of what is kept; each is far above any real model and keeps a hostile one under 64 MiB of memory.
MAX_PAIRS = 16_384
MAX_TENSORS = 32_768
AGAIN = "the file is damaged or not a model: download it again, or convert it again"


@dataclass
class Allowance:
    """What the headers of one model may still hold, all its files together: a thousand parts cost no more than one."""

    header_bytes: int = MAX_HEADER_BYTES
    strings: int = MAX_STRINGS
    pairs: int = MAX_PAIRS
    tensors: int = MAX_TENSORS


def unreadable(path: str, what: str, hint: str = AGAIN) -> UnreadableInput:
    """The one form of every complaint about a model file."""
    shown = path if path.isprintable() else repr(path)  # a name can hold what moves a terminal's cursor
    return UnreadableInput(f"{shown}: {what}", hint=hint)


def file_bytes(host: Host, path: str) -> int:
    """Size of a regular file; UnreadableInput where there is none, NoPermission where it may not be seen."""
    try:
        status = host.status(path)
    except (OSError, ValueError) as problem:  # ValueError: no path can hold a NUL
        raise _translated(path, problem) from problem
    if status.kind != "file":
        raise unreadable(path, f"is a {status.kind}, not a model file", "name the .gguf file itself")
    return status.size_bytes


def _translated(path: str, problem: OSError | ValueError) -> UnreadableInput | NoPermission:
    if isinstance(problem, FileNotFoundError):
        return unreadable(path, "no such file", "check the path of the model")
    if isinstance(problem, PermissionError):
        return NoPermission(f"{path}: may not be read by this user", hint="run as a user who may read the model file")
    why = problem.strerror if isinstance(problem, OSError) else None
    return unreadable(path, f"cannot be read: {why or problem}", "check the disk and the path")


class ByteReader:
    """Reads numbers and short strings in order and skips the rest; holds one window of the file in memory."""

    def __init__(self, host: Host, path: str, allowance: Allowance) -> None:
        self.path = path
        self.allowance = allowance
        self.size_bytes = file_bytes(host, path)
        self.position = 0
        self._host = host
        self._window = b""
        self._window_start = 0
        self._order = "<"
        self._length = Struct("<Q")
        self._structs: dict[str, Struct] = {}

    def use_big_endian(self) -> None:
        """Read every later number with its most significant byte first."""
        self._order = ">"
        self._length = Struct(">Q")
        self._structs.clear()

    def take(self, length: int) -> bytes:
        """The next `length` bytes (at most one window)."""
        self._require(length)
        start = self.position - self._window_start
        if not 0 <= start <= len(self._window) - length:
            self._load()
            start = 0
        self.position += length
        return self._window[start : start + length]

    def number(self, code: str) -> int | float | bool:
        """The next number, `code` as in the struct module."""
        layout = self._structs.get(code)
        if layout is None:
            layout = self._structs[code] = Struct(self._order + code)
        value: int | float | bool = layout.unpack(self.take(layout.size))[0]
        return value

    def count(self) -> int:
        """The next 64-bit count or length."""
        (value,) = self._length.unpack(self.take(8))
        return int(value)

    def numbers(self, code: str, count: int) -> tuple[int | float | bool, ...]:
        """The next `count` numbers; together at most one window."""
        layout = Struct(f"{self._order}{count}{code}")
        return layout.unpack(self.take(layout.size))

    def skip(self, length: int) -> None:
        """Pass over bytes without reading them."""
        self._require(length)
        self.position += length

    def skip_strings(self, count: int) -> None:
        """Pass over `count` length-prefixed strings: the token lists, the only long loop of the reader."""
        self._require(count * 8)
        self.allowance.strings -= count
        if self.allowance.strings < 0:
            raise unreadable(self.path, f"lists more than {MAX_STRINGS} strings, more than any model")
        unpack = self._length.unpack_from
        remaining = count
        while remaining:
            window, offset = self._window_at_position()
            steps = repeat(None, remaining)
            try:
                for _ in steps:
                    offset += unpack(window, offset)[0] + 8
                remaining = 0
            except (error, OverflowError):  # the next length lies beyond this window; its step was begun
                remaining = length_hint(steps) + 1
            self.position = self._window_start + offset
            self._require(0)

    def _window_at_position(self) -> tuple[bytes, int]:
        """A window that holds at least the next 8 bytes, and where in it they begin."""
        self._require(8)
        offset = self.position - self._window_start
        if not 0 <= offset <= len(self._window) - 8:
            self._load()
            offset = 0
        return self._window, offset

    def _require(self, length: int) -> None:
        end = self.position + length
        if end > self.size_bytes:
            raise unreadable(
                self.path, f"is truncated: its header needs at least {end} bytes, the file has {self.size_bytes}"
            )
        if end > self.allowance.header_bytes:
            raise unreadable(self.path, f"its header claims more than {MAX_HEADER_BYTES} bytes, more than any model's")

    def _load(self) -> None:
        wanted = min(WINDOW_BYTES, self.size_bytes - self.position)
        try:
            self._window = self._host.read_bytes(self.path, self.position, wanted)
        except OSError as problem:
            raise _translated(self.path, problem) from problem
        self._window_start = self.position
        if len(self._window) < wanted:
            raise unreadable(
                self.path,
                f"became shorter while it was read: {self.position + len(self._window)} of {self.size_bytes} bytes",
                "wait until the download has ended and try again",
            )
