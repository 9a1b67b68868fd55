"""The files of vLLM: a drop-in, a complete unit without secrets, YAML for --config; and who gets none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ruamel.yaml import YAML

from llmops.core.errors import Misconfigured
from llmops.engines.found import InForce
from llmops.engines.vllm.files import config_file
from llmops.engines.vllm.words import read_config
from llmops.systemd import command
from tests.unit.engines.vllm_host import MODEL, SCRIPT, UNIT, VLLM, installed, plan_of

SERVED = installed(managed_by="unit", unit=UNIT)


def lines_of(**changes: object) -> list[str]:
    (file,) = VLLM.files(plan_of(**changes), installed(), InForce())
    assert (file.path, file.mode) == ("/etc/systemd/system/vllm.service", 0o644)
    return file.content.splitlines()


def test_a_complete_unit_restarts_after_a_killed_worker_and_lets_requests_end() -> None:
    lines = lines_of()
    for line in ("Restart=always", "KillMode=mixed", "TimeoutStopSec=60", "DynamicUser=yes", "LimitNOFILE=65536"):
        assert line in lines
    assert "    --shutdown-timeout 30" in lines


def test_it_listens_on_loopback_downloads_nothing_and_shows_no_secret() -> None:
    lines = lines_of()
    assert {"IPAddressDeny=any", "IPAddressAllow=localhost", "    --host 127.0.0.1 \\"} <= set(lines)
    assert {"Environment=HF_HUB_OFFLINE=1", "Environment=VLLM_HOST_IP=127.0.0.1"} <= set(lines)
    assert "EnvironmentFile=-/etc/llmops/vllm-key.env" in lines
    assert not any(line.startswith("Environment=VLLM_API_KEY") for line in lines)


def test_the_model_is_shown_to_the_service_and_homes_are_not() -> None:
    lines = lines_of()
    assert "ProtectHome=tmpfs" in lines
    assert f"BindReadOnlyPaths={MODEL}" in lines


def test_a_cached_repository_is_shown_with_the_files_that_its_links_lead_to() -> None:
    hub = "/home/ann/.cache/huggingface/hub"
    path = f"{hub}/models--Qwen--Qwen3-8B/snapshots/abc/model.safetensors"
    model = replace(plan_of().model, reference="Qwen/Qwen3-8B", source_paths=(path,))
    lines = lines_of(model=model)
    assert f"BindReadOnlyPaths={hub}/models--Qwen--Qwen3-8B" in lines
    assert f"Environment=HF_HUB_CACHE={hub}" in lines
    assert f"ExecStart={SCRIPT} serve Qwen/Qwen3-8B \\" in lines


@pytest.mark.parametrize("environment", ["/home/ann/vllm", "/var/tmp/vllm"])
def test_a_program_that_the_unit_would_hide_is_shown(environment: str) -> None:
    (file,) = VLLM.files(plan_of(), installed(command=(f"{environment}/bin/vllm",)), InForce())
    assert f"BindReadOnlyPaths={environment}\n" in file.content


def test_cards_are_not_hidden_and_their_driver_comes_first() -> None:
    lines = lines_of(gpu_layers=37, tensor_parallel=2)
    for line in ("PrivateDevices=yes", "ProtectClock=yes", "MemoryDenyWriteExecute=yes", "DevicePolicy=closed"):
        assert line not in lines
    assert "ExecStartPre=+-/usr/bin/nvidia-modprobe -u -c=0" in lines
    assert "After=nvidia-persistenced.service nvidia-fabricmanager.service" in lines
    assert "Environment=NCCL_SOCKET_IFNAME=lo" in lines


def test_generated_code_may_run_on_processors_too() -> None:
    # Kernels are compiled while it runs (oneDNN, torch.compile), which MemoryDenyWriteExecute= stops.
    assert not any(line.startswith("MemoryDenyWriteExecute") for line in lines_of())


def test_an_existing_unit_gets_a_drop_in() -> None:
    in_force = InForce(user_arguments=(SCRIPT, "serve", MODEL, "--served-model-name", "qwen", "--port", "9000"))
    (file,) = VLLM.files(plan_of(), SERVED, in_force)
    assert file.path == "/etc/systemd/system/vllm.service.d/zz-llmops.conf"
    for line in ("ExecStart=\n", "    --served-model-name qwen \\\n", "    --port 9000 \\\n", "Restart=always\n"):
        assert line in file.content


def test_a_version_that_cannot_drain_is_stopped_as_before() -> None:
    in_force = InForce(user_arguments=(SCRIPT, "serve", MODEL))
    (file,) = VLLM.files(plan_of(), installed("0.17.1", managed_by="unit", unit=UNIT), in_force)
    assert "KillMode" not in file.content
    assert "Restart=always\n" in file.content


def test_the_unit_that_llmops_made_is_written_anew() -> None:
    in_force = InForce(user_arguments=(SCRIPT, "serve", MODEL, "--host", "127.0.0.1"), unit_file_managed=True)
    (file,) = VLLM.files(plan_of(), SERVED, in_force)
    (first,) = VLLM.files(plan_of(), installed(), InForce())
    assert (file.path, file.content) == (first.path, first.content)


def test_words_with_special_characters_reach_the_server_as_they_are() -> None:
    in_force = InForce(user_arguments=(SCRIPT, "serve", MODEL, "--served-model-name", '50% $HOME "q"'))
    (file,) = VLLM.files(plan_of(), SERVED, in_force)
    assert '"50%% $$HOME \\"q\\""' in file.content


def drop_in_over(unit: str, **variables: str) -> str:
    """The command in the file of llmops over a unit that starts vLLM like this, in one line."""
    seen = InForce(
        user_arguments=command(unit, UNIT, variables).words,
        user_command=command(unit, UNIT, variables),
        configured_environment=tuple(variables.items()),
    )
    (file,) = VLLM.files(plan_of(), SERVED, seen)
    return " ".join(file.content.replace("\\\n", " ").split())


def test_variables_stay_variables_so_that_no_secret_is_copied() -> None:
    unit = f"-{SCRIPT} serve ${{MODEL}} --api-key ${{KEY}} --max-num-seqs 4 $EXTRA --download-dir %S/hf"
    text = drop_in_over(unit, MODEL=MODEL, KEY="s3cret", EXTRA="--trust-remote-code")
    assert f"ExecStart=-{SCRIPT} serve {MODEL} --api-key ${{KEY}} $EXTRA --download-dir %S/hf --host" in text
    assert "s3cret" not in text


def test_all_words_in_one_variable_stay_there_and_ours_come_later() -> None:
    text = drop_in_over(f"{SCRIPT} serve $ARGS", ARGS=f"{MODEL} --max-num-seqs 3")
    assert f"ExecStart={SCRIPT} serve $ARGS --host" in text
    with pytest.raises(Misconfigured, match="--tensor-parallel-size hides in a variable"):
        drop_in_over(f"{SCRIPT} serve $ARGS", ARGS=f"{MODEL} -tp 2")
    with pytest.raises(Misconfigured, match="hide in a variable"):
        drop_in_over(f"{SCRIPT} serve $ARGS", ARGS="another/model --max-num-seqs 3")


# For --config


def test_the_file_for_config_says_what_the_command_line_does() -> None:
    plan = plan_of(enforce_eager=True, prefix_caching=False)
    text = config_file(plan, installed()).content
    document = YAML(typ="safe").load(text)
    assert document["model"] == MODEL
    assert (document["enforce-eager"], document["enable-prefix-caching"]) == (True, False)
    assert (document["max-num-seqs"], document["kv-cache-memory-bytes"]) == (plan.slots, plan.kv_memory_bytes)
    flags = {one.flag for one in read_config(text)}
    assert {"--max-model-len", "--max-num-batched-tokens", "--max-num-queued-reqs"} <= flags


@pytest.mark.parametrize("name", ['a "quoted" name', "yes", "1:2", "# no comment", "ä/ö"])
def test_any_name_survives_yaml(name: str) -> None:
    plan = plan_of(model=replace(plan_of().model, reference=name))
    assert YAML(typ="safe").load(config_file(plan, installed()).content)["model"] == name


# Who gets no files


def test_a_container_is_told_its_words() -> None:
    with pytest.raises(Misconfigured, match="runs in container x") as refused:
        VLLM.files(plan_of(), installed(managed_by="docker", detail="container x"), InForce())
    assert "--max-num-seqs" in (refused.value.hint or "")
    assert MODEL not in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("plan", "in_force", "said"),
    [
        ({"nodes": 2}, InForce(), "needs 2 machines"),
        ({}, InForce(unseen=(("url", "the server listens on a socket in the file system only"),)), "cannot ask"),
    ],
)
def test_what_one_unit_or_llmops_cannot_do(plan: dict[str, object], in_force: InForce, said: str) -> None:
    with pytest.raises(Misconfigured, match=said):
        VLLM.files(replace(plan_of(), **plan), installed(), in_force)  # type: ignore[arg-type]


def test_a_program_that_does_not_run_is_refused() -> None:
    with pytest.raises(Misconfigured, match="cannot be used: broken"):
        VLLM.files(plan_of(), installed(problem="broken"), InForce())


def test_an_address_that_was_changed_in_our_unit_stays_and_may_be_reached() -> None:
    in_force = InForce(user_arguments=(SCRIPT, "serve", MODEL, "--host", "0.0.0.0"), unit_file_managed=True)
    (file,) = VLLM.files(plan_of(), SERVED, in_force)
    assert "    --host 0.0.0.0 \\\n" in file.content
    assert "IPAddressDeny" not in file.content
