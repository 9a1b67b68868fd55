"""One machine for each engine and test file, booted once and brought back to its beginning between the strikes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.faults.bench import Bench
from tests.faults.subjects import DRIVER, INSIDE, Engine
from tests.systemd.conftest import engine, layers, model, tools
from tests.systemd.machine import MODEL_DIRECTORY, Machine, new_name
from tests.systemd.root import CACHE, run

__all__ = ["engine", "layers", "model", "tools"]

NewBench = Callable[..., Bench]
SHARED = "/srv/one-disk"


@pytest.fixture(scope="module")
def new_bench(layers: Sequence[Path], engine: Path, model: Path) -> Iterator[NewBench]:
    """`new_bench(engine)` boots a machine on which it serves.

    `disks` are places of small disks and their sizes; `shared` are places that lie together on one disk of a size.
    """
    made: list[Machine] = []
    mounted: list[Path] = []

    def make(
        wanted: Engine, disks: dict[str, str] | None = None, shared: tuple[Sequence[str], str] | None = None
    ) -> Bench:
        name = new_name()
        lower = [*layers]
        if wanted.layer is not None:
            lower.insert(0, wanted.layer(layers[-1], model, CACHE / name))
        path = f"{MODEL_DIRECTORY}/{model.name}"
        machine = Machine(name, CACHE / name, lower, engine, model.parent, path, wanted.programs)
        made.append(machine)
        machine.make_disk()
        if wanted.install is not None:
            wanted.install(machine)
        for path, text in wanted.files.items():
            machine.write(path, text.replace("@MODEL@", machine.model), wanted.modes.get(path, 0o644))
        machine.write(DRIVER, (INSIDE / "driver.py").read_text(encoding="utf-8"))
        mounted.extend(mount_disk(machine.path(directory), size) for directory, size in (disks or {}).items())
        if shared is not None:
            mounted.extend(mount_together(machine.path(SHARED), [machine.path(one) for one in shared[0]], shared[1]))
        machine.boot()
        bench = Bench(machine, wanted)
        bench.inside(f"systemctl enable --now {wanted.unit} 2>&1")
        bench.wait_until_serving()
        return bench

    yield make
    take_away(made, mounted)


def take_away(made: Sequence[Machine], mounted: Sequence[Path]) -> None:
    """Leave nothing behind: what runs, then the disks, then the directories."""
    for machine in made:
        if machine.process is not None:
            machine.pull_the_plug()
    for directory in reversed(mounted):
        run("umount", directory)
    for machine in made:
        machine.close()


def mount_together(disk: Path, directories: Sequence[Path], size: str) -> list[Path]:
    """One disk of this size on which all these directories lie, with what was in them; the mounts, oldest first."""
    disk.mkdir(parents=True)
    run("mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", disk)
    for directory in directories:
        directory.mkdir(parents=True, exist_ok=True)
        shutil.copytree(directory, disk / directory.name, symlinks=True)
        run("mount", "--bind", disk / directory.name, directory)
    return [disk, *directories]


def mount_disk(directory: Path, size: str) -> Path:
    """A disk of this size over a directory, with what was in it."""
    directory.mkdir(parents=True, exist_ok=True)
    kept = directory.with_name(f"{directory.name}-below")
    shutil.copytree(directory, kept, symlinks=True)
    run("mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", directory)
    shutil.copytree(kept, directory, symlinks=True, dirs_exist_ok=True)
    shutil.rmtree(kept)
    return directory
