"""A machine with an Ollama, described by hand: its unit, processes, routes and a store in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from llmops.core.plan import Fixed, Plan, Policy
from llmops.core.problem import Problem
from llmops.core.sizing import size
from llmops.core.throughput import predict_rates
from llmops.core.version import Version
from llmops.engines import engine_named
from llmops.engines.found import Installation
from llmops.host import ListeningSocket, ProcessInfo, Response, StreamTimings
from tests.unit.core.example_models import CHAT, GIB, cpu_host, eight_billion_16_bit
from tests.unit.engines.llama_host import LookedAt

ENGINE = engine_named("ollama")
UNIT = "ollama.service"
DROP_IN = f"/etc/systemd/system/{UNIT}.d/zz-llmops.conf"
STORE = "/usr/share/ollama/.ollama/models"
BLOB = f"{STORE}/blobs/sha256-{'a' * 64}"
URL = "http://127.0.0.1:11434"
FRAGMENT = (
    "[Unit]\nDescription=Ollama Service\n\n[Service]\nExecStart=/usr/local/bin/ollama serve\nUser=ollama\n"
    'Environment="PATH=/usr/local/bin:/usr/bin"\n'
)
NEW, OLD = "0.32.15", "0.24.0"


@dataclass
class OllamaHost(LookedAt):
    """A Host; `posts` answers POST by URL, each with the payload."""

    posts: dict[str, Callable[[Mapping[str, object]], Response]] = field(default_factory=dict)
    journal: str = ""

    def post(self, url: str, payload: Mapping[str, object], *, timeout_seconds: float = 300.0) -> Response:
        if url not in self.posts:
            raise ConnectionError(f"{url}: refused")
        return self.posts[url](payload)

    def together(self, jobs: Sequence[Callable[[], StreamTimings]]) -> tuple[StreamTimings, ...]:
        return tuple(job() for job in jobs)

    def read_bytes(self, path: PurePosixPath | str, offset: int, length: int) -> bytes:
        return self.read_text(path).encode()[offset : offset + length]

    def query(self, argv: Sequence[str], *, timeout_seconds: float = 20.0) -> Any:
        if argv[0] == "journalctl":
            self.says(tuple(argv), self.journal)
        return super().query(argv)

    def named(self, *paths: str) -> None:
        """The unit files that the search for Ollama finds."""
        argv = (
            "grep", "-RlsE", "--include=*.service", "--include=*.conf", "ollama", "/etc/systemd/system",
            "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system",
        )  # fmt: skip
        self.says(argv, "".join(f"{path}\n" for path in paths), exit_code=0 if paths else 1)


def a_host(version: str = NEW, *, environment: Mapping[str, str] | None = None, pid: int = 50) -> OllamaHost:
    """The official unit, running, with nothing loaded."""
    host = OllamaHost()
    host.unit(UNIT, FRAGMENT, main_pid=pid)
    host.named(f"/etc/systemd/system/{UNIT}")
    host.files["/usr/local/bin/ollama"] = ""
    host.running = (server(pid, environment or {"HOME": "/usr/share/ollama"}),)
    host.listeners = (ListeningSocket("127.0.0.1", 11434, pid),)
    host.files[f"/proc/{pid}/status"] = "VmRSS:\t 60000 kB\nRssAnon:\t 30000 kB\n"
    host.answers[f"{URL}/api/version"] = Response(200, json.dumps({"version": version}))
    host.answers[f"{URL}/api/ps"] = Response(200, '{"models":[]}')
    return host


def server(pid: int, environment: Mapping[str, str], *, group: str = f"/system.slice/{UNIT}") -> ProcessInfo:
    """`ollama serve`."""
    words = ("/usr/local/bin/ollama", "serve")
    return ProcessInfo(pid, 1, words[0], words, tuple(environment.items()), 999, group)


def child(pid: int, *words: str, parent: int = 50) -> ProcessInfo:
    """A process below the server."""
    return ProcessInfo(pid, parent, words[0], words, (), 999, f"/system.slice/{UNIT}")


def load(host: OllamaHost, *, slots: int = 2, context: int = 8192, name: str = "qwen3:8b", gpu: float = 0.0) -> None:
    """A model in memory, as 0.30 and later serve it."""
    whole = ("/usr/local/lib/ollama/llama-server", "--model", BLOB, "--port", "41000", "--host", "127.0.0.1")
    words = (*whole, "-c", str(slots * context), "-np", str(slots))
    host.running = (*host.running, child(60, *words))
    host.files["/proc/60/status"] = "VmRSS:\t 900000 kB\nRssAnon:\t 800000 kB\n"
    row = {"name": name, "size": 1000 * GIB // 100, "size_vram": int(gpu * 10 * GIB), "context_length": context}
    host.answers[f"{URL}/api/ps"] = Response(200, json.dumps({"models": [row]}))
    slots_answer = [{"id": number, "is_processing": number == 0} for number in range(slots)]
    host.answers["http://127.0.0.1:41000/slots"] = Response(200, json.dumps(slots_answer))


def installed(version: str | None = NEW, **changes: object) -> Installation:
    """The official unit."""
    known = Version.parse(version) if version else None
    found = Installation("ollama", "unit", ("/usr/local/bin/ollama",), known, version, None, unit=UNIT, pid=50)
    return replace(found, **changes)  # type: ignore[arg-type]


def a_plan(version: str | None = NEW, *, fixed: Fixed | None = None, memory: int = 64 * GIB, **changes: object) -> Plan:
    """Two slots of 8,192 tokens of an 8B model on a processor."""
    parsed = Version.parse(version) if version else None
    model = replace(eight_billion_16_bit(), reference="qwen3:8b", source_paths=(BLOB,))
    hardware = cpu_host(memory, cores=16)
    problem = Problem(
        engine="ollama",
        engine_version=version,
        hardware=hardware,
        model=model,
        workload=CHAT,
        policy=Policy(),
        fixed=fixed or Fixed(slots=2, context_tokens=8192),
        rates=predict_rates(hardware, model, CHAT, on_gpu=False),
        memory=ENGINE.memory_model(hardware, model, parsed),
        on_gpu=False,
        most_slots=ENGINE.most_slots_of(model, parsed),
        shaped=lambda shape: ENGINE.shaped(shape, model, parsed),
    )
    return replace(size(problem), **changes)  # type: ignore[arg-type]
