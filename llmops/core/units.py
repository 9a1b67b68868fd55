"""Sizes and rates: text that people type to base units, and back. The only conversion at each border."""

from __future__ import annotations

import re

from llmops.core.errors import UsageError

KIB, MIB, GIB, TIB = 1024, 1024**2, 1024**3, 1024**4

_MULTIPLIERS = {
    "": 1, "B": 1,
    "K": KIB, "KIB": KIB, "KB": 1000,
    "M": MIB, "MIB": MIB, "MB": 1000**2,
    "G": GIB, "GIB": GIB, "GB": 1000**3,
    "T": TIB, "TIB": TIB, "TB": 1000**4,
}  # fmt: skip
_TOO_LARGE = 1024 * 1024 * TIB  # an exbibyte
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def parse_bytes(text: str) -> int:
    """`24GiB`, `500 MB`, `8G` (binary, as systemd reads it) or a plain number of bytes; raise UsageError otherwise."""
    match = _SIZE.fullmatch(text)
    multiplier = _MULTIPLIERS.get(match.group(2).upper()) if match else None
    if match is None or multiplier is None:
        raise UsageError(f"{text!r} is not a size", hint="write a number with a unit, such as 24GiB or 500MB")
    size = float(match.group(1)) * multiplier
    if size >= _TOO_LARGE:
        raise UsageError(
            f"{text[:20]!r} is more than any machine has", hint="is the unit right? such as 24GiB or 500MB"
        )
    return round(size)


def parse_rate(text: str) -> int:
    """`936GB/s` or `20 GiB/s` to bytes per second; raise UsageError otherwise."""
    size, slash, per = text.strip().rpartition("/")
    if not slash or per.strip().lower() not in {"s", "sec", "second"}:
        raise UsageError(f"{text!r} is not a rate", hint="write a size per second, such as 936GB/s")
    return parse_bytes(size)


def format_bytes(number_bytes: float) -> str:
    """Bytes as binary units with two decimals at most: 6039797760 -> `5.62 GiB`."""
    for unit, name in ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if abs(number_bytes) >= unit:
            return f"{number_bytes / unit:.2f} {name}"
    return f"{number_bytes:.0f} B"


def format_rate(bytes_per_second: float) -> str:
    """Bytes per second in decimal units, as memory vendors print them: 936000000000 -> `936.0 GB/s`."""
    return f"{bytes_per_second / 1e9:.1f} GB/s"
