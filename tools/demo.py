"""`make demo`: a real small model, an engine, and the main job on this machine, from nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from tools.environment import PYTHON, REPOSITORY, make_environment, run, say
from tools.get_llama_server import binary_path, is_built
from tools.get_model import model_path
from tools.openmp import ensure_openmp

USERS = 5


def main() -> None:
    """End with the exit code of `llmops tune`."""
    environment = dict(os.environ)
    if shutil.which("llama-server"):
        say(f"engine: {shutil.which('llama-server')}")
        make_environment()
    elif is_built():
        say(f"engine: {binary_path()}, built before")
        environment["PATH"] = f"{binary_path().parent}:{environment.get('PATH', os.defpath)}"
        make_environment()
    else:
        say("engine: the embedded llama-server (no llama-server on PATH)")
        make_environment(extra="embedded")
        ensure_openmp()
    say("model: Gemma 3 270M, 4-bit")
    run(str(PYTHON), "-m", "tools.get_model")
    model = os.path.relpath(model_path(), REPOSITORY)
    command = ["tune", "--engine", "llama-server", "--model", model, "--users", str(USERS), "--trial"]
    say(f"llmops {' '.join(command)}")
    code = subprocess.run(
        [str(PYTHON), "-m", "llmops", *command], cwd=REPOSITORY, env=environment, check=False
    ).returncode
    say(f"done: exit code {code}")
    sys.exit(code)


if __name__ == "__main__":
    main()
