"""The project's virtual environment: made once, brought up to date when pyproject.toml changes."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
VENV = REPOSITORY / ".venv"
PYTHON = VENV / "bin" / "python"
PIP = (str(PYTHON), "-m", "pip", "--disable-pip-version-check")
PIP_WITH_GROUPS = "pip>=25.1"  # the first pip that installs dependency groups; Debian 12 has 23.0
BEGAN = time.monotonic()


def say(text: str) -> None:
    """One line of progress with the seconds since the start."""
    print(f"[{time.monotonic() - BEGAN:4.0f} s] {text}", flush=True)


def run(*command: str) -> None:
    """Run one step; its failure ends the program with the same exit code."""
    code = subprocess.run(command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, check=False).returncode
    if code:
        raise SystemExit(f"`{' '.join(command)}` ended with {code}")


def make_environment(*, extra: str | None = None, group: str | None = None) -> None:
    """Make .venv hold llmops from this checkout with one extra and one dependency group; nothing where it does."""
    stamp = VENV / f".llmops-{extra}-{group}"
    wanted = hashlib.sha256((REPOSITORY / "pyproject.toml").read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return
    if not PYTHON.is_file():
        make_venv()
    project = "." if extra is None else f".[{extra}]"
    say(f"installing llmops ({project}{'' if group is None else f' and the {group} group'}) into .venv ...")
    if group is not None:
        run(*PIP, "install", "--quiet", "--upgrade", PIP_WITH_GROUPS)
        run(*PIP, "install", "--quiet", "--editable", project, "--group", group)
    else:
        run(*PIP, "install", "--editable", project)
    stamp.write_text(wanted, encoding="utf-8")


def make_venv() -> None:
    """Make an empty environment; say which package is missing where Debian's Python cannot."""
    say("making .venv ...")
    command = [sys.executable, "-m", "venv", str(VENV)]
    result = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if result.returncode:
        raise SystemExit(f"{result.stdout}{result.stderr}\ncannot make .venv: apt-get install -y python3-venv")


if __name__ == "__main__":
    make_environment(extra="embedded", group="test")
