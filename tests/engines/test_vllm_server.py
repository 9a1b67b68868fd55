"""The real vLLM under our numbers and under its own: preemptions, refusals, a drained stop, a killed worker.

Two starts serve all of it, one with what `llmops plan` says and one with the engine's own --max-num-seqs; what ends a
server comes last.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmops.core.verification import CheckStatus
from llmops.engines.vllm.metric_checks import preemption_check, rejection_check
from llmops.engines.vllm.metrics import VllmMetrics, ask_metrics
from llmops.host.local import LocalHost
from llmops.load import (
    LoadResult,
    Overlap,
    RequestTiming,
    random_prompt,
    stream_one,
    two_requests,
    users_closed_loop,
    warm_up,
)
from tests.engines.conftest import absent
from tests.engines.fronted import CHAT, SLOTS, Front, front_before, full, one_too_many_at_once, standing_still, until
from tests.engines.fronted import load as fronted_load
from tests.engines.http_calls import call, stream
from tests.engines.vllm_server import NAME, VllmServer, planned_flags, serving, value_of, without
from tests.truth.tiny_models import full_attention, write_model
from tools.get_vllm import installed_version, python_path

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]

HOST = LocalHost()
PROMPT_TOKENS, REPLY_TOKENS = 112, 500
QUEUE = 3  # also that of the front
# 20 blocks of 128 tokens, of which 19 can be given away; a request of 612 takes five.
OPTIONS = (
    "--kv-memory", "5MiB", "--workload", "batch", "--users", "8", "--context", "640", "--queue", str(QUEUE),
    "--prompt-tokens", str(PROMPT_TOKENS), "--reply-tokens", str(REPLY_TOKENS),
)  # fmt: skip
TINY = full_attention()


@pytest.fixture(scope="module")
def python() -> Path:
    """The interpreter of a vLLM."""
    if installed_version(python_path()) is None:
        absent("vLLM")
    return python_path()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the tiny model."""
    return write_model(TINY, tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def flags(model: Path) -> tuple[str, ...]:
    """What our plan says."""
    return planned_flags(model, *OPTIONS)


@pytest.fixture(scope="module")
def ours(
    python: Path, model: Path, flags: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[VllmServer]:
    """A server as planned, which lets requests end when it is stopped."""
    assert value_of(flags, "--shutdown-timeout") > 0
    with serving(python, model, flags, tmp_path_factory.mktemp("ours") / "log") as server:
        warm_up(HOST, server.url, model=NAME)
        yield server


@pytest.fixture(scope="module")
def default(
    python: Path, model: Path, flags: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[VllmServer]:
    """The same cache and the same longest request; how many run at once and how many wait is the engine's choice."""
    own = without(without(flags, "--max-num-seqs"), "--max-num-queued-reqs")
    with serving(python, model, own, tmp_path_factory.mktemp("default") / "log") as server:
        warm_up(HOST, server.url, model=NAME)
        yield server


def load(server: VllmServer, requests: int) -> tuple[LoadResult, VllmMetrics, VllmMetrics]:
    """All at once, with the counters before and after."""
    before = ask_metrics(HOST, server.url)
    found = users_closed_loop(
        HOST, server.url, users=requests, requests=requests, prompt_tokens=PROMPT_TOKENS, reply_tokens=REPLY_TOKENS,
        model=NAME,
    )  # fmt: skip
    return found, before, ask_metrics(HOST, server.url)


def test_nothing_is_preempted_with_our_numbers(ours: VllmServer, flags: tuple[str, ...]) -> None:
    slots = value_of(flags, "--max-num-seqs")
    assert slots >= 2
    found, before, after = load(ours, slots + QUEUE)
    assert (len(found.answered), len(found.failed), len(found.rejected)) == (slots + QUEUE, 0, 0)
    assert found.reply_tokens == (slots + QUEUE) * REPLY_TOKENS
    assert preemption_check(before, after).status is CheckStatus.PASS
    assert rejection_check(before, after).status is CheckStatus.PASS
    # The wait is where it belongs, before the first token: the engine counts it as time in its queue.
    assert after.queue_time is not None
    assert before.queue_time is not None
    assert after.queue_time.since(before.queue_time).sum_seconds > 0.5 * max(found.first_token_seconds)


def test_the_printed_cache_is_in_the_metrics(ours: VllmServer) -> None:
    cache = ask_metrics(HOST, ours.url).cache
    assert cache is not None
    assert (cache.blocks, cache.usable_blocks, cache.block_size, cache.size_tokens) == (20, 19, 128, 2_560)
    assert cache.memory_bytes == 5 * 1024**2
    assert "KV cache size: 2,560 tokens" in ours.log.read_text(errors="replace")


def test_two_requests_run_side_by_side(ours: VllmServer) -> None:
    found = two_requests(HOST, ours.url, prompt_tokens=60, reply_tokens=200, model=NAME)
    assert found.verdict is Overlap.OVERLAPPED, found.reason
    assert found.alone.prompt_tokens is not None
    assert not found.alone.gathers_tokens


def test_a_burst_is_refused_visibly(ours: VllmServer, flags: tuple[str, ...]) -> None:
    most = value_of(flags, "--max-num-queued-reqs")
    assert most == value_of(flags, "--max-num-seqs") + QUEUE
    found, before, after = load(ours, most + 4)
    assert (len(found.answered), len(found.failed), len(found.rejected)) == (most, 0, 4)
    check = rejection_check(before, after)
    assert (check.status, check.observed) == (CheckStatus.FAIL, "4")
    assert preemption_check(before, after).status is CheckStatus.PASS
    for refused in found.rejected:
        assert refused.status == 503 or (refused.status, refused.error_code) == (200, 503)
        assert "busy" in str(refused.error)


def test_a_stop_lets_the_running_request_end(ours: VllmServer) -> None:
    answers: list[RequestTiming] = []
    prompt = random_prompt(PROMPT_TOKENS, 77)
    reader = threading.Thread(
        target=lambda: answers.append(stream_one(HOST, ours.url, prompt, REPLY_TOKENS, model=NAME))
    )
    reader.start()
    wait_until_running(ours)
    ours.process.send_signal(signal.SIGTERM)
    reader.join(300)
    assert ours.process.wait(300) == 0
    (answer,) = answers
    assert (answer.error, answer.reply_tokens, answer.finish_reason) == (None, REPLY_TOKENS, "length")
    assert "mode=drain" in ours.log.read_text(errors="replace")


def test_the_engines_own_choice_preempts(default: VllmServer, flags: tuple[str, ...]) -> None:
    found, before, after = load(default, value_of(flags, "--max-num-seqs") + QUEUE)
    assert found.failed == ()
    check = preemption_check(before, after)
    assert check.status is CheckStatus.FAIL
    assert int(check.observed or 0) > 0
    assert "reempt" not in default.log.read_text(errors="replace"), "the log never tells it"


@pytest.fixture
def front(default: VllmServer, tmp_path: Path) -> Iterator[Front]:
    """A real HAProxy before the server that has no limit of its own, as before 0.29.0."""
    with front_before(default.url, tmp_path, engine="vllm", model=NAME) as running:
        yield running


def test_of_six_at_once_a_front_lets_five_through(front: Front, default: VllmServer) -> None:
    for _ in range(3):
        refused, served = one_too_many_at_once(front, [default.process.pid], reply_tokens=8)
        assert [outcome.status for outcome in served] == [200] * (SLOTS + QUEUE)
        assert (refused.status, refused.retry_after) == (503, "20")
        assert refused.document["error"].keys() == {"message", "type", "param", "code"}
        assert "2 requests are served at once and 3 may wait" in refused.document["error"]["message"]


def test_who_leaves_makes_room_before_vllm(front: Front, default: VllmServer) -> None:
    with standing_still(default.process.pid), full(front, REPLY_TOKENS) as connections:
        connections[-1].close()
        until(lambda: fronted_load(front) == (SLOTS, QUEUE - 1), "the place in the queue to be free")
        connections[0].close()
        until(lambda: fronted_load(front) == (SLOTS, QUEUE - 2), "the next one to have the slot")


def test_a_stream_of_vllm_passes_unchanged(front: Front, default: VllmServer) -> None:
    asked = {**front.chat("w1 w2 w3", 40), "stream_options": {"include_usage": True}}
    direct, through = stream(default.url, CHAT, asked), stream(front.url, CHAT, asked)
    texts = [
        "".join(row["delta"].get("content") or "" for event in each.events for row in event["choices"])
        for each in (direct, through)
    ]
    assert texts[0] == texts[1], "how many tokens come in one event depends on the moment"
    assert through.done
    assert through.events[-1]["usage"]["completion_tokens"] == 40
    assert through.event_times[0] < through.event_times[-1], "token by token"


def test_what_vllm_answers_without_its_key_does_not_pass(front: Front, default: VllmServer) -> None:
    kind = {"Content-Type": "application/json"}
    prompt = {"model": NAME, "prompt": "w1", "max_tokens": 1}
    for path, payload in (("/metrics", None), ("/version", None), ("/tokenize", prompt), ("/invocations", prompt)):
        assert call(f"{default.url}{path}", payload, kind).status == 200, path
        assert call(f"{front.url}{path}", payload, kind).status == 403, path
    assert call(f"{front.url}/health").status == 200
    assert call(f"{front.url}/v1/models").document["data"][0]["id"] == NAME
    assert call(f"{front.url}/v1/completions", prompt, kind).status == 200


def test_a_killed_worker_ends_the_server_as_if_all_was_well(default: VllmServer) -> None:
    (worker,) = default.worker_pids()
    os.kill(worker, signal.SIGKILL)
    assert default.process.wait(300) == 0, "so that a unit needs Restart=always"
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{default.url}/health", timeout=60)


def wait_until_running(server: VllmServer) -> None:
    """Until the engine computes a request."""
    deadline = time.monotonic() + 120
    while not ask_metrics(HOST, server.url).running:
        assert time.monotonic() < deadline
        time.sleep(0.02)
