"""The import contracts of pyproject.toml hold, and no part of llmops stands outside of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REPOSITORY = Path(__file__).resolve().parents[2]
OUTSIDE_THE_LAYERS = {"embedded", "__main__", "__init__"}  # the embedded server has its own contract


def contracts() -> list[dict[str, Any]]:
    document = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = document["tool"]["importlinter"]["contracts"]
    return found


def parts() -> set[str]:
    """Every package and module directly below llmops."""
    root = REPOSITORY / "llmops"
    packages = {path.parent.name for path in root.glob("*/*.py")}
    return packages | {path.stem for path in root.glob("*.py")}


def test_contracts_are_kept() -> None:
    result = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    assert "0 broken" in result.stdout


def test_every_part_has_a_layer() -> None:
    layers = next(contract for contract in contracts() if contract["type"] == "layers")["layers"]
    named = {name.strip().removeprefix("llmops.") for layer in layers for name in layer.split("|")}
    assert parts() - named == OUTSIDE_THE_LAYERS
    assert named <= parts()


def test_only_the_local_host_may_import_what_touches_the_machine() -> None:
    contract = next(contract for contract in contracts() if "psutil" in contract.get("forbidden_modules", ()))
    bound = {name.removeprefix("llmops.") for name in contract["source_modules"]}
    hosts = {f"host.{path.stem}" for path in (REPOSITORY / "llmops" / "host").glob("*.py")} - {"host.__init__"}
    expected = (parts() | hosts) - {"host", "embedded", "__main__", "__init__"}
    assert expected <= bound
    assert {"subprocess", "requests", "psutil", "pynvml", "socket"} <= set(contract["forbidden_modules"])
