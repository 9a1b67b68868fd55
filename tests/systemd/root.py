"""The disk of the test machines: a small Debian with systemd, made once and cached, and this checkout's wheel in it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import tomllib

REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = REPOSITORY / ".cache" / "nspawn"
PACKAGES = ("systemd", "systemd-sysv", "dbus", "python3", "libgomp1", "procps")
HOME = "opt/llmops"
LAYOUT = 1  # raise it when this file puts something else into the disk


def run(*words: str | Path, **variables: str) -> str:
    """A command that must succeed; its output."""
    result = subprocess.run(
        [str(word) for word in words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
        check=False,
    )
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}\n{result.stdout[-3000:]}\n{result.stderr[-3000:]}")
    return result.stdout


def release() -> str:
    """The release of the machine that runs the tests, such as bookworm."""
    lines = Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
    values = dict(line.partition("=")[::2] for line in lines)
    return values["VERSION_CODENAME"].strip('"')


def mirror(suite: str) -> tuple[str, ...]:
    """Where this machine itself gets the release from, as an argument of debootstrap; empty for its default."""
    listed = run("apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI)", "Created-By: Packages")
    found = [line.split()[1] for line in listed.splitlines() if line.split()[:1] == [suite]]
    return tuple(found[:1])


def dependencies() -> list[str]:
    """What the wheel needs."""

    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return list(project["dependencies"])


def base_root() -> Path:
    """Debian, systemd, python3 and the wheel's dependencies; about a minute when it is new."""
    suite = release()
    key = hashlib.sha256(repr((LAYOUT, suite, PACKAGES, dependencies())).encode()).hexdigest()[:12]
    root = CACHE / f"{suite}-{key}"
    if root.exists():
        return root
    CACHE.mkdir(parents=True, exist_ok=True)
    unfinished = CACHE / f"{root.name}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    run("debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", suite, unfinished, *mirror(suite))
    install_dependencies(unfinished)
    for name in ("machine-id", "hostname"):
        (unfinished / "etc" / name).unlink(missing_ok=True)
    shutil.rmtree(unfinished / "var/cache/apt", ignore_errors=True)
    unfinished.rename(root)
    return root


def python_version(root: Path) -> str:
    """The version of the disk's own Python, such as 3.11."""
    return (root / "usr/bin/python3").readlink().name.removeprefix("python")


def packages_directory(root: Path) -> Path:
    """Where the environment of llmops keeps its packages."""
    return root / HOME / "lib" / f"python{python_version(root)}" / "site-packages"


def install_dependencies(root: Path) -> None:
    """A virtual environment on the disk, filled from outside with what fits its Python."""
    run("chroot", root, "/usr/bin/python3", "-m", "venv", "--without-pip", f"/{HOME}")
    run(
        sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-warn-script-location",
        "--target", packages_directory(root), "--python-version", python_version(root), "--only-binary=:all:",
        "--implementation", "cp", *dependencies(),
    )  # fmt: skip


def wheel_layer(root: Path, directory: Path) -> Path:
    """A layer over `root` that holds this checkout as an installed wheel, with `llmops` on the PATH."""
    wheels = directory / "wheels"
    run(
        sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation",
        "--disable-pip-version-check", "--wheel-dir", wheels, REPOSITORY,
    )  # fmt: skip
    (wheel,) = wheels.glob("llmops-*.whl")
    layer = directory / "layer"
    target = layer / packages_directory(root).relative_to(root)
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", target, wheel)
    shutil.rmtree(target / "bin")
    command = layer / HOME / "bin" / "llmops"
    command.parent.mkdir(parents=True)
    starter = "import sys\nfrom llmops.cli import main\nsys.exit(main())\n"
    command.write_text(f"#!/{HOME}/bin/python3\n{starter}", encoding="utf-8")
    command.chmod(0o755)
    link = layer / "usr/local/bin/llmops"
    link.parent.mkdir(parents=True)
    link.symlink_to(f"/{HOME}/bin/llmops")
    return layer
