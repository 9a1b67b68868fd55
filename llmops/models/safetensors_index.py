"""model.safetensors.index.json: which file holds which tensor, summed up by file, for the list can have 30 MB."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from llmops.models.gguf_reader import file_bytes, unreadable
from llmops.models.json_file import AGAIN
from llmops.models.json_stream import COMMA_OR_END, KEY, OPENING, PLAIN, JsonStream, listed
from llmops.models.safetensors import MAX_TENSORS, MAX_UNUSUAL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from llmops.host import Host

MAX_INDEX_BYTES = 128 * 1024 * 1024
MAX_FILES = 1_000
MAX_MEMBERS = 256
_B = rb"[ \t\r\n]*"
_NAME, _FILE = rb'"(' + PLAIN + rb'{1,512})"', rb'"(' + PLAIN + rb'{1,255})"'
_PAIRS = listed(_B + _NAME + _B + rb":" + _B + _FILE)
_VALUE = re.compile(rb'"(?:[^"\\\x00-\x1f]|\\[^\x00-\x1f]){0,1024}"|[-+.\w]{1,64}')
_BLANKS = re.compile(_B)
_TEXT = re.compile(_B + rb'"((?:[^"\\\x00-\x1f]|\\[^\x00-\x1f]){0,1024})"')


class Listed(NamedTuple):
    """What the index says of one file: its tensors, and the sum over their names that `FileTotals` has too."""

    tensors: int
    names: int


def read_index(host: Host, path: str) -> dict[str, Listed]:
    """The files by name, in the order of their first tensor; raises UnreadableInput or NoPermission."""
    size = file_bytes(host, path)
    if size > MAX_INDEX_BYTES:
        raise unreadable(path, f"has {size} bytes; such a file has at most {MAX_INDEX_BYTES}", AGAIN)
    stream = JsonStream(host, path, 0, size, "list of files")
    found: dict[str, Listed] | None = None
    delimiter = b"}" if stream.require(OPENING).group(1) else b","
    for _ in range(MAX_MEMBERS):
        if delimiter == b"}":
            break
        if stream.key() != "weight_map":
            _pass_value(stream)
        elif found is None:
            found = _read_map(stream)
        else:
            raise unreadable(path, "names 'weight_map' twice", AGAIN)
        delimiter = stream.require(COMMA_OR_END).group(1)
    if delimiter != b"}":
        raise unreadable(path, f"has more than {MAX_MEMBERS} members", AGAIN)
    stream.require_end()
    if not found:
        raise unreadable(path, "lists no files: it has no 'weight_map'", AGAIN)
    return found


def _pass_value(stream: JsonStream) -> None:
    """Pass over a text, a number or a flat object of these (`metadata`)."""
    opening = stream.take(OPENING)
    if opening is None:
        stream.take(_BLANKS)
        stream.require(_VALUE)
        return
    delimiter = b"}" if opening.group(1) else b","
    for _ in range(MAX_MEMBERS):
        if delimiter == b"}":
            return
        stream.require(KEY)
        stream.take(_BLANKS)
        stream.require(_VALUE)
        delimiter = stream.require(COMMA_OR_END).group(1)
    raise unreadable(stream.path, f"has an object of more than {MAX_MEMBERS} members beside its list of files", AGAIN)


@dataclass
class _Map:
    tensors: dict[bytes, int] = field(default_factory=dict)
    names: dict[bytes, int] = field(default_factory=dict)

    def add_usual(self, stream: JsonStream) -> bytes:
        """All pairs without an escape that the window holds; answers what follows the last one."""
        found = stream.run(_PAIRS)
        self._add((name, file) for _, name, file, _ in found)
        return stream.require(COMMA_OR_END).group(1) if found and not found[-1][-1] else b","

    def add_next(self, stream: JsonStream) -> bytes:
        """One pair of any texts; answers what follows it."""
        name = stream.key().encode("utf-8", "surrogatepass")
        file = stream.decoded(stream.require(_TEXT).group(1)).encode("utf-8", "surrogatepass")
        self._add([(name, file)])
        return stream.require(COMMA_OR_END).group(1)

    def _add(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        tensors, names = self.tensors, self.names
        for name, file in pairs:
            tensors[file] = tensors.get(file, 0) + 1
            names[file] = names.get(file, 0) + hash(name)

    def require_bounded(self, path: str, unusual: int) -> None:
        """Raise UnreadableInput for more than any model has."""
        if unusual > MAX_UNUSUAL or len(self.tensors) > MAX_FILES or sum(self.tensors.values()) > MAX_TENSORS:
            raise unreadable(path, f"lists more than {MAX_TENSORS} tensors or {MAX_FILES} files", AGAIN)


def _read_map(stream: JsonStream) -> dict[str, Listed]:
    found = _Map()
    unusual = 0
    delimiter = b"}" if stream.require(OPENING).group(1) else b","
    while delimiter == b",":
        delimiter = found.add_usual(stream)
        if delimiter == b",":
            delimiter = found.add_next(stream)
            unusual += 1
        found.require_bounded(stream.path, unusual)
    return {_file_name(stream, file): Listed(count, found.names[file]) for file, count in found.tensors.items()}


def _file_name(stream: JsonStream, name: bytes) -> str:
    """A name in the directory of the index, never a way out of it."""
    text = name.decode("utf-8", "replace")
    if not text.isprintable() or "/" in text or not text.endswith(".safetensors") or len(text) > 255:
        raise unreadable(stream.path, f"names {text[:100]!r}, which is no .safetensors file beside it", AGAIN)
    return text
