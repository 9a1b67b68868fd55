"""Jobs that must start at the same moment, each in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from llmops.host import StreamTimings


def run_together(jobs: tuple[Callable[[], StreamTimings], ...]) -> tuple[StreamTimings, ...]:
    """Results in the order of the jobs; the first failure is raised once all have ended.

    The threads are daemons: an interrupted llmops must not wait for an engine that no longer answers.
    """
    # Imported before the start, or the first thread would pay for it and the others would wait for its import lock.
    from llmops.host.local import http

    http.prepare()
    results: list[StreamTimings | None] = [None] * len(jobs)
    failures: list[BaseException] = []
    gate = threading.Barrier(len(jobs)) if jobs else None

    def work(position: int) -> None:
        try:
            if gate is not None:
                gate.wait()
            results[position] = jobs[position]()
        except BaseException as failure:  # noqa: BLE001 - raised again in the thread that asked
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(position,), daemon=True) for position in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return tuple(result for result in results if result is not None)
