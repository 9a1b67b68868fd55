"""Which version of Ollama serves: asked of the server first, since a program on disk may be newer than what runs."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from llmops.core.version import Version
from llmops.host import Host

# "ollama version is 0.32.15", and with no server or another one "Warning: client version is 0.32.15" (cmd/cmd.go).
_SAID = re.compile(r"(client )?version is (\d+(?:\.\d+)+\S*)")
_UNSTAMPED = Version((0, 0, 0))  # a build from source without its version written into it
_ASK_SECONDS = 20.0


@dataclass(frozen=True)
class Said:
    """Version and its text; `problem` says why a program that is there cannot be used."""

    version: Version | None = None
    text: str | None = None
    problem: str | None = None


def version_of(host: Host, command: tuple[str, ...], url: str | None) -> Said:
    """What the server at `url` says, else what the program itself says."""
    text = None if url is None else server_version(host, url)
    return _read(text) if text is not None else _of_program(host, command)


def server_version(host: Host, url: str) -> str | None:
    """The answer of GET /api/version; None where nobody answers or somebody else does."""
    try:
        answer = host.get(f"{url}/api/version", timeout_seconds=3.0)
        document = json.loads(answer.body)
    except (ConnectionError, TimeoutError, ValueError, RecursionError):
        return None
    text = document.get("version") if isinstance(document, dict) else None
    return text if answer.status == 200 and isinstance(text, str) and text else None


def _read(text: str) -> Said:
    version = Version.parse(text)
    return Said(None if version == _UNSTAMPED else version, text)


def _of_program(host: Host, command: tuple[str, ...]) -> Said:
    try:
        answer = host.query((*command, "--version"), timeout_seconds=_ASK_SECONDS)
    except (OSError, TimeoutError) as problem:
        return Said(problem=f"{command[0]} --version: {getattr(problem, 'strerror', None) or problem}")
    said = _SAID.findall(f"{answer.stdout}\n{answer.stderr}")
    if not said:
        words = " ".join(f"{answer.stderr} {answer.stdout}".split())[:200] or "it prints nothing"
        return Said(problem=f"{command[0]} --version says no version (exit code {answer.exit_code}): {words}")
    own = [text for client, text in said if client]
    return _read(own[-1] if own else said[-1][1])
