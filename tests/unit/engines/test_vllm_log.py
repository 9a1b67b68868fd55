"""The log of a start: the printed cache against the plan, and our word first where a start failed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmops.core.verification import CheckStatus
from tests.unit.engines.vllm_host import VLLM, installed, plan_of

TOKENS = plan_of().budgets[0].cache_tokens or 0


def printed(tokens: int, times: float, device: str = "CPU") -> str:
    return (
        f"(EngineCore pid=7) INFO 11-29 23:19:43 [kv_cache_utils.py:2327] {device} KV cache size: {tokens:,} tokens,"
        f" Maximum concurrency for 8,192 tokens per request: {times:.2f}x\n"
    )


def verdicts(output: str, **changes: object) -> list[tuple[CheckStatus, str | None]]:
    return [(one.status, one.observed) for one in VLLM.log_checks(plan_of(**changes), output)]


def test_exactly_the_planned_tokens_pass() -> None:
    assert verdicts(printed(TOKENS, 3.5)) == [(CheckStatus.PASS, f"{TOKENS:,}"), (CheckStatus.PASS, "3.50")]


def test_two_lines_of_an_older_version() -> None:
    older = f"GPU KV cache size: {TOKENS:,} tokens\nMaximum concurrency for 8,192 tokens per request: 1.00x\n"
    assert [status for status, _ in verdicts(older)] == [CheckStatus.PASS, CheckStatus.PASS]


@pytest.mark.parametrize("tokens", [TOKENS - 128, TOKENS + 128])
def test_other_tokens_of_a_given_pool_fail(tokens: int) -> None:
    assert verdicts(printed(tokens, 3.5))[0] == (CheckStatus.FAIL, f"{tokens:,}")


@pytest.mark.parametrize(("more", "status"), [(128, CheckStatus.PASS), (-128, CheckStatus.FAIL)])
def test_what_remains_of_the_memory_may_be_more_than_planned(more: int, status: CheckStatus) -> None:
    assert verdicts(printed(TOKENS + more, 3.5), kv_memory_bytes=None)[0][0] is status


def test_fewer_requests_at_once_than_slots_fail() -> None:
    assert verdicts(printed(TOKENS, 1.99), slots=2)[1] == (CheckStatus.FAIL, "1.99")


def test_a_silent_log_is_not_evaluated() -> None:
    assert {status for status, _ in verdicts("WARNING only\n")} == {CheckStatus.NOT_EVALUATED}


# Starts that failed; the lines are those of vLLM 0.32.0

_BEFORE = "(EngineCore pid=26796) ERROR 11-29 23:21:18 [core.py:1510] "
FAILURES = {
    "cache too small": (
        f"{_BEFORE}ValueError: To serve at least one request with the model's max seq len (2048), (0.0 GiB KV cache is"
        " needed, which is larger than the available KV cache memory (0.0 GiB). Based on the available memory, the"
        " estimated maximum model length is 1408. Try increasing `gpu_memory_utilization` (...)\n",
        ("cannot hold one request of 2048 tokens: the longest that fits has 1408", "plan with --context 1408"),
    ),
    "no room at all": (
        f"{_BEFORE}ValueError: No available memory for the cache blocks. Try increasing ...\n",
        ("no memory is left for the cache",),
    ),
    "card held": (
        f"{_BEFORE}ValueError: Free memory on device cuda:0 (3.1/23.5 GiB) on startup is less than desired GPU memory"
        " utilization (0.92, 21.6 GiB). Decrease GPU memory utilization or reduce ...\n",
        ("another process holds the memory (free and total, GiB: 3.1 of 23.5)", "nvidia-smi"),
    ),
    "card held, older words": (
        "ValueError: Free memory on device (3.1/23.5 GiB) on startup is less than desired GPU memory utilization\n",
        ("GiB: 3.1 of 23.5",),
    ),
    "memory of the host held": (
        "ValueError: Available memory on node 0 (1.0/23.5 GiB) on startup is less than desired CPU memory\n",
        ("GiB: 1.0 of 23.5",),
    ),
    "architecture": (
        "(APIServer pid=1) pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
        "(APIServer pid=1)   Value error, Model architectures ['FooForCausalLM'] are not supported for now.\n",
        ("cannot serve the architecture 'FooForCausalLM'", "it said: Value error, Model architectures"),
    ),
    "model type": (
        "  Value error, The checkpoint you are trying to load has model type `bar` but Transformers does not recognize"
        " this architecture.\n",
        ("does not know models of type bar",),
    ),
    "absent model": (
        "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested files in the disk cache and outgoing"
        " traffic has been disabled.\n",
        ("the model is not on this disk", "HF_HUB_OFFLINE=1"),
    ),
    "flag": (
        "vllm: error: unrecognized arguments: --bogus-flag 3\n",
        ("does not know --bogus-flag", "--engine-version"),
    ),
    "old card": (
        "  Value error, Bfloat16 is only supported on GPUs with compute capability of at least 8.0.\n",
        ("cannot compute in bfloat16",),
    ),
    "quantisation": (
        "(APIServer pid=1)   Value error, Unknown quantization method: frobnicate. Must be one of ['awq', 'auto_awq'"
        ", 'fp8']. [type=value_error, input_value=ArgsKwargs((), {'model': ...workers': 1}), input_type=ArgsKwargs]\n",
        ("does not know the quantisation frobnicate: install", "Must be one of ['awq', 'auto_awq', 'fp8']."),
    ),
    "quantisation without its values": (
        "  Value error, Cannot find any of ['sym'] in the model's quantization config. [type=value_error, ...]\n",
        ("quantization_config of config.json lacks 'sym'",),
    ),
    "no type": (
        "  Value error, Unrecognized model in /srv/models/m. Should have a `model_type` key in its config.json.\n",
        ("config.json does not say which model it is (model_type)",),
    ),
    "weights that are not there": (
        f"{_BEFORE}ValueError: Following weights were not initialized from checkpoint: {{'model.layers.4.norm'}}\n",
        ("weights are missing that config.json promises", "model.layers.4.norm"),
    ),
    "weights of another shape": (
        f"{_BEFORE}RuntimeError: The size of tensor a (256) must match the size of tensor b (128) at non-singleton"
        " dimension 1\n",
        ("other shapes than config.json says",),
    ),
    "damaged tokenizer": (
        "(APIServer pid=1) json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1\n",
        ("a JSON file of the model is damaged",),
    ),
    "a file of somebody else": (
        "PermissionError: [Errno 13] Permission denied: '/srv/models/m/config.json'\n",
        ("its account may not read or write /srv/models/m/config.json",),
    ),
    "own code": (
        "RuntimeError: Failed to load the model config. If the model is a custom model not yet available in the"
        " HuggingFace transformers library, consider setting `trust_remote_code=True` in LLM or using the\n",
        ("brings code of its own",),
    ),
    "worker": (
        f"{_BEFORE}Worker proc VllmWorker-0 died unexpectedly (exit code: -9), shutting down executor.\n",
        ("a worker was killed or crashed (-9)",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
def test_our_word_comes_first_then_the_engines(name: str) -> None:
    log, words = FAILURES[name]
    over = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
    said = VLLM.last_words(1, f"Traceback (most recent call last):\n{log}{over}")
    for word in words:
        assert word in said
    assert said.startswith(words[0]) or words[0] in said.partition("; it ended")[0]
    assert "Engine core initialization failed" not in said


def test_a_killed_worker_ends_the_server_with_0() -> None:
    assert "exit code 0, which it also does when a worker was killed" in VLLM.last_words(0, "")
    assert "dmesg" in VLLM.last_words(137, "")


def test_a_log_without_an_exception_ends_in_its_last_line() -> None:
    assert VLLM.last_words(1, "one\nthe  last\n").endswith("it said: the last")


def test_a_taken_port_is_told() -> None:
    assert VLLM.port_was_taken("OSError: [Errno 98] Address already in use")
    assert not VLLM.port_was_taken("INFO ready")
    assert VLLM.last_words(1, "OSError: [Errno 98] Address already in use").startswith("another program has the port")


# A trial's words


def test_a_trial_takes_the_plan_and_nothing_of_the_person() -> None:
    launch = VLLM.launch(plan_of(), installed(), 20_001)
    assert launch.url == "http://127.0.0.1:20001"
    assert launch.argv[:2] == ("/opt/vllm/bin/vllm", "serve")
    assert launch.environment["HF_HUB_OFFLINE"] == "1"
    assert launch.stop_seconds == 30
    waiting = VLLM.launch(replace(plan_of(), passive_waiting=True), installed(), 1).environment
    assert waiting["OMP_WAIT_POLICY"] == "passive"


def test_a_trial_finds_the_model_in_the_cache_that_the_plan_read() -> None:
    path = "/var/lib/vllm/.cache/huggingface/hub/models--Qwen--Qwen3-8B/snapshots/abc/model.safetensors"
    model = replace(plan_of().model, reference="Qwen/Qwen3-8B", source_paths=(path,))
    launch = VLLM.launch(plan_of(model=model), installed(), 1)
    assert launch.environment["HF_HUB_CACHE"] == "/var/lib/vllm/.cache/huggingface/hub"
