"""plan and size for vLLM, and for checkpoints on engines that need a GGUF file."""

from __future__ import annotations

import re
from pathlib import Path
from shutil import copytree

import pytest

from llmops.cli.saved import plan_from_file
from tests.truth.hf_configs import CONFIGS
from tests.unit.cli.conftest import Run
from tests.unit.cli.machine import Machine, checkpoint, model_file

CARD = ("--engine", "vllm", "--engine-version", "0.33.0", "--gpu", "RTX 4090:24GiB:24GiB:8.9:1008GB/s")


@pytest.fixture
def directory(machine: Machine, tmp_path: Path) -> str:
    return str(checkpoint(tmp_path))


def test_size_of_a_given_cache_needs_no_card(run: Run, directory: str) -> None:
    # 8 layers x 4 heads x 64 x 2 x 2 bytes = 8,192 bytes per token; blocks of 16; one block is never given out.
    ran = run(
        "size", "--engine", "vllm", "--engine-version", "0.10.2", "--model", directory, "--kv-memory", "1GiB",
        "--context", "16384", "--slots", "1", "--tensor-parallel", "1", "--output", "json",
    )  # fmt: skip
    data = ran.envelope["data"]
    (row,) = data["budget"]
    assert ran.exit_code == 0
    assert (row["available_bytes"], row["cache_bytes"], row["free_bytes"]) == (2**30, 2**30, 0)
    assert (row["cache_tokens"], row["usable_cache_tokens"]) == (131_072, 131_056)
    assert row["max_concurrency"] == 8.0
    address = ["--host", "127.0.0.1", "--port", "8000"]
    assert data["plan"]["arguments"][:7] == [directory, *address, "--max-model-len", "16384"]
    assert "--kv-cache-memory-bytes" in data["plan"]["arguments"]
    assert any("no card is given" in line for line in data["warnings"])


def test_too_many_slots_are_4_with_all_figures(run: Run, directory: str) -> None:
    words = ("size", *CARD[:4], "--kv-memory", "1GiB", "--context", "16384", "--model", directory)
    assert run(*words, "--slots", "7").exit_code == 0
    ran = run(*words, "--slots", "8", "--output", "json")
    assert ran.exit_code == 4
    assert ran.envelope["data"]["budget"][0]["max_concurrency"] == 8.0
    assert "room for 8.00 of them; it would start" in ran.envelope["errors"][0]["message"]


def test_without_slots_it_must_only_start(run: Run, directory: str) -> None:
    ran = run("size", *CARD[:4], "--kv-memory", "1GiB", "--model", directory, "--output", "json")
    assert ran.exit_code == 0
    assert ran.envelope["data"]["plan"]["slots"] == 256
    assert any(
        "up to 256 requests at once, and the cache holds 8.00" in line for line in ran.envelope["data"]["warnings"]
    )


def test_what_would_not_even_start_says_so(run: Run, directory: str) -> None:
    for slots in ((), ("--slots", "3")):
        ran = run("size", *CARD[:4], "--kv-memory", "64MiB", "--model", directory, *slots)
        assert ran.exit_code == 4
        assert "room for 0.50 of them" in ran.stderr
        assert "by itself it runs up to" not in ran.stdout
        assert "would start" not in ran.stderr
        assert ("one request of 16,384 tokens needs" in ran.stderr) is (slots == ())
    ran = run("size", *CARD[:4], "--gpu", "Card:1GiB", "--ram", "32GiB", "--model", directory)
    assert ran.exit_code == 4
    assert "on gpu0, which has 1.00 GiB" in ran.stderr


def test_requests_are_no_more_than_the_tokens_of_a_step(run: Run, directory: str) -> None:
    words = ("plan", *CARD, "--model", directory, "--users", "5000", "--max-num-batched-tokens", "4")
    plan = run(*words, "--output", "json").envelope["data"]["plan"]
    assert (plan["slots"], plan["batch_tokens"]) == (4, 4)


def test_a_part_of_a_machine_in_two_is_counted_for_each_card(run: Run, directory: str) -> None:
    ran = run(
        "size", *CARD[:4], "--kv-memory", "1GiB", "--slots", "1", "--tensor-parallel", "2", "--model", directory,
        "--output", "json",
    )  # fmt: skip
    rows = ran.envelope["data"]["budget"]
    assert [row["device"] for row in rows] == ["gpu0", "gpu1"]
    assert {row["cache_tokens"] for row in rows} == {262_144}


def test_a_plan_never_interrupts_a_request(run: Run, directory: str, tmp_path: Path) -> None:
    ran = run("plan", *CARD, "--users", "200", "--model", directory, "--output", "json")
    data = ran.envelope["data"]
    plan, card = data["plan"], data["budget"][1]
    assert card["needed_cache_bytes"] <= card["cache_bytes"]
    assert plan["slots"] * plan["context_tokens_per_slot"] <= card["usable_cache_tokens"]
    arguments = dict(zip(plan["arguments"][1::2], plan["arguments"][2::2], strict=True))
    assert arguments["--max-num-seqs"] == str(plan["slots"])
    assert arguments["--max-num-queued-reqs"] == str(plan["slots"] + plan["queue_requests"])
    assert int(arguments["--max-num-batched-tokens"]) >= plan["slots"]
    saved = tmp_path / "plan.json"
    saved.write_text(ran.stdout)
    again = plan_from_file(str(saved))
    assert (again.gpu_memory_utilization, again.tensor_parallel) == (0.92, 1)
    assert again.budgets[1].max_concurrency == card["max_concurrency"]


def test_the_text_shows_the_pool_and_its_reasons(run: Run, directory: str) -> None:
    ran = run("plan", *CARD, "--model", directory, "--explain")
    assert ran.exit_code == 0, ran
    for words in ("cache tokens", "usable cache tokens", "max concurrency", "0.92 of each card", "cache pool of gpu0"):
        assert words in ran.stdout
    assert "llmops tune" in ran.stdout
    assert "threads" not in ran.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--tensor-parallel", "3"), ("16 attention heads", "1, 2, 4, 8, 16")),
        (("--tensor-parallel", "2"), ("more than the one card there is", "--gpu")),
        (("--pipeline-parallel", "9", "--nodes", "9"), ("8 layers",)),
        (("--max-num-batched-tokens", "64", "--slots", "128"), ("less than --slots 128",)),
        (("--context", "20000"), ("more than the 16384 tokens",)),
        (("--cache-type", "q8_0"), ("not of vllm", "fp8")),
        (("--ubatch-size", "64"), ("not of vllm",)),
        (("--kv-unified",), ("not of vllm",)),
        (("--batch-size", "64", "--max-num-batched-tokens", "64"), ("contradict each other",)),
        (("--gpu-memory-utilization", "1.5"), ("--gpu-memory-utilization", "the most is 1")),
        (("--kv-memory", "0"), ("--kv-memory",)),
        (("--engine-version", "latest"), ("'latest' is not a version of vllm",)),
    ],
)
def test_what_the_engine_would_refuse_is_2(
    run: Run, directory: str, options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    card = [word for pair in zip(CARD[::2], CARD[1::2], strict=True) if pair[0] not in options for word in pair]
    ran = run("size", *card, "--model", directory, *options)
    assert ran.exit_code == 2, ran
    for word in words:
        assert word in ran.stderr


@pytest.mark.parametrize(
    ("card", "words"),
    [
        ("V100:16GiB::7.0", "vLLM needs 7.5"),
        ("T4:16GiB::7.5", "bfloat16 needs 8.0"),
    ],
)
def test_cards_that_cannot_are_2(run: Run, directory: str, card: str, words: str) -> None:
    ran = run("size", "--engine", "vllm", "--engine-version", "0.33.0", "--gpu", card, "--model", directory)
    assert ran.exit_code == 2
    assert words in ran.stderr


def test_a_plan_tells_an_old_card_float16(run: Run, directory: str) -> None:
    ran = run(
        "plan", *CARD[:4], "--gpu", "T4:16GiB::7.5:320GB/s", "--model", directory, "--output", "json"
    )  # fmt: skip
    data = ran.envelope["data"]
    assert data["plan"]["cache_type_k"] == "f16"
    words = data["plan"]["arguments"]
    assert words[words.index("--dtype") + 1] == "half"
    assert any("told float16" in line for line in data["warnings"])


def test_llama_server_is_sized_for_a_checkpoint_and_told_how_to_convert_it(run: Run, directory: str) -> None:
    words = ("--engine", "llama-server", "--engine-version", "11434", "--ram", "32GiB", "--model", directory)
    ran = run("size", *words, "--slots", "2", "--context", "2048", "--output", "json")
    model = ran.envelope["data"]["model"]
    assert ran.exit_code == 0
    assert model["weights_bytes"] == 2 * model["parameters"]
    assert any("as if converted to GGUF in 16 bits" in line for line in ran.envelope["data"]["warnings"])
    refused = run("render", *words)
    assert refused.exit_code == 7
    assert "convert_hf_to_gguf.py" in refused.stderr


def test_a_draft_model_takes_its_own_memory(run: Run, directory: str, tmp_path: Path) -> None:
    draft = str(checkpoint(tmp_path, "draft", layers=2))
    words = ("size", *CARD, "--slots", "4", "--context", "4096", "--model", directory, "--output", "json")
    alone, together = (run(*words, *more).envelope["data"] for more in ((), ("--draft-model", draft)))
    assert together["budget"][1]["weights_bytes"] > alone["budget"][1]["weights_bytes"]
    assert together["budget"][1]["needed_cache_bytes"] == alone["budget"][1]["needed_cache_bytes"] * 10 // 8
    assert together["plan"]["draft_reference"] == draft
    assert any("--speculative-config" in line for line in together["warnings"])


def test_a_draft_model_of_llama_server_takes_its_own_memory(run: Run, machine: Machine, tmp_path: Path) -> None:
    model, draft = (str(model_file(tmp_path, name, layers=layers)) for name, layers in (("m.gguf", 8), ("d.gguf", 2)))
    words = (
        "size", "--engine", "llama-server", "--engine-version", "11434", "--model", model, "--slots", "2",
        "--context", "4096", "--ram", "32GiB", "--output", "json",
    )  # fmt: skip
    alone, together = (run(*words, *more).envelope["data"]["budget"][0] for more in ((), ("--draft-model", draft)))
    assert together["cache_bytes"] == alone["cache_bytes"] * 10 // 8
    assert together["runtime_bytes"] == alone["runtime_bytes"]
    assert together["weights_bytes"] > alone["weights_bytes"]
    refused = run("size", "--engine", "ollama", "--engine-version", "0.30.1", "--model", model, "--draft-model", draft)
    assert (refused.exit_code, "--draft-model is an option of" in refused.stderr) == (2, True)


def test_where_it_does_not_pay_the_plan_says_so(run: Run, directory: str) -> None:
    words = ("--engine", "vllm", "--engine-version", "0.32.0", "--no-gpu", "--ram", "8GiB", "--ram-available", "7GiB")
    more = ("--model", directory, "--kv-memory", "256MiB")
    found = run("plan", *words, *more, "--output", "json").envelope["data"]["recommendation"]
    assert (found["engine"], found["step"]) == ("llama-server", "not_vllm")
    assert "a machine of 8.00 GiB without a card" in found["reasons"][0]
    assert "vLLM does not pay here" in run("plan", *words, *more).stdout
    assert "does not pay" not in run("size", *words, *more).stdout


def test_a_cache_of_a_card_that_is_not_described_is_no_machine_without_one(run: Run, directory: str) -> None:
    words = ("plan", *CARD[:4], "--kv-memory", "8GiB", "--model", directory, "--users", "40", "--workload", "batch")
    found = run(*words, "--output", "json").envelope["data"]["recommendation"]
    assert (found["engine"], found["step"]) == ("vllm", "keep")


def test_render_prints_a_unit_or_the_file_for_config(run: Run, directory: str) -> None:
    unit = run("render", *CARD, "--model", directory)
    assert unit.exit_code == 0, unit
    assert f"ExecStart=vllm serve {directory} \\\n" in unit.stdout
    told = run("render", *CARD, "--model", directory, "--options-file")
    assert told.stdout.splitlines()[1:3] == [f'model: "{directory}"', "max-model-len: 8192"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--engine", "llama-server", "--options-file"), "llama-server reads no file of options"),
        (("--engine", "vllm", "--options-file", "--front", "haproxy"), "exclude each other"),
    ],
)
def test_who_has_no_file_of_options(
    run: Run, machine: Machine, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    ran = run("render", "--model", str(model_file(tmp_path)), "--engine-version", "11434", *words)
    assert ran.exit_code == 2
    assert said in ran.stderr


# Several machines

TWO = ("--nodes", "2", "--ram", "64GiB", "--gpu", "RTX 4090:24GiB:24GiB:8.9:1008GB/s")
HOSTS = "port: 9000\nhosts:\n- {address: 10.0.0.1, interface: eth1}\n- {address: 10.0.0.2, interface: eth1}\n"


@pytest.fixture
def hosts(tmp_path: Path) -> str:
    path = tmp_path / "hosts.yaml"
    path.write_text(HOSTS)
    return str(path)


def test_a_plan_for_two_machines_counts_the_cards_of_both(run: Run, directory: str) -> None:
    ran = run("plan", *CARD, *TWO, "--model", directory, "--output", "json")
    data = ran.envelope["data"]
    assert [row["device"] for row in data["budget"]] == ["host", "gpu0", "gpu1", "gpu2", "gpu3"]
    plan = data["plan"]
    assert (plan["tensor_parallel"], plan["pipeline_parallel"], plan["nodes"]) == (2, 2, 2)
    assert any("llmops render --inventory FILE --directory DIR" in line for line in data["warnings"])


def test_each_machine_gets_its_directory_and_the_order_stands_beside_them(run: Run, directory: str, hosts: str) -> None:
    def files(*more: str) -> dict[str, str]:
        words = ("render", *CARD, *TWO, "--model", directory, "--inventory", hosts, "--directory", "/made", *more)
        ran = run(*words, "--output", "json")
        assert ran.exit_code == 0, ran.stderr
        assert run(*words).stdout.split() == [f"/made{row['path']}" for row in ran.envelope["data"]["files"]]
        return {row["path"]: row["after"] for row in ran.envelope["data"]["files"]}

    unit = "etc/systemd/system/vllm.service"
    units = files()
    assert sorted(units) == [f"/10.0.0.1/{unit}", f"/10.0.0.2/{unit}", "/START.txt"]
    assert "    --node-rank 1 \\\n" in units[f"/10.0.0.2/{unit}"]
    assert "node-rank: 1\n" in files("--options-file")["/10.0.0.2/etc/llmops/vllm.yaml"]
    assert "ray start --block --address=10.0.0.1:6379" in files("--distributed-executor-backend", "ray")["/START.txt"]


REPLICAS = ("render", *CARD, "--front", "haproxy")


def test_several_servers_and_the_front_before_them_are_written_together(
    run: Run, directory: str, tmp_path: Path
) -> None:
    inventory = tmp_path / "replicas.yaml"
    inventory.write_text(f"front: 10.0.0.1\n{HOSTS}")
    words = (*REPLICAS, "--model", directory, "--users", "400", "--slots", "4", "--inventory", str(inventory))
    ran = run(*words, "--directory", "/made", "--output", "json")
    assert ran.exit_code == 0, ran.stderr
    files = {row["path"]: row["after"] for row in ran.envelope["data"]["files"]}
    assert list(files) == [
        "/10.0.0.1/etc/llmops/front.cfg",
        "/10.0.0.1/etc/systemd/system/llmops-front.service",
        "/START.txt",
        "/10.0.0.1/etc/systemd/system/vllm.service",
        "/10.0.0.2/etc/systemd/system/vllm.service",
    ]
    front = files["/10.0.0.1/etc/llmops/front.cfg"]
    assert "    bind 127.0.0.1:8000 proto h1\n" in front
    assert "    server engine2 10.0.0.2:9000 maxconn 4 check" in front
    assert run(*words).stdout == front
    assert "--host 10.0.0.2" in files["/10.0.0.2/etc/systemd/system/vllm.service"]
    assert "the units let in no other machine" in files["/START.txt"]
    one, two = (files[f"/10.0.0.{number}/etc/systemd/system/vllm.service"].splitlines() for number in (1, 2))
    assert [left for left, right in zip(one, two, strict=False) if left != right][:1] == ["    --host 10.0.0.1 \\"]


@pytest.mark.parametrize(
    ("words", "front", "said"),
    [
        ((), "", "names no machine for the front"),
        (("--nodes", "2", "--ram", "64GiB"), "front: 10.0.0.9\n", "is not several servers"),
        (("--distributed-executor-backend", "mp"), "front: 10.0.0.9\n", "for one server on several machines"),
        (("--listen", "10.0.0.1:9000"), "front: 10.0.0.1\n", "itself listens"),
        (("--affinity-header", "X Y"), "front: 10.0.0.9\n", "no name of a header"),
    ],
)
def test_what_makes_no_front_before_several_servers(
    run: Run, directory: str, tmp_path: Path, words: tuple[str, ...], front: str, said: str
) -> None:
    inventory = tmp_path / "replicas.yaml"
    inventory.write_text(f"{front}{HOSTS}")
    ran = run(*REPLICAS, "--model", directory, "--inventory", str(inventory), *words)
    assert ran.exit_code == 2, ran.stderr
    assert said in " ".join(ran.stderr.split())


def test_a_machine_for_a_front_is_not_overlooked(run: Run, directory: str, tmp_path: Path) -> None:
    inventory = tmp_path / "replicas.yaml"
    inventory.write_text(f"front: 10.0.0.9\n{HOSTS}")
    ran = run("render", *CARD, *TWO, "--model", directory, "--inventory", str(inventory))
    assert ran.exit_code == 2
    assert "names a machine for a front" in ran.stderr


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--nodes", "3"), 2, "names 2 machines, and the plan is for 3"),
        (("--nodes", "1"), 2, "names 2 machines, and the plan is for 1"),
        (("--nodes", "2", "--tensor-parallel", "3"), 2, "cannot be divided"),
        (("--nodes", "2", "--tensor-parallel", "1", "--pipeline-parallel", "1"), 2, "are 2 cards, and"),
        (("--nodes", "2", "--engine-version", "0.11.0"), 7, "no --nnodes"),
        (("--nodes", "2", "--front", "haproxy"), 2, "names no machine for the front"),
        (("--nodes", "2"), 2, "3 files would be printed"),
    ],
)
def test_machines_that_do_not_match_the_plan(
    run: Run, directory: str, hosts: str, options: tuple[str, ...], code: int, said: str
) -> None:
    ran = run("render", *CARD, "--model", directory, "--inventory", hosts, *options)
    assert (ran.exit_code, said in ran.stderr) == (code, True), ran.stderr


def test_a_wrong_inventory_is_9_with_its_place(run: Run, directory: str, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("hosts:\n- address: 10.0.0.1\n- address: gpu-2\n")
    words = ("render", *CARD, *TWO, "--model", directory, "--inventory")
    ran = run(*words, str(wrong))
    assert (ran.exit_code, f"{wrong}:3:3: 'gpu-2' is not an IP address" in ran.stderr) == (9, True)
    ran = run(*words, str(tmp_path / "none.yaml"))
    assert (ran.exit_code, "there is no such file" in ran.stderr) == (9, True)


def test_a_way_to_work_together_is_for_several_machines(run: Run, directory: str) -> None:
    ran = run("render", *CARD, "--model", directory, "--distributed-executor-backend", "ray")
    assert (ran.exit_code, "--inventory FILE" in ran.stderr) == (2, True)


def test_other_engines_serve_from_one_machine(run: Run, machine: Machine, tmp_path: Path, hosts: str) -> None:
    words = ("render", "--engine", "llama-server", "--model", str(model_file(tmp_path)), "--inventory", hosts)
    ran = run(*words)
    assert (ran.exit_code, "does not serve one model from several machines" in ran.stderr) == (2, True), ran.stderr


# Several cards


def planned(run: Run, directory: str, *more: str) -> dict[str, object]:
    card = ("--gpu", "RTX 4090:24GiB:23.5GiB:8.9:1008GB/s")
    words = ("--engine", "vllm", "--engine-version", "0.33.0", *card, *card, "--links", "pcie", "--ram", "64GiB")
    ran = run("plan", *words, "--model", directory, "--output", "json", *more)
    assert ran.exit_code == 0, ran.envelope["errors"]
    data: dict[str, object] = ran.envelope["data"]
    return data


def test_more_cards_are_taken_where_one_is_too_slow_for_the_users(run: Run, directory: str) -> None:
    load = ("--users", "400", "--turn-seconds", "8", "--prompt-tokens", "500", "--reply-tokens", "200")
    slow = planned(run, directory, *load, "--min-speed", "5")["plan"]
    fast = planned(run, directory, *load, "--min-speed", "2000")["plan"]
    assert isinstance(slow, dict) and isinstance(fast, dict)
    assert "data_parallel" not in slow and slow["tensor_parallel"] == 1
    assert fast.get("data_parallel", 1) * fast["tensor_parallel"] == 2


def test_copies_are_told_to_people_and_to_the_server(run: Run, directory: str) -> None:
    data = planned(run, directory, "--data-parallel", "2", "--slots", "6")
    plan = data["plan"]
    assert isinstance(plan, dict)
    told = dict(zip(plan["arguments"], plan["arguments"][1:], strict=False))
    assert (plan["slots"], told["--data-parallel-size"], told["--max-num-seqs"]) == (6, "2", "3")
    words = (*CARD, *CARD[4:], "--ram", "64GiB", "--data-parallel", "2", "--slots", "6", "--model", directory)
    text = run("plan", *words).stdout
    assert "2 side by side, 3 slots each" in text
    assert "in 2 pools" in text


def test_a_host_that_is_too_small_for_every_copy_is_named(run: Run, directory: str) -> None:
    ran = run("plan", *CARD, *CARD[4:], "--ram", "8GiB", "--data-parallel", "2", "--model", directory)
    assert ran.exit_code == 4
    assert "on host, which has" in ran.stderr
    assert "on host" in ran.stderr.partition("hint:")[2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--expert-parallel",), "--expert-parallel needs experts"),
        (("--data-parallel", "3"), "is more than the one card there is"),
        (("--data-parallel", "2", "--nodes", "2"), "planned for on one machine"),
    ],
)
def test_divisions_that_vllm_refuses_are_usage_errors(
    run: Run, directory: str, words: tuple[str, ...], said: str
) -> None:
    ran = run("plan", *CARD, "--model", directory, *words, "--output", "json")
    assert ran.exit_code == 2
    assert said in ran.envelope["errors"][0]["message"]
    assert ran.envelope["errors"][0]["hint"]


def published(directory: Path, name: str) -> str:
    """A checkpoint of which only config.json is there."""
    return str(copytree(CONFIGS / name, directory / name))


def test_every_division_is_judged_by_its_own_speed(run: Run, machine: Machine, tmp_path: Path) -> None:
    """Eight linked cards that share each layer need fewer slots than two groups of four, one after the other."""
    card = ("--gpu", "H100:80GiB:80GiB:9.0:3350GB/s")
    words = ("--engine", "vllm", "--engine-version", "0.29.0", *card * 8, "--links", "nvlink", "--ram", "1000GiB")
    ran = run("plan", *words, "--model", published(tmp_path, "qwen3-235b-a22b"), "--users", "200", "--output", "json")
    plan = ran.envelope["data"]["plan"]
    assert (plan["tensor_parallel"], plan["pipeline_parallel"], plan["cache_type_k"]) == (8, 1, "bf16")
    assert plan["binding_constraint"] == "users"
    tried = next(row for row in ran.envelope["data"]["reasons"] if row["quantity"] == "tensor_parallel")
    assert tried["inputs"]["tried"].startswith("1 x 1, 2 x 1, 4 x 1, 8 x 1, 4 x 2")


def test_a_smaller_checkpoint_is_named_by_what_the_cache_lacks(run: Run, machine: Machine, tmp_path: Path) -> None:
    card = ("--gpu", "RTX A4000:16GB:16GB:8.6:448GB/s")
    words = ("plan", "--engine", "vllm", "--engine-version", "0.29.0", *card, "--ram", "64GiB", "--users", "5")
    ran = run(*words, "--model", published(tmp_path, "qwen3-8b"), "--output", "json")
    # Into the server's share of 14.9 GiB must go weights, a cache of 1.13 GiB and more.
    said = re.search(r"under ([\d.]+) GiB \(now 15\.26 GiB\)", ran.envelope["errors"][0]["hint"])
    assert ran.exit_code == 4 and said is not None
    assert float(said[1]) < 14.9 * 0.92 - 1.13


def test_a_crowded_card_takes_nothing_from_one_that_is_free(run: Run, machine: Machine, tmp_path: Path) -> None:
    free, crowded = ("--gpu", "A5000:24GiB:24GiB:8.6:768GB/s"), ("--gpu", "A5000:24GiB:10GiB:8.6:768GB/s")
    words = ("plan", "--engine", "vllm", "--engine-version", "0.33.0", "--ram", "64GiB", "--users", "5")
    asked = (*words, "--model", published(tmp_path, "qwen3-8b"), "--output", "json")
    alone, both = (run(*asked, *cards).envelope["data"] for cards in (free, (*free, *crowded)))
    for name in ("slots", "gpu_memory_utilization", "tensor_parallel", "pipeline_parallel"):
        assert alone["plan"][name] == both["plan"][name]
    assert any("of all 2 cards instead of 0.92" in line for line in both["warnings"])
    first = run(*asked, *crowded, *free)
    assert first.exit_code == 4, "the engine takes the first card first"
