"""A llama-server in memory that really runs requests: slots serve side by side, the rest waits; time is simulated."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from llmops.engines import engine_named
from llmops.engines.found import Installation
from llmops.host import ChildProcess, Completed, ListeningSocket, Lock, Response, StreamTimings
from tests.unit.engines.llama_host import MODEL, LookedAt, installed, process, props

ENGINE = engine_named("llama-server")
QUIET = "pswpin 10\npswpout 20\npgpgin 4000\npgmajfault 5\n"
TOKEN_SECONDS, PREFILL_SECONDS = 0.05, 0.5


def stream(started: float, waited: float, tokens: int, *, error: str | None = None) -> StreamTimings:
    """One completion of a server that generates a token every 50 ms once a slot has taken the request."""
    events = []
    for number in range(tokens):
        text = {"choices": [{"delta": {"content": "word"}, "finish_reason": None}]}
        events.append((waited + PREFILL_SECONDS + number * TOKEN_SECONDS, json.dumps(text)))
    last = {
        "choices": [{"delta": {}, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 200, "completion_tokens": tokens},
        "timings": {"cache_n": 0, "prompt_ms": PREFILL_SECONDS * 1000, "predicted_per_second": 1 / TOKEN_SECONDS},
    }
    ended = waited + PREFILL_SECONDS + tokens * TOKEN_SECONDS
    if error is not None:
        return StreamTimings(started, 500, waited, (), ended, error)
    return StreamTimings(started, 200, waited, (*events, (ended, json.dumps(last))), ended)


@dataclass
class Child:
    """A child process of a trial: `code` None runs until it is stopped."""

    machine: Answering
    pid: int = 77
    code: int | None = None
    text: str = ""
    stopped: bool = False

    def exit_code(self) -> int | None:
        return self.code

    def output(self) -> str:
        return self.text

    def stop(self, *, grace_seconds: float) -> int:
        self.stopped = True
        self.machine.running = ()
        return self.code or 0


@dataclass
class Answering(LookedAt):
    """A MutableHost for trials.

    `vmstat` are the kernel's counters at each reading, the last one repeated, as are other `texts`. `side_by_side` is
    how many requests really run at once; `starts` makes the child of each spawn from its command line.
    """

    side_by_side: int = 5
    error: str | None = None
    vmstat: list[str] = field(default_factory=lambda: [QUIET])
    texts: dict[str, list[str]] = field(default_factory=dict)
    spawned: list[Child] = field(default_factory=list)
    starts: Callable[[Answering, tuple[str, ...]], Child] = lambda machine, words: machine.serve(words)
    requests: int = 0

    def serve(self, words: tuple[str, ...]) -> Child:
        """A child that comes up and answers as its command line says."""
        value = dict(pairwise(words))
        port, slots = int(value["--port"]), int(value["--parallel"])
        context = int(value["--ctx-size"]) // slots
        url = f"http://127.0.0.1:{port}"
        self.running = (process(77, *words),)
        self.listeners = (*self.listeners, ListeningSocket("127.0.0.1", port, 77))
        self.files["/proc/77/status"] = "VmRSS:\t 600000 kB\nRssAnon:\t 300000 kB\n"
        self.answers |= {
            f"{url}/health": Response(200, '{"status":"ok"}'),
            f"{url}/props": Response(200, json.dumps(props(slots, context))),
            f"{url}/slots": Response(200, json.dumps([{"n_ctx": context, "is_processing": False}] * slots)),
        }
        return Child(self)

    def read_text(self, path: object) -> str:
        changing = self.vmstat if str(path) == "/proc/vmstat" else self.texts.get(str(path))
        if changing:
            return changing.pop(0) if len(changing) > 1 else changing[0]
        return super().read_text(str(path))

    def spawn(self, argv: Sequence[str], environment: Mapping[str, str]) -> ChildProcess:
        child = self.starts(self, tuple(argv))
        self.spawned.append(child)
        return child

    def stream_completion(
        self, url: str, payload: Mapping[str, object], *, timeout_seconds: float = 300.0
    ) -> StreamTimings:
        tokens = payload["max_tokens"]
        assert isinstance(tokens, int)
        self.requests += 1
        found = stream(self.seconds, 0.01, tokens, error=self.error)
        self.seconds += found.ended_seconds
        return found

    def together(self, jobs: Sequence[Callable[[], StreamTimings]]) -> tuple[StreamTimings, ...]:
        started = self.seconds
        found: list[StreamTimings] = []
        for number, job in enumerate(jobs):
            alone = job()
            tokens = max(0, len(alone.events) - 1)
            waited = 0.01 if number < self.side_by_side else found[-1].ended_seconds
            found.append(stream(started, waited, tokens, error=self.error))
        return tuple(found)

    def affinity_cpus(self) -> int | None:
        return 4

    def read_bytes(self, path: object, offset: int, length: int) -> bytes:
        raise FileNotFoundError(str(path))

    # what a trial must never ask for

    def write_text(self, path: object, text: str, *, mode: int, uid: int | None = None, gid: int | None = None) -> None:
        raise AssertionError(path)

    def remove(self, path: object) -> None:
        raise AssertionError(path)

    def remove_directory_if_empty(self, path: object) -> None:
        raise AssertionError(path)

    def execute(self, argv: Sequence[str], *, timeout_seconds: float = 120.0) -> Completed:
        raise AssertionError(argv)

    def lock(self, path: object) -> Lock:
        raise AssertionError(path)


def on_disk() -> Installation:
    """A program that only lies on the disk."""
    return installed()


def started(machine: Answering, plan_words: tuple[str, ...]) -> Installation:
    """The same program, running by itself with these words."""
    machine.serve(plan_words)
    return installed(managed_by="process", pid=77)


__all__ = ["ENGINE", "MODEL", "QUIET", "Answering", "Child", "on_disk", "started", "stream"]
