"""Timing real reads of small buffers."""

from __future__ import annotations

import threading

import pytest

from llmops.host.local import memory_read
from llmops.host.local.memory_read import memory_read_seconds


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_pass_takes_time_and_no_thread_is_left(threads: int) -> None:
    before = threading.active_count()
    seconds = memory_read_seconds(8 * 1024 * 1024, threads, 3)
    assert len(seconds) == 3
    assert all(0 < one < 5 for one in seconds)
    assert threading.active_count() == before


def test_a_buffer_smaller_than_its_threads_still_works() -> None:
    assert len(memory_read_seconds(1, 3, 1)) == 1


def test_too_slow_writing_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_read, "WRITING_SECONDS", -1.0)
    with pytest.raises(TimeoutError, match=r"only 0 of 8388608 bytes could be written"):
        memory_read_seconds(8 * 1024 * 1024, 2, 3)


def test_no_further_pass_starts_when_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_read, "NO_PASS_STARTS_AFTER_SECONDS", 0.0)
    assert len(memory_read_seconds(8 * 1024 * 1024, 2, 50)) == 1


def test_threads_that_cannot_start_let_the_others_go(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start
    started: list[threading.Thread] = []

    def limited(thread: threading.Thread) -> None:
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    with pytest.raises(OSError, match="cannot start 4 threads"):
        memory_read_seconds(4 * 1024 * 1024, 4, 1)
    assert not any(thread.is_alive() for thread in started)
