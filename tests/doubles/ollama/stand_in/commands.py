"""The command line: the server, and the few commands that look at it."""

from __future__ import annotations

import datetime
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

from . import old_runner, server
from .settings import parse_address, variable
from .traits import DEFAULT_VERSION

_LOOPBACK_OF = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]"}


def ask(path: str, body: object | None = None) -> Any:
    """The JSON that the running server answers."""
    address = parse_address(variable(os.environ, "OLLAMA_HOST"))
    host = _LOOPBACK_OF.get(address.host, f"[{address.host}]" if ":" in address.host else address.host)
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(f"http://{host}:{address.port}{path}", data=data, timeout=30) as answer:
        return json.load(answer)


def version() -> int:
    """The server's version, and the program's own where the server does not answer."""
    own = os.environ.get("OLLAMA_STAND_IN_VERSION", DEFAULT_VERSION)
    try:
        print(f"ollama version is {ask('/api/version')['version']}")
    except OSError:
        print(f"Warning: could not connect to a running Ollama instance\nWarning: client version is {own}")
    return 0


def bytes_text(size: int) -> str:
    """Bytes with two or three digits, in thousands."""
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if size >= factor:
            value = size / factor
            return f"{value:.0f} {unit}" if value >= 10 else f"{value:.1f} {unit}"
    return f"{size} B"


def processor_text(size: int, vram: int) -> str:
    """The column PROCESSOR of `ollama ps`."""
    if vram == 0:
        return "100% CPU"
    if vram > size or size == 0:
        return "Unknown"
    if vram == size:
        return "100% GPU"
    host = round((size - vram) / size * 100)
    return f"{host}%/{100 - host}% CPU/GPU"


def until_text(text: str) -> str:
    """The column UNTIL of `ollama ps`."""
    moment = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    seconds = (moment - datetime.datetime.now(datetime.timezone.utc)).total_seconds()
    if seconds < 0:
        return "Stopping..."
    if seconds > 100 * 365 * 86400:
        return "Forever"
    return f"{seconds / 60:.0f} minutes from now" if seconds >= 90 else f"{seconds:.0f} seconds from now"


def table(rows: Sequence[Sequence[str]]) -> None:
    """Columns four spaces apart."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("".join(f"{cell:<{width}}    " for cell, width in zip(row, widths, strict=True)))


def ps() -> int:
    """`ollama ps`"""
    rows = [("NAME", "ID", "SIZE", "PROCESSOR", "CONTEXT", "UNTIL")]
    for model in ask("/api/ps")["models"]:
        size = model["size"]
        rows.append(
            (model["name"], model["digest"][:12], bytes_text(size), processor_text(size, model["size_vram"]),
             str(model.get("context_length", "")), until_text(model["expires_at"]))
        )  # fmt: skip
    table(rows)
    return 0


def list_models() -> int:
    """`ollama list`"""
    rows = [("NAME", "ID", "SIZE", "MODIFIED")]
    for model in ask("/api/tags")["models"]:
        rows.append((model["name"], model["digest"][:12], bytes_text(model["size"]), model["modified_at"][:10]))
    table(rows)
    return 0


def show(name: str) -> int:
    """`ollama show --modelfile NAME`"""
    print(ask("/api/show", {"model": name})["modelfile"], end="")
    return 0


def stop(name: str) -> int:
    """`ollama stop NAME`"""
    ask("/api/generate", {"model": name, "keep_alive": 0, "stream": False})
    return 0


def _client(words: list[str]) -> int:
    commands = {"ps": ps, "list": list_models, "ls": list_models}
    named = {"show": show, "stop": stop}
    plain = [word for word in words[1:] if not word.startswith("-")]
    if words[0] in commands and not plain:
        return commands[words[0]]()
    if words[0] in named and len(plain) == 1:
        return named[words[0]](plain[0])
    print(f'Error: unknown command "{words[0]}" for "ollama"', file=sys.stderr)
    return 1


def main(words: list[str]) -> int:
    """Run one command; its exit code."""
    if words[:1] in (["--version"], ["-v"]):
        return version()
    if words == ["serve"]:
        return server.serve(sys.argv[0])
    if words[:1] == ["runner"]:
        return old_runner.run()
    if not words:
        print("Usage: ollama serve | ps | list | show MODEL | stop MODEL | --version")
        return 0
    try:
        return _client(words)
    except urllib.error.HTTPError as error:
        print(f"Error: {json.load(error)['error']}", file=sys.stderr)
        return 1
    except OSError:
        print("Error: could not connect to ollama server, run 'ollama serve' to start it", file=sys.stderr)
        return 1
