"""The files of a Hugging Face model directory: which of them are the model, and that none leads out of it."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from llmops.core.errors import NoPermission
from llmops.models.gguf_reader import unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from llmops.host import Host

CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
SUFFIX = ".safetensors"
_NUMBERED = re.compile(r"(.{1,200})-(\d{5,6})-of-(\d{5,6})\.safetensors")
_OTHER_WEIGHTS = (".bin", ".pt", ".pth", ".h5", ".msgpack")  # of PyTorch and others, without sizes in a header
MAX_FILES = 1_000
MOST_NAMED = 5
MAX_NAME_LENGTH = 256


class ModelDirectory:
    """One directory; files are reached by their name in it and by nothing else.

    A snapshot in the Hugging Face cache consists of links into the `blobs` of its repository; other links out of the
    directory are refused. Raises UnreadableInput or NoPermission where it cannot be listed.
    """

    def __init__(self, host: Host, path: str) -> None:
        self.host = host
        self.path = path
        self.names = list_names(host, path)
        self._roots = self._allowed()

    def _allowed(self) -> tuple[PurePosixPath, ...]:
        try:
            real = PurePosixPath(self.host.resolve(self.path))
        except (OSError, ValueError) as problem:
            raise unreadable(self.path, f"cannot be followed: {problem}", "check the path of the model") from None
        repository = real.parent.parent
        if real.parent.name == "snapshots" and repository.name.startswith("models--"):
            return (real, repository / "blobs")
        return (real,)

    @property
    def shown_name(self) -> str:
        """What a person calls it: of a snapshot the repository's name, else the directory's own."""
        if self.repository is None:
            return self._roots[0].name[:MAX_NAME_LENGTH]
        return PurePosixPath(self.repository).name.rpartition("--")[2][:MAX_NAME_LENGTH]

    @property
    def repository(self) -> str | None:
        """The repository in the cache that this is a snapshot of, its path; None for other directories."""
        return str(self._roots[1].parent) if len(self._roots) > 1 else None

    def has(self, name: str) -> bool:
        """Whether a file of this name is there; a link to nothing is none."""
        return name in self.names and self._kind(name) == "file"

    def file(self, name: str) -> str:
        """The path of a file; raises UnreadableInput where it is a link out of the directory."""
        path = str(PurePosixPath(self.path, name))
        try:
            real = PurePosixPath(self.host.resolve(path))
        except (OSError, ValueError) as problem:
            raise unreadable(path, f"cannot be followed: {problem}", "check the path of the model") from None
        if not any(real.is_relative_to(root) for root in self._roots):
            raise unreadable(
                path, f"is a link out of the model's directory, to {str(real)!r}", "name the directory that it leads to"
            )
        return path

    def _kind(self, name: str) -> str | None:
        try:
            return self.host.status(PurePosixPath(self.path, name)).kind
        except OSError:
            return None

    def ending(self, suffix: str) -> tuple[str, ...]:
        """The names with this ending, in order."""
        return tuple(name for name in self.names if name.lower().endswith(suffix))

    def weight_files(self) -> tuple[str, ...]:
        """The .safetensors files of a model without an index: all that vLLM would load.

        Mistral's own form (consolidated) and adapters lie beside a model; numbered files must all be there.
        """
        names = [name for name in self.ending(SUFFIX) if not name.startswith("adapter_")]
        named = [name for name in names if not name.startswith("consolidated")]
        chosen = tuple(named or names)
        if len(chosen) > MAX_FILES:
            raise unreadable(self.path, f"holds more than {MAX_FILES} .safetensors files", "name the model's directory")
        self.require(_all_parts(chosen))
        return chosen

    def require(self, names: Iterable[str]) -> None:
        """Raise UnreadableInput where files of the model are missing, naming them."""
        missing = [name for name in names if not self.has(name)]
        if missing:
            some = ", ".join(missing[:MOST_NAMED])
            more = f" and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
            raise unreadable(self.path, f"files of the model are missing: {some}{more}", self.download_hint())

    def download_hint(self) -> str:
        """What to do about missing files, and how many downloads were begun and not ended."""
        begun = self._begun()
        state = f"{begun} of its downloads were not finished; " if begun else ""
        return f"{state}download the model again: what is there already is kept"

    def _begun(self) -> int:
        """Files that a downloader of the hub has begun: in the cache, or below a directory that it filled."""
        if self.repository is not None:
            place = f"{self.repository}/blobs"
        else:
            place = f"{self.path}/.cache/huggingface/download"
        try:
            return sum(name.endswith(".incomplete") for name in self.host.list_directory(place))
        except OSError:
            return 0

    def other_weights(self) -> bool:
        """Whether weights lie here in a form that is not read."""
        return any(name.lower().endswith(_OTHER_WEIGHTS) for name in self.names)


def _all_parts(names: tuple[str, ...]) -> list[str]:
    """Every name, and those that the numbers in the names promise."""
    promised: dict[str, None] = dict.fromkeys(names)
    for name in names:
        found = _NUMBERED.fullmatch(name)
        if found and int(found.group(3)) <= MAX_FILES:
            stem, width, count = found.group(1), len(found.group(2)), found.group(3)
            for number in range(1, int(count) + 1):
                promised.setdefault(f"{stem}-{number:0{width}d}-of-{count}{SUFFIX}")
    return list(promised)


def list_names(host: Host, path: str) -> tuple[str, ...]:
    """What lies in a directory; raises UnreadableInput or NoPermission."""
    try:
        return tuple(name for name in host.list_directory(path) if name.isprintable())
    except PermissionError as problem:
        raise NoPermission(
            f"{path!r}: may not be listed by this user", hint="run as a user who may read the model"
        ) from problem
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise unreadable(path, f"cannot be listed: {why}", "check the path of the model") from problem
