"""GNU's OpenMP library, which the xllamacpp wheel needs and a minimal Debian lacks, without root and apt.

Where the system has none, a copy goes into the environment: the one that a small wheel on the package index carries.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.environment import PIP, VENV, say

NAME = "libgomp.so.1"
PACKAGE = "pykdtree>=1.4"  # 0.4 MB with libgomp in it; nothing else of it is used
BUNDLED_NAME = re.compile(rb"libgomp-[0-9a-f]+\.so\.1\.0\.0")


def kept_path() -> Path:
    """Where llmops.embedded looks for it, below the prefix of its Python."""
    return VENV / "lib" / NAME


def is_found() -> bool:
    """True where the system's loader finds it."""
    try:
        ctypes.CDLL(NAME)
    except OSError:
        return False
    return True


def renamed(content: bytes) -> bytes:
    """The library under its usual name: wheels rename what they bundle, and the loader goes by the name inside."""
    return BUNDLED_NAME.sub(lambda match: NAME.encode().ljust(len(match.group()), b"\0"), content)


def ensure_openmp() -> None:
    """Put the library into the environment where the system has none; nothing else."""
    if is_found() or kept_path().is_file():
        return
    say(f"{NAME} is not on this machine: taking the one in the {PACKAGE} wheel ...")
    with tempfile.TemporaryDirectory() as directory:
        command = [*PIP, "install", "--quiet", "--no-deps", "--no-compile", "--only-binary=:all:"]
        subprocess.run([*command, "--target", directory, PACKAGE], check=True, stdin=subprocess.DEVNULL)
        bundled = next(Path(directory).glob("*.libs/libgomp-*"), None)
        if bundled is None:
            sys.exit(f"no {NAME} in {PACKAGE}: apt-get install -y libgomp1")
        kept_path().write_bytes(renamed(bundled.read_bytes()))
