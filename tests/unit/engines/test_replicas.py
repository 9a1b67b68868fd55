"""One of several equal servers: the unit of every engine that listens for its front alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmops.core.errors import LlmopsError, Misconfigured, UsageError
from llmops.engines.found import InForce, Installation
from llmops.engines.inventory import Place
from llmops.engines.llama_server.replicas import replica_files as llama_files
from llmops.engines.ollama.files import replica_files as ollama_files
from llmops.engines.vllm.replicas import replica_files as vllm_files
from tests.unit.engines import llama_host, ollama_host, vllm_host

PLACE = Place("10.0.0.1", 9000, ("10.0.0.1", "10.0.0.9"))
ALLOWED = ["IPAddressAllow=localhost", "IPAddressAllow=10.0.0.1", "IPAddressAllow=10.0.0.9", "IPAddressDeny=any"]


def test_a_vllm_listens_at_its_own_address_for_the_front_alone() -> None:
    (unit,) = vllm_files(vllm_host.plan_of(slots=7), vllm_host.installed(), InForce(), PLACE)
    lines = [line.strip(" \\") for line in unit.content.splitlines()]
    assert unit.path == "/etc/systemd/system/vllm.service"
    assert {"--host 10.0.0.1", "--port 9000", "--max-num-seqs 7"} <= set(lines)
    assert [line for line in lines if line.startswith("IPAddress")] == ALLOWED
    assert "Wants=network-online.target" in lines
    assert "LimitMEMLOCK=infinity" not in lines, "nothing is shared with other machines"


def test_a_llama_server_does_too() -> None:
    (unit,) = llama_files(llama_host.a_plan(), llama_host.installed(), InForce(), PLACE)
    lines = [line.strip(" \\") for line in unit.content.splitlines()]
    assert unit.path == "/etc/systemd/system/llama-server.service"
    assert {"--host 10.0.0.1", "--port 9000", "--parallel 5"} <= set(lines)
    assert [line for line in lines if line.startswith("IPAddress")] == ALLOWED
    assert "Wants=network-online.target" in lines


def test_an_ollama_keeps_the_unit_of_its_installer() -> None:
    (drop_in,) = ollama_files(ollama_host.a_plan(), ollama_host.installed(), PLACE)
    assert drop_in.path == ollama_host.DROP_IN
    assert "Environment=OLLAMA_HOST=10.0.0.1:9000" in drop_in.content.replace('"', "")
    assert "OLLAMA_NUM_PARALLEL=2" in drop_in.content
    (other,) = ollama_files(ollama_host.a_plan(), ollama_host.installed(), Place("fd00::1", 9000, ()))
    assert "OLLAMA_HOST=[fd00::1]:9000" in other.content


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"nodes": 2, "tensor_parallel": 2, "gpu_layers": 37}, UsageError, "is not several servers"),
        ({}, Misconfigured, "with words of its own"),
    ],
)
def test_what_holds_on_one_machine_only_is_refused(
    changes: dict[str, object], error: type[LlmopsError], said: str
) -> None:
    with pytest.raises(error, match=said):
        vllm_files(vllm_host.plan_of(**changes), own(vllm_host.installed(), "vllm.service"), InForce(), PLACE)


def test_a_person_s_llama_server_is_not_copied() -> None:
    with pytest.raises(Misconfigured, match="with words of its own"):
        llama_files(llama_host.a_plan(), own(llama_host.installed(), "llama.service"), InForce(), PLACE)
    with pytest.raises(Misconfigured, match="does not change"):
        llama_files(llama_host.a_plan(), replace(llama_host.installed(), managed_by="docker"), InForce(), PLACE)


def own(installation: Installation, unit: str) -> Installation:
    return replace(installation, managed_by="unit", unit=unit)
