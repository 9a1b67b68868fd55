"""`python -m llmops.embedded` takes the flags of llama-server and serves the same routes."""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from llmops.embedded.command_line import CommandLine, RefusedArgument, read_command_line
from llmops.embedded.help import help_text
from llmops.embedded.server import CannotServe, serve
from llmops.embedded.version import version_text

OPENMP = "libgomp.so.1"


def main(words: Sequence[str]) -> int:
    """The exit code: 0 served and stopped, 1 refused or failed, as llama-server has it."""
    try:
        return run(read_command_line(words))
    except (RefusedArgument, CannotServe) as refusal:
        sys.stderr.write(f"{refusal}\n")
        return 1


def run(command_line: CommandLine) -> int:
    """Print what was asked for, or serve."""
    settings = command_line.settings
    if settings.get("@help"):
        sys.stdout.write(help_text())
    elif settings.get("@version"):
        sys.stderr.write(version_text())
    elif settings.get("@list_devices"):
        sys.stdout.write(devices_text(load_library()))
    elif "model.path" not in settings:
        raise RefusedArgument("error: --model is required: the embedded server has no router mode")
    else:
        for flag in command_line.repeated:
            sys.stderr.write(f"W DEPRECATED: argument '{flag}' specified multiple times, only the last value is used\n")
        serve(load_library(), settings, os.environ)
    return 0


def devices_text(library: ModuleType) -> str:
    """The devices besides the processor, in the layout of `llama-server --list-devices`."""
    processor = library.ggml_backend_dev_type.GGML_BACKEND_DEVICE_TYPE_CPU
    lines = [
        f"  {device['name']}: {device['description']} "
        f"({device['memory_total'] >> 20} MiB, {device['memory_free'] >> 20} MiB free)"
        for device in library.get_device_info()
        if device["type"] != processor
    ]
    return "\n".join(["Available devices:", *(lines or ["  (none)"]), ""])


def load_library() -> ModuleType:
    """Xllamacpp, or CannotServe with how to get it."""
    openmp = Path(sys.prefix) / "lib" / OPENMP
    if openmp.is_file():  # put there where the system has none
        ctypes.CDLL(str(openmp), mode=ctypes.RTLD_GLOBAL)
    try:
        return importlib.import_module("xllamacpp")
    except ModuleNotFoundError as error:
        raise CannotServe(f"error: {error}: pip install 'llmops[embedded]'") from error
    except ImportError as error:
        raise CannotServe(f"error: {error}{'; apt-get install -y libgomp1' if OPENMP in str(error) else ''}") from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
