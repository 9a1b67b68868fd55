"""Ollama's log: slog text lines on standard error, and the access lines of its web framework."""

from __future__ import annotations

import sys
import time

_START = time.monotonic()


def _quoted(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if text and not any(character in text for character in ' "=\n'):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def write(line: str) -> None:
    """One raw line."""
    sys.stderr.write(line.rstrip("\n") + "\n")
    sys.stderr.flush()


def say(level: str, source: str, message: str, **values: object) -> None:
    """`time=... level=INFO source=routes.go:1 msg=... key=value`."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    extra = "".join(f" {name}={_quoted(value)}" for name, value in values.items())
    write(f"time={stamp} level={level} source={source} msg={_quoted(message)}{extra}")


def access(status: int, seconds: float, client: str, method: str, path: str) -> None:
    """One access line."""
    stamp = time.strftime("%Y/%m/%d - %H:%M:%S")
    took = f"{seconds:.6f}s" if seconds >= 1 else f"{seconds * 1000:.6f}ms"
    write(f'[GIN] {stamp} | {status} | {took:>13} | {client:>15} | {method:<8} "{path}"')
