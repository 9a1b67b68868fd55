"""Checks of slots and of the two queues: that before a slot has no bound, that before a load has one."""

from __future__ import annotations

import json
import socket
import time
from itertools import pairwise

from .client import Answer, Server, results, together
from .registry import check, expect, need, timed_check

BUSY = "server busy, please try again.  maximum pending requests exceeded"
TOKENS = 40


def _slots(server: Server) -> int:
    need(server.parallel, "give --parallel")
    server.load()
    return server.parallel or 1


def _busy(server: Server, answers: list[Answer]) -> float:
    return min(answer.duration("prompt_eval") + answer.duration("eval") for answer in answers)


@timed_check
def as_many_requests_as_slots_run_at_once(server: Server) -> None:
    """OLLAMA_NUM_PARALLEL requests at once: none of them waits."""
    count = _slots(server)
    with together(count) as pool:
        answers = results([pool.submit(server.write, TOKENS) for _ in range(count)])
    waited = [answer.queued_seconds for answer in answers]
    expect(max(waited) < 0.5 * _busy(server, answers), [f"{seconds:.2f} s" for seconds in waited])


@timed_check
def waiting_for_a_slot_is_in_no_part_of_the_durations(server: Server) -> None:
    """One request more than slots waits; the wait is total - load - prompt_eval - eval, and no header comes before."""
    count = _slots(server)
    with together(count + 1) as pool:
        first = [pool.submit(server.write, TOKENS) for _ in range(count)]
        time.sleep(0.3)
        late = pool.submit(server.write, 4).result()
        answers = results(first)
    least = min(answer.seconds for answer in answers) - 0.3
    need(least > 0.3, "replies are too quick to measure a wait")
    expect(late.queued_seconds > 0.5 * least, f"{late.queued_seconds:.2f} s queued, slots busy for {least:.2f} s more")
    expect(late.duration("load") < 0.5 * least, f"load_duration {late.duration('load'):.2f} s")
    expect(late.headers_seconds > 0.5 * least, f"headers after {late.headers_seconds:.2f} s")


@timed_check
def slots_are_given_in_order(server: Server) -> None:
    """Requests that wait for a slot get it in the order of arrival."""
    count = _slots(server)
    with together(count + 3) as pool:
        jobs = [pool.submit(server.write, TOKENS) for _ in range(count)]
        for _ in range(3):
            time.sleep(0.15)
            jobs.append(pool.submit(server.write, TOKENS // 2))
        starts = [answer.headers_at for answer in results(jobs)][count:]
    expect(all(later > earlier - 0.25 for earlier, later in pairwise(starts)), starts)


@check
def loaded_model_refuses_nobody(server: Server) -> None:
    """OLLAMA_MAX_QUEUE does not bound requests for a loaded model: all of more than slots + queue are served."""
    need(server.queue is not None and server.queue <= 16, "give --queue of at most 16")
    count = _slots(server) + (server.queue or 0) + 4
    with together(count) as pool:
        statuses = [answer.status for answer in results([pool.submit(server.write, 2) for _ in range(count)])]
    expect(statuses == [200] * count, statuses)


@timed_check
def loading_refuses_above_the_queue(server: Server) -> None:
    """While a model loads, OLLAMA_MAX_QUEUE requests wait and others get 503 at once with the known text."""
    need(server.queue is not None and server.queue <= 16, "give --queue of at most 16")
    server.unload()
    count = (server.queue or 0) + 8
    with together(count) as pool:
        answers = results([pool.submit(server.write, 2) for _ in range(count)])
    refused = [answer for answer in answers if answer.status != 200]
    expect(refused, "all were served")
    expect(all((answer.status, answer.document) == (503, {"error": BUSY}) for answer in refused), refused[0].text)
    served = [answer for answer in answers if answer.status == 200]
    expect(len(served) >= (server.queue or 0) + 1, f"{len(served)} served")
    expect(max(answer.seconds for answer in refused) < max(answer.seconds for answer in served), "refused late")


@timed_check
def waiting_for_a_load_is_in_load_duration(server: Server) -> None:
    """A request that waits while another one loads the model has the wait in its load_duration."""
    server.unload()
    with together(2) as pool:
        first = pool.submit(server.write, 2)
        time.sleep(0.2)
        second = pool.submit(server.write, 2).result()
    load = first.result().duration("load")
    need(load > 1, "the model loads too quickly to measure it")
    expect(second.duration("load") > 0.5 * (load - 0.2), f"{second.duration('load'):.2f} s of {load:.2f} s")


@timed_check
def client_that_leaves_frees_its_place(server: Server) -> None:
    """A client that leaves the queue is not served: the next one starts as soon as a slot is free."""
    count = _slots(server)
    with together(count + 1) as pool:
        began = time.monotonic()
        first = [pool.submit(server.write, TOKENS) for _ in range(count)]
        time.sleep(0.2)
        _ask_and_leave(server, server.request(2000))
        last = pool.submit(server.write, 2).result()
        answers = results(first)
    ended = max(answer.headers_at - answer.headers_seconds + answer.seconds for answer in answers)
    expect(last.status == 200, last.text)
    # The one that left had asked for fifty times as much as those before it.
    soon = max(3.0, *(answer.seconds for answer in answers))
    expect(last.headers_at - ended < soon, f"{last.headers_at - began:.1f} s, slots were free at {ended - began:.1f} s")


def _ask_and_leave(server: Server, body: dict[str, object]) -> None:
    connection = server.connection()
    connection.request("POST", "/api/generate", json.dumps(body), {"Content-Type": "application/json"})
    time.sleep(0.3)
    connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()
