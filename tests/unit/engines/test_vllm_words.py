"""Command lines and --config files of vLLM: read whatever their spelling, and kept but for what a plan decides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmops.core.errors import Misconfigured, TooOld
from llmops.core.plan import Fixed
from llmops.engines.found import InForce
from llmops.engines.vllm.command import build
from llmops.engines.vllm.words import amount, config_path, find, program_length, read_config, read_words
from tests.unit.core.example_models import GIB
from tests.unit.engines.vllm_host import MODEL, SCRIPT, UNIT, VLLM, installed, plan_of

SERVED = installed(managed_by="unit", unit=UNIT)


def words_after(plan_words: tuple[str, ...], **seen: object) -> tuple[str, ...]:
    in_force = InForce(user_arguments=(SCRIPT, "serve", *plan_words), **seen)  # type: ignore[arg-type]
    return build(plan_of(), SERVED, in_force).words


@pytest.mark.parametrize(
    ("written", "flag", "value"),
    [
        (("--max_num_seqs", "4"), "--max-num-seqs", "4"),
        (("--max-num-seqs=4",), "--max-num-seqs", "4"),
        (("-tp", "2"), "--tensor-parallel-size", "2"),
        (("--kv-cache-memory", "6M"), "--kv-cache-memory-bytes", "6M"),
        (("--device-memory-utilization", "0.5"), "--gpu-memory-utilization", "0.5"),
        (("--max-model-len", "-1"), "--max-model-len", "-1"),
        (("--no-enable-prefix-caching",), "--enable-prefix-caching", "off"),
        (("--enforce-eager",), "--enforce-eager", "on"),
        (("--served-model-name", "a", "b"), "--served-model-name", "a b"),
    ],
)
def test_every_spelling_of_an_option(written: tuple[str, ...], flag: str, value: str) -> None:
    arguments = read_words(("model", "--port", "1", *written, "--host", "::1"))
    said = find(arguments, flag)
    assert said is not None
    assert (said.value, said.words) == (value, written)
    assert find(arguments, "--host") == arguments[-1]


def test_a_switch_takes_no_word() -> None:
    assert [one.values for one in read_words(("--enforce-eager", "model"))] == [(), ("model",)]


@pytest.mark.parametrize(
    ("text", "number"),
    [("16384", 16_384), ("16K", 16_384), ("16k", 16_000), ("1.5k", 1_500), ("1.5K", None), ("6Mi", None), ("x", None)],
)
def test_capital_letters_are_binary_and_small_ones_decimal(text: str, number: int | None) -> None:
    assert amount(text) == number


@pytest.mark.parametrize(
    ("words", "length"),
    [
        (("vllm", "serve", "m"), 2),
        (("/usr/bin/taskset", "-c", "0", "/opt/v/bin/vllm", "serve"), 5),
        (("/opt/v/bin/python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "m"), 3),
        (("/bin/sh", "-c", "vllm serve m"), None),
        (("vllm", "bench", "serve"), None),
    ],
)
def test_which_words_start_the_server(words: tuple[str, ...], length: int | None) -> None:
    assert program_length(words) == length
    assert program_length(list(words)) == length


def test_a_config_file_is_read_as_vllm_reads_it() -> None:
    options = read_config(
        "model: a/b\nmax-num-seqs: 4\nmax_model_len: 16K\nenforce-eager: true\nenable-prefix-caching: false\n"
        "served-model-name: [a, b]\ncompilation-config:\n  mode: 3\n"
    )
    assert [(one.flag, one.value) for one in options] == [
        ("--model", "a/b"), ("--max-num-seqs", "4"), ("--max-model-len", "16K"), ("--enforce-eager", "on"),
        ("--enable-prefix-caching", "off"), ("--served-model-name", "a b"),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "- a\n", "a: [", "just words"])
def test_what_is_no_mapping_sets_nothing(text: str) -> None:
    assert read_config(text) == ()


# The command line of a unit


def test_a_persons_words_stay_and_planned_ones_are_replaced() -> None:
    words = words_after(
        (MODEL, "--max_num_seqs=256", "-tp", "2", "--served-model-name", "qwen", "--gpu-memory-utilization", "0.9",
         "--host", "10.0.0.1", "--port", "9000", "--enforce-eager"),
    )  # fmt: skip
    plan = plan_of()
    assert words[:7] == (SCRIPT, "serve", MODEL, "--served-model-name", "qwen", "--enforce-eager", "--host")
    assert words[6:10] == ("--host", "10.0.0.1", "--port", "9000")
    assert words[words.index("--max-num-seqs") + 1] == str(plan.slots)
    assert not {"--max_num_seqs=256", "-tp", "--gpu-memory-utilization"} & set(words)
    again = words_after(words[2:])
    assert again == words, "a second run changes nothing"


def test_a_server_that_listens_everywhere_goes_on_doing_so() -> None:
    words = words_after((MODEL,))
    assert words[words.index("--host") + 1] == "0.0.0.0"
    fresh = build(plan_of(), installed())
    assert fresh.words[:7] == (SCRIPT, "serve", MODEL, "--host", "127.0.0.1", "--port", "8000")


def test_what_a_config_file_says_is_overruled_on_the_command_line() -> None:
    text = f"model: {MODEL}\ntensor-parallel-size: 2\nport: 9000\nmax-num-seqs: 99\n"
    words = words_after(("--config", "/etc/vllm.yaml"), config_files=(("/etc/vllm.yaml", text),))
    assert words[:4] == (SCRIPT, "serve", "--config", "/etc/vllm.yaml")
    assert MODEL not in words, "the file names the same model"
    assert words[words.index("--tensor-parallel-size") + 1] == "1"
    assert words[words.index("--port") + 1] == "9000"
    assert config_path(words) == "/etc/vllm.yaml"


def test_another_model_than_the_files_is_named() -> None:
    words = words_after(("--config", "/etc/vllm.yaml"), config_files=(("/etc/vllm.yaml", "model: other\n"),))
    assert words[2] == MODEL


def test_a_pool_that_no_word_takes_back_is_refused() -> None:
    plan = replace(plan_of(), kv_memory_bytes=None, gpu_memory_utilization=0.5)
    seen = InForce(
        user_arguments=(SCRIPT, "serve", "--config", "/c.yaml"),
        config_files=(("/c.yaml", f"model: {MODEL}\nkv-cache-memory-bytes: 6G\n"),),
    )
    with pytest.raises(Misconfigured, match="sets kv-cache-memory-bytes to 6G"):
        build(plan, SERVED, seen)


def test_a_variable_that_wins_over_the_plan_is_refused() -> None:
    seen = InForce(user_arguments=(SCRIPT, "serve", MODEL), configured_environment=(("VLLM_CPU_KVCACHE_SPACE", "40"),))
    with pytest.raises(Misconfigured, match="VLLM_CPU_KVCACHE_SPACE=40, which wins"):
        build(plan_of(), SERVED, seen)


def test_a_script_cannot_be_kept() -> None:
    with pytest.raises(Misconfigured, match="does not start vllm with words"):
        build(plan_of(), SERVED, InForce(user_arguments=("/bin/sh", "-c", "vllm serve m")))


def test_an_option_that_this_package_lacks_is_too_old() -> None:
    with pytest.raises(TooOld, match="does not know --max-model-len"):
        build(plan_of(), installed(flags=frozenset({"--max-num-seqs"})))


def test_running_requests_may_end_since_the_option_exists() -> None:
    assert "--shutdown-timeout" not in build(plan_of(), installed("0.17.1")).words
    assert build(plan_of(), installed("0.18.0")).words[-2:] == ("--shutdown-timeout", "30")


def test_the_module_is_told_its_model_by_an_option() -> None:
    command = ("/opt/vllm/bin/python3", "-m", "vllm.entrypoints.openai.api_server")
    words = build(plan_of(Fixed(kv_memory_bytes=GIB * 4)), installed(command=command)).words
    assert words[:5] == (*command, "--model", MODEL)


def test_a_model_that_cannot_be_told_is_not_named_twice() -> None:
    with pytest.raises(Misconfigured, match="cannot be told from its words"):
        words_after(("--enable-lora", MODEL))


def test_a_limit_of_what_runs_does_not_stay_above_the_slots() -> None:
    assert "--max-num-active-seqs" not in words_after((MODEL, "--max-num-active-seqs", "64"))


def test_a_key_that_everybody_can_read_is_a_warning() -> None:
    seen = InForce(user_arguments=(SCRIPT, "serve", MODEL, "--api-key", "geheim", "--disable-log-stats"))
    key, stats = VLLM.warnings(plan_of(binding_constraint="users"), SERVED, seen)
    assert key.startswith("--api-key stands on the command line")
    assert "geheim" not in key
    assert "--disable-log-stats is kept, but" in stats
    assert VLLM.warnings(plan_of(binding_constraint="users"), installed()) == ()
