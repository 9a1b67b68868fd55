"""One server on several machines: each one's words, units and options, and the order of start."""

from __future__ import annotations

import shlex

import pytest
from ruamel.yaml import YAML

from llmops.core.errors import LlmopsError, Misconfigured, TooOld, UsageError
from llmops.core.files import RenderedFile
from llmops.core.plan import Plan
from llmops.engines.found import InForce, Installation
from llmops.engines.inventory import Inventory, Machine
from llmops.engines.vllm.machines import machine_files
from llmops.engines.vllm.words import MODULE
from tests.unit.engines.vllm_host import MODEL, SCRIPT, UNIT, installed, plan_of

MACHINES = Inventory((Machine("10.0.0.1", "eth1"), Machine("10.0.0.2", "ib0")), port=9000, master_port=7000)


def plan(**changes: object) -> Plan:
    return plan_of(**{"nodes": 2, "tensor_parallel": 4, "pipeline_parallel": 2, "gpu_layers": 37, **changes})


def written(
    installation: Installation | None = None, backend: str = "mp", *, options_file: bool = False, **changes: object
) -> dict[str, RenderedFile]:
    files = machine_files(
        plan(**changes), installation or installed(), InForce(), MACHINES, backend, options_file=options_file
    )
    return {file.path: file for file in files}


def commands(text: str) -> list[tuple[dict[str, str], list[str]]]:
    """The variables and the words of every command line that the order of start names."""
    found = []
    for line in text.splitlines():
        words = shlex.split(line) if line.startswith("   ") and "VLLM_HOST_IP=" in line else []
        if words:
            variables = dict(word.split("=", 1) for word in words if word.partition("=")[0].isupper())
            found.append((variables, words[len(variables) :]))
        assert "None" not in line
    return found


def test_every_machine_has_its_rank_and_only_the_first_one_answers() -> None:
    (first, first_words), (second, second_words) = commands(written()["/START.txt"].content)
    assert first_words[:7] == [SCRIPT, "serve", MODEL, "--host", "127.0.0.1", "--port", "9000"]
    assert second_words[:4] == [SCRIPT, "serve", MODEL, "--headless"]
    assert "--headless" not in first_words
    assert not {"--host", "--port"} & set(second_words)
    meeting = ["--master-addr", "10.0.0.1", "--master-port", "7000"]
    assert first_words[-6:] == ["--node-rank", "0", *meeting]
    assert second_words[-6:] == ["--node-rank", "1", *meeting]
    shared = first_words[7:-6]
    assert shared == second_words[4:-6]
    for flag, value in (("--nnodes", "2"), ("--tensor-parallel-size", "4"), ("--pipeline-parallel-size", "2")):
        assert shared[shared.index(flag) + 1] == value
    assert first == {"VLLM_HOST_IP": "10.0.0.1", "NCCL_SOCKET_IFNAME": "=eth1", "GLOO_SOCKET_IFNAME": "eth1"}
    assert second == {"VLLM_HOST_IP": "10.0.0.2", "NCCL_SOCKET_IFNAME": "=ib0", "GLOO_SOCKET_IFNAME": "ib0"}


def test_the_order_says_what_must_be_reachable_and_who_comes_first() -> None:
    text = written()["/START.txt"].content
    assert text.index("1. on 10.0.0.1, which answers clients") < text.index("2. on 10.0.0.2:")
    assert "TCP port 7000 of 10.0.0.1" in text
    assert "port 9000 of 10.0.0.1" in text
    assert "4 cards like those of the plan" in " ".join(text.split())
    assert "No interface is named" not in text


def test_each_unit_lets_only_the_other_machines_in() -> None:
    files = written()
    assert set(files) == {"/START.txt", *(f"/10.0.0.{n}/etc/systemd/system/vllm.service" for n in (1, 2))}
    lines = files["/10.0.0.2/etc/systemd/system/vllm.service"].content.splitlines()
    allowed = [line for line in lines if line.startswith("IPAddress")]
    assert allowed == [
        "IPAddressAllow=localhost", "IPAddressAllow=10.0.0.1", "IPAddressAllow=10.0.0.2", "IPAddressDeny=any",
    ]  # fmt: skip
    assert "Environment=VLLM_HOST_IP=10.0.0.2" in lines
    assert "Environment=NCCL_SOCKET_IFNAME==ib0" in lines or 'Environment="NCCL_SOCKET_IFNAME==ib0"' in lines
    assert {"    --headless \\", "    --node-rank 1 \\", "LimitMEMLOCK=infinity"} <= set(lines)
    assert "After=network-online.target" in lines


def test_the_options_of_each_machine_as_yaml() -> None:
    files = written(options_file=True)
    first, second = (YAML(typ="safe").load(files[f"/10.0.0.{n}/etc/llmops/vllm.yaml"].content) for n in (1, 2))
    assert (first["model"], first["port"], first["nnodes"], first["node-rank"]) == (MODEL, 9000, 2, 0)
    assert (second["headless"], second["node-rank"], second["master-addr"]) == (True, 1, "10.0.0.1")
    assert "headless" not in first
    assert "port" not in second
    assert "vllm serve --config /etc/llmops/vllm.yaml" in files["/START.txt"].content


def test_a_module_is_told_its_model_by_a_flag_and_has_no_headless_form() -> None:
    module = installed(command=("/opt/vllm/bin/python", "-m", MODULE))
    files = written(module, "ray")
    words = commands(files["/START.txt"].content)[-1][1]
    assert words[3:5] == ["--model", MODEL]
    assert YAML(typ="safe").load(files["/10.0.0.1/etc/llmops/vllm.yaml"].content)["model"] == MODEL
    with pytest.raises(Misconfigured, match="--headless"):
        written(module)


def test_a_ray_cluster_has_one_server_and_no_ranks() -> None:
    files = written(installed("0.10.2"), "ray")
    assert set(files) == {"/START.txt", "/10.0.0.1/etc/llmops/vllm.yaml"}
    head, other, server = commands(files["/START.txt"].content)
    assert head[1] == ["ray", "start", "--block", "--head", "--node-ip-address=10.0.0.1", "--port=6379"]
    assert other[1] == ["ray", "start", "--block", "--address=10.0.0.1:6379", "--node-ip-address=10.0.0.2"]
    assert server[0]["RAY_ADDRESS"] == "10.0.0.1:6379"
    assert server[1][-2:] == ["--distributed-executor-backend", "ray"]
    assert not {"--nnodes", "--node-rank", "--headless"} & set(server[1])
    assert "Once `ray status` counts 8 cards" in files["/START.txt"].content


def test_interfaces_that_differ_are_not_given_to_the_server_that_ray_copies_them_from() -> None:
    server = commands(written(backend="ray")["/START.txt"].content)[-1]
    assert "NCCL_SOCKET_IFNAME" not in server[0]


@pytest.mark.parametrize(
    ("installation", "changes", "error", "said"),
    [
        (installed(), {"nodes": 3}, UsageError, "names 2 machines, and the plan is for 3"),
        (installed(), {"gpu_layers": None}, UsageError, "graphics cards only"),
        (installed("0.11.0"), {}, TooOld, "no --nnodes"),
        (installed(flags=frozenset()), {}, TooOld, "does not know"),
        (installed(managed_by="unit", unit=UNIT), {}, Misconfigured, "words of its own"),
        (installed(managed_by="docker", detail="container x"), {}, Misconfigured, "container x"),
        (installed(problem="broken"), {}, Misconfigured, "broken"),
    ],
)
def test_what_cannot_be_started_like_that(
    installation: Installation, changes: dict[str, object], error: type[LlmopsError], said: str
) -> None:
    with pytest.raises(error, match=said) as refused:
        written(installation, **changes)  # type: ignore[arg-type]
    assert refused.value.hint
