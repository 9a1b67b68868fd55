"""The installed vLLM's own registry against the table of its release; it is read, not imported."""

from __future__ import annotations

import pytest

from llmops.core.version import Version
from llmops.engines.vllm.package import package_of
from llmops.engines.vllm.registry import registry_in
from llmops.engines.vllm.releases import served_at
from llmops.engines.vllm.through_transformers import plugins_beside, transformers_has
from llmops.host.local import LocalHost
from tests.engines.conftest import absent
from tests.unit.engines.test_vllm_supported import model
from tools.get_vllm import VERSION, installed_version, python_path

pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module")
def directory() -> str:
    """Where the packages of the installed vLLM lie."""
    if installed_version(python_path()) != VERSION:
        absent("vLLM")
    found = package_of(LocalHost(), (str(python_path().parent / "vllm"),)).directory
    assert found is not None
    return found


def test_the_registry_and_the_table_agree(directory: str) -> None:
    registry = registry_in(LocalHost(), directory)
    version = Version.parse(VERSION)
    assert registry is not None
    assert version is not None
    assert registry.served == served_at(version)


def test_what_else_could_serve_a_model_is_seen(directory: str) -> None:
    host = LocalHost()
    assert transformers_has(host, directory, model("GPTNeoForCausalLM")) is True
    assert transformers_has(host, directory, model("NobodysForCausalLM")) is False
    assert plugins_beside(host, directory) == ()
