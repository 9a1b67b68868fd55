"""Which llama.cpp the installed xllamacpp wheel carries, from its metadata alone."""

from __future__ import annotations

import platform
from importlib import metadata

PACKAGE = "xllamacpp"
BUILD_PART = 2  # releases are YEAR.MONTH.BUILD; the library itself, built without git, says build 0


def version_text() -> str:
    """Two lines in llama-server's layout; build 0 where the wheel is absent or numbered in another way."""
    try:
        release = metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        release = "not-installed"
    parts = release.split(".")
    build = parts[BUILD_PART] if len(parts) > BUILD_PART and parts[BUILD_PART].isdigit() else "0"
    where = f"{platform.system()} {platform.machine()}"
    return f"version: xllamacpp-{release} (build {build}, commit unknown)\nbuilt as a Python wheel for {where}\n"
