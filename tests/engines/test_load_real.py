"""The two-request test against real servers: one slot must be told from two, and a queue from shared speed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from llmops.host.local import LocalHost
from llmops.load import Overlap, stream_one, swap_counters, swap_traffic, two_requests, users_closed_loop

pytestmark = pytest.mark.engines

RunningServer = Callable[..., AbstractContextManager[str]]
HOST = LocalHost()
# One thread each: the machine may be busy, and threads that wait for each other on busy cores crawl.
COMMON = ("-t", "1", "-tb", "1", "-c", "2048")


@pytest.mark.parametrize(("slots", "verdict"), [(1, Overlap.SERIAL), (2, Overlap.OVERLAPPED)])
def test_slots_are_seen_from_outside(
    slots: int, verdict: Overlap, running_server: RunningServer, server_command: tuple[str, ...], model_path: str
) -> None:
    with running_server(server_command, "-m", model_path, "-np", str(slots), *COMMON) as url:
        before = swap_counters(HOST)
        found = two_requests(HOST, url, prompt_tokens=60, reply_tokens=48)
        traffic = swap_traffic(before, swap_counters(HOST))
    assert found.verdict is verdict, found.reason
    for request in (found.alone, found.first, found.second):
        assert request.error is None
        assert request.reply_tokens == 48
        assert len(request.token_seconds) >= 40, "an event may hold more than one token, but rarely"
        assert request.cached_tokens is not None
        assert request.cached_tokens < 40, "random beginnings must not be answered from a cache"
        assert request.prefill_seconds is not None
    # What the engine says of its speed is what arrives; a busy machine may hand over one reply late, not all three.
    assert any(
        request.decode_tokens_per_second == pytest.approx(request.tokens_per_second, rel=0.5)
        for request in (found.alone, found.first, found.second)
    )
    assert found.first.prompt_tokens is not None
    assert found.second.prompt_tokens == pytest.approx(found.first.prompt_tokens, abs=3), "lengths must be equal"
    assert found.second.headers_seconds is not None
    taken_at, generating = found.second.started_seconds + found.second.headers_seconds, found.first.generation
    assert generating is not None
    if verdict is Overlap.SERIAL:
        # llama-server sends headers when a slot takes the request: the queue is seen apart from the prefill.
        assert taken_at >= generating[0] + 0.8 * (generating[1] - generating[0])
    else:
        assert taken_at < generating[1]
        assert found.slowdown is not None
        assert found.slowdown > 0.5, "one thread does not serve two at twice the speed"
    assert traffic.seconds > 0


def test_refusals_and_users(running_server: RunningServer, llama_server: tuple[str, ...], model_path: str) -> None:
    with running_server(llama_server, "-m", model_path, "-np", "2", *COMMON) as url:
        too_long = stream_one(HOST, url, "word " * 3000, 8)
        assert too_long.status == 400
        assert too_long.error is not None
        assert "exceeds the available context size" in too_long.error
        found = users_closed_loop(HOST, url, users=3, requests=6, prompt_tokens=40, reply_tokens=12)
        assert (len(found.answered), len(found.failed), found.reply_tokens) == (6, 0, 72)
        assert found.wall_seconds < sum(one.ended_seconds for one in found.requests), "users must run side by side"
    assert stream_one(HOST, url, "hello", 4).error == "Connection refused"
