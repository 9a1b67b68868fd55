"""The wheel is whole: built, installed into a new environment, it renders from any directory."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.doubles.gguf_files import model_metadata, model_tensors, write

pytestmark = pytest.mark.packaging

REPOSITORY = Path(__file__).resolve().parents[2]


def checked(*words: str, directory: Path | str = "/") -> subprocess.CompletedProcess[str]:
    """Run a command that must succeed, without this checkout in sight."""
    result = subprocess.run(
        words, cwd=directory, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "HOME": "/"}, check=False
    )
    assert result.returncode == 0, f"{words}\n{result.stdout}\n{result.stderr}"
    return result


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built with the hatchling that is here."""
    target = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation")
    checked(*pip, "--wheel-dir", str(target), str(REPOSITORY))
    (built,) = target.glob("llmops-*.whl")
    return built


@pytest.fixture(scope="module")
def llmops(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The command of a new environment that holds the wheel; what it depends on is borrowed from here."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False, symlinks=True)
    (packages,) = home.glob("lib/python*/site-packages")
    pip = (sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install", "--quiet")
    checked(*pip, "--no-deps", "--no-index", str(wheel))
    (packages / "borrowed.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n", encoding="utf-8")
    return str(home / "bin" / "llmops")


def test_wheel_holds_templates_types_and_license(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    templates = {str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "templates").rglob("*.j2")}
    assert templates
    assert {f"llmops/{name}" for name in templates} <= set(names)
    assert "llmops/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.startswith(("tests/", "tools/", "benchmarks/"))]


def test_installed_command_is_not_this_checkout(llmops: str) -> None:
    python = Path(llmops).with_name("python")
    where = checked(str(python), "-c", "import llmops; print(llmops.__file__)").stdout
    assert str(REPOSITORY) not in where
    assert checked(llmops, "--version").stdout.startswith("llmops, version ")


def test_installed_command_renders_from_the_root_directory(llmops: str, tmp_path: Path) -> None:
    model = write(tmp_path / "model.gguf", model_metadata(context=32768), model_tensors())
    machine = ("--ram", "8GiB", "--ram-available", "6GiB", "--cores", "4", "--no-gpu", "--bandwidth", "20GB/s")
    text = checked(llmops, "render", "--engine", "llama-server", "--model", str(model), *machine).stdout
    assert "\nExecStart=" in text
    assert str(model) in text
    assert "--parallel" in text


def test_templates_come_from_the_wheel(llmops: str) -> None:
    program = "from llmops.render import template_directory as t; print(t())"
    directory = checked(str(Path(llmops).with_name("python")), "-c", program).stdout.strip()
    assert directory.endswith("site-packages/llmops/templates")
    assert str(REPOSITORY) not in directory
