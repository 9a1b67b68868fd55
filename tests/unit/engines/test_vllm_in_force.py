"""What runs of a vLLM against a plan: its words, its own word, its cache and its counters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmops.core.verification import Check, CheckStatus
from llmops.engines.base import Contradiction, Health
from llmops.engines.found import InForce
from llmops.engines.vllm.observe import VllmInForce, observe
from llmops.host import ListeningSocket, Response
from tests.unit.engines.vllm_host import MODEL, SCRIPT, UNIT, URL, VLLM, VllmHost, installed, plan_of

RUNNING = installed(managed_by="process", pid=7)


def running(*more: str, **changes: object) -> VllmHost:
    """A server that was started with the plan's words."""
    plan, host = plan_of(), VllmHost()
    words = VLLM.launch(plan, installed(), 8000).argv[2:]
    tokens = plan.budgets[0].cache_tokens
    host.serves(*words, *more, **{"tokens": tokens, "longest": plan.context_tokens_per_slot, **changes})  # type: ignore[arg-type]
    return host


def checked(host: VllmHost) -> dict[str, Check]:
    seen = observe(host, RUNNING)
    return {one.name: one for one in VLLM.checks(VLLM.expectations(plan_of(), RUNNING, seen), RUNNING, seen)}


def test_all_that_a_server_tells_is_seen() -> None:
    host = running()
    host.files["/proc/7/status"] = host.files["/proc/8/status"] = "VmRSS:\t1000 kB\nRssAnon:\t600 kB\n"
    host.files["/proc/9/status"] = "VmRSS:\t3000 kB\nRssAnon:\t2000 kB\n"
    seen = observe(host, RUNNING)
    assert (seen.pid, seen.worker_pids, seen.computing_pid) == (7, (9, 8), 9)
    assert (seen.url, seen.listener_pid, seen.version, seen.processing) == (URL, 7, "0.33.0", 3)
    assert (seen.resident_bytes, seen.anonymous_bytes) == (5_000 * 1024, 3_200 * 1024)
    assert (seen.model_path, seen.served_names, seen.slots) == (MODEL, (MODEL,), plan_of().slots)
    assert seen.unseen == ()


def test_a_server_with_the_plans_words_passes_every_check() -> None:
    checks = checked(running())
    failed = [one for one in checks.values() if one.status is not CheckStatus.PASS]
    assert not failed
    assert {"--max-num-seqs", "--kv-cache-memory-bytes", "longest_request", "cache_tokens", "version"} <= checks.keys()


@pytest.mark.parametrize(
    ("more", "changes", "name", "observed"),
    [
        (("--max-num-seqs", "256"), {}, "--max-num-seqs", "256"),
        ((), {"tokens": 26_000}, "cache_tokens", "26,000"),
        ((), {"longest": 4_096}, "longest_request", "4096"),
    ],
)
def test_what_differs_fails(more: tuple[str, ...], changes: dict[str, object], name: str, observed: str) -> None:
    check = checked(running(*more, **changes))[name]
    assert (check.status, check.observed) == (CheckStatus.FAIL, observed)


def test_a_version_that_tells_no_tokens_is_not_evaluated() -> None:
    assert checked(running(tokens=None))["cache_tokens"].status is CheckStatus.NOT_EVALUATED


def test_another_version_behind_the_same_address_fails() -> None:
    host = running()
    host.answers[f"{URL}/version"] = Response(200, '{"version":"0.31.0"}')
    assert checked(host)["version"].status is CheckStatus.FAIL


@pytest.mark.parametrize(
    ("wanted", "status"), [("0.33", CheckStatus.PASS), ("0.33.0", CheckStatus.PASS), ("0.3", CheckStatus.FAIL)]
)
def test_a_version_may_be_said_in_short(wanted: str, status: CheckStatus) -> None:
    host = running()
    host.answers[f"{URL}/version"] = Response(200, '{"version":"0.33.0+cpu"}')
    here = replace(RUNNING, version_text=wanted)
    seen = observe(host, here)
    found = {one.name: one for one in VLLM.checks(VLLM.expectations(plan_of(), here, seen), here, seen)}
    assert found["version"].status is status


def test_somebody_elses_listener_fails() -> None:
    host = running()
    host.listeners = (ListeningSocket("127.0.0.1", 8000, 4711),)
    assert checked(host)["listener"].observed == "process 4711"


def test_a_key_keeps_the_model_unseen() -> None:
    host = running()
    host.answers[f"{URL}/v1/models"] = Response(401, '{"error":"Unauthorized"}')
    seen = observe(host, RUNNING)
    assert "wants an API key" in dict(seen.unseen)["key"]
    assert checked(host)["longest_request"].status is CheckStatus.NOT_EVALUATED


def test_what_answers_is_not_vllm() -> None:
    host = running()
    host.answers[f"{URL}/version"] = Response(404, "")
    seen = observe(host, RUNNING)
    assert seen.version is None
    assert seen.slots is None
    assert "not vLLM" in dict(seen.unseen)["props"]


def test_words_of_a_config_file_count_after_those_of_the_command_line() -> None:
    host = VllmHost()
    host.serves("--config", "/etc/vllm.yaml", "--max-num-seqs", "6")
    host.files["/etc/vllm.yaml"] = f"model: {MODEL}\nmax-num-seqs: 4\nport: 8000\n"
    seen = observe(host, RUNNING)
    assert (seen.slots, seen.model_path, seen.url) == (6, MODEL, URL)


def test_nothing_runs() -> None:
    seen = observe(VllmHost(), installed())
    assert dict(seen.unseen)["arguments"] == "the server is not running"
    assert seen.url == URL


@pytest.mark.parametrize(
    ("answer", "health"),
    [
        (Response(200, ""), Health.READY),
        (Response(503, ""), Health.DOWN),
        (Response(200, '{"status":"ok"}'), Health.NONSENSE),
        (Response(404, "no"), Health.NONSENSE),
        (ConnectionRefusedError(), Health.DOWN),
        (ConnectionResetError(), Health.NONSENSE),
        (TimeoutError(), Health.DOWN),
    ],
)
def test_health(answer: Response | OSError, health: Health) -> None:
    host = VllmHost(answers={f"{URL}/health": answer})
    assert VLLM.health(host, URL) is health


@pytest.mark.parametrize(("later", "status"), [(0, CheckStatus.PASS), (3, CheckStatus.FAIL)])
def test_requests_that_were_put_back_are_seen_by_the_counter(later: int, status: CheckStatus) -> None:
    seen = observe(running(), RUNNING)
    found = {one.name: one for one in VLLM.load_checks(running(preemptions=later), plan_of(), seen)}
    assert found["preemptions"].status is status


def test_a_server_that_tells_nothing_afterwards_is_not_evaluated() -> None:
    host = running()
    seen = observe(host, RUNNING)
    host.answers.clear()
    host.answers[f"{URL}/metrics"] = ConnectionRefusedError()
    (preemptions, _) = VLLM.load_checks(host, plan_of(), seen)
    assert preemptions.status is CheckStatus.NOT_EVALUATED


# In a plan's own terms


def test_what_runs_is_told_in_a_plans_terms() -> None:
    host = VllmHost()
    host.serves(
        MODEL, "--max-num-seqs", "4", "--max-num-queued-reqs", "10", "--kv-cache-memory-bytes", "4G", "-tp", "2",
        "--kv-cache-dtype", "fp8_e4m3", "--gpu-memory-utilization", "0.9", "--no-enable-prefix-caching",
        "--max-model-len", "8K", "--disable-log-stats",
    )  # fmt: skip
    found = VLLM.served(observe(host, RUNNING), RUNNING)
    assert found is not None
    values = found.values
    assert (values.slots, values.context_tokens, values.queue_requests, values.tensor_parallel) == (4, 8_192, 6, 2)
    assert (values.kv_memory_bytes, values.gpu_memory_utilization) == (4 * 1024**3, 0.9)
    assert (values.cache_type_k, values.prefix_caching, values.enforce_eager) == ("fp8", False, False)
    assert found.context_was_chosen
    assert "--disable-log-stats: requests that are put back" in found.works_against[0]


def test_slots_are_those_of_all_engines_side_by_side() -> None:
    host = VllmHost()
    host.serves(MODEL, "--max-num-seqs", "4", "-dp", "3", "-ep", "--max-num-queued-reqs", "20")
    found = VLLM.served(observe(host, RUNNING), RUNNING)
    assert found is not None
    values = found.values
    assert (values.slots, values.data_parallel, values.expert_parallel, values.queue_requests) == (12, 3, True, 8)
    host.answers[f"{URL}/version"] = Response(200, '{"version":"0.29.0"}')
    older = VLLM.served(observe(host, RUNNING), RUNNING)
    assert older is not None and older.values.queue_requests == 3 * 20 - 12, "each of three servers counts its own"


def test_of_several_engines_the_one_with_the_smallest_cache_counts() -> None:
    host = running()
    told = host.answers[f"{URL}/metrics"]
    assert isinstance(told, Response)
    tokens = plan_of().budgets[0].cache_tokens or 0
    line = next(line for line in told.body.splitlines() if "kv_cache_size_tokens" in line)
    smaller = line.replace(f'"{tokens}"', f'"{tokens - 16}"').replace('engine="0"', 'engine="1"')
    host.answers[f"{URL}/metrics"] = replace(told, body=f"{told.body}{smaller}\n")
    found = checked(host)["cache_tokens"]
    assert (found.status, found.observed) == (CheckStatus.FAIL, f"{tokens - 16:,}")
    assert "the least of 2 engines" in found.detail


@pytest.mark.parametrize("words", [("--max-model-len", "-1"), ("--max-model-len=auto",), ()])
def test_a_length_that_it_chose_itself_is_nobodys(words: tuple[str, ...]) -> None:
    host = VllmHost()
    host.serves(MODEL, "--max-num-seqs", "4", *words)
    found = VLLM.served(observe(host, RUNNING), RUNNING)
    assert found is not None
    assert not found.context_was_chosen


def test_requests_name_the_model_as_the_server_does() -> None:
    host = VllmHost()
    host.serves("qwen", "--served-model-name", "qwen")
    assert VLLM.model_name(plan_of(), observe(host, RUNNING)) == "qwen"
    assert VLLM.model_name(plan_of(), InForce()) == MODEL


# Contradictions of a person's drop-ins


def contradictions_of(words: str) -> tuple[Contradiction, ...]:
    drop_in = ("/etc/systemd/system/vllm.service.d/own.conf", f"[Service]\nExecStart=\nExecStart={words}\n")
    in_force = InForce(user_arguments=(SCRIPT, "serve", MODEL), unmanaged_drop_ins=(drop_in,))
    return VLLM.contradictions(VllmHost(), plan_of(), installed(managed_by="unit", unit=UNIT), in_force)


def test_a_drop_in_that_says_otherwise_is_named() -> None:
    (found,) = contradictions_of(f"{SCRIPT} serve {MODEL} --max-num-seqs 256 --max-model-len 8K")
    assert (found.setting, found.theirs, found.source) == ("--max-num-seqs", "256", "drop_in")
    assert contradictions_of(f"{SCRIPT} serve {MODEL} --served-model-name qwen") == ()


def test_an_observation_of_another_kind_is_still_compared() -> None:
    plain = InForce(pid=7, arguments=(SCRIPT, "serve", MODEL))
    checks = VLLM.checks(VLLM.expectations(plan_of(), RUNNING, plain), RUNNING, plain)
    assert all(one.status is not CheckStatus.PASS for one in checks if one.name.startswith("--"))
    assert isinstance(replace(observe(running(), RUNNING), pid=8), VllmInForce)


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("INFO kv_cache_utils.py] GPU KV cache size: {:,} tokens\n", CheckStatus.PASS),
        ("INFO kv_cache_utils.py] GPU KV cache size: 128 tokens\n", CheckStatus.FAIL),
        ("", CheckStatus.NOT_EVALUATED),
    ],
)
def test_a_version_that_tells_its_cache_in_the_log_only_is_looked_up_there(line: str, status: CheckStatus) -> None:
    host, plan = running(tokens=None), plan_of()
    host.unit(UNIT, f"[Service]\nExecStart={SCRIPT} serve {MODEL}\n", main_pid=7)
    asked = (
        "journalctl", "--unit", UNIT, "--lines", "8", "--output", "cat", "--no-pager", "--quiet",
        "_SYSTEMD_INVOCATION_ID=1", "--grep", "KV cache size:",
    )  # fmt: skip
    host.says(asked, line.format(plan.budgets[0].cache_tokens), exit_code=0 if line else 1)
    unit = installed(managed_by="unit", unit=UNIT)
    expected = [one for one in VLLM.expectations(plan, unit, None) if one.name == "cache_tokens"]
    (check,) = VLLM.checks(tuple(expected), unit, observe(host, unit))
    assert check.status is status
