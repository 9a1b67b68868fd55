"""A machine in memory whose unit is a llama-server that obeys its arguments and answers as the real one does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from llmops.core.plan import Fixed, Plan
from llmops.core.sizing import size
from llmops.engines.found import Installation
from llmops.engines.llama_server import LlamaServer
from llmops.engines.llama_server.arguments import read_arguments, value_of
from llmops.engines.llama_server.options import CONTEXT, SLOTS
from llmops.host import Completed, ListeningSocket, ProcessInfo, Response
from tests.unit.core.example_models import GIB, cpu_host, problem
from tests.unit.fake_machine import UNIT_DIRECTORY, FakeFile, FakeMachine

UNIT = "llama-server.service"
FRAGMENT = f"{UNIT_DIRECTORY}/{UNIT}"
DROP_IN = f"{FRAGMENT}.d/zz-llmops.conf"
MODEL = "/srv/models/qwen3-8b-f16.gguf"
PROGRAM = "/usr/bin/llama-server"
ENGINE = LlamaServer()
INTERPRETER = "/usr/bin/python3"


@dataclass
class ServingMachine(FakeMachine):
    """`busy` are numbers of requests in flight, one for each time that somebody asks; then nobody is served."""

    busy: list[int] = field(default_factory=list)
    stays_busy: bool = False

    def environment(self) -> Mapping[str, str]:
        return {"HOME": "/root"}

    def processes(self) -> tuple[ProcessInfo, ...]:
        return tuple(
            ProcessInfo(100, 1, PROGRAM, words, (), 0, f"/system.slice/{unit}") for unit, words in self.running.items()
        )

    def listening_sockets(self) -> tuple[ListeningSocket, ...]:
        return tuple(ListeningSocket("127.0.0.1", 8080, 100) for _ in self.running)

    def get(self, url: str, *, timeout_seconds: float = 5.0) -> Response:
        if not self.running:
            raise ConnectionRefusedError(url)
        words = next(iter(self.running.values()))
        arguments = read_arguments(words[1:])
        slots = int(value_of(arguments, SLOTS) or 4)
        context = int(value_of(arguments, CONTEXT) or 4096) // slots
        if url.endswith("/health"):
            return Response(200, '{"status": "ok"}')
        if url.endswith("/props"):
            settings = {"n_ctx": context}
            return Response(200, json.dumps({"total_slots": slots, "default_generation_settings": settings}))
        assert url.endswith("/slots")
        busy = self.busy[0] if self.stays_busy else (self.busy.pop(0) if self.busy else 0)
        return Response(200, json.dumps([{"n_ctx": context, "is_processing": place < busy} for place in range(slots)]))

    def query(self, argv: object, *, timeout_seconds: float = 20.0) -> Completed:
        assert isinstance(argv, (tuple, list))
        return super().query(argv, timeout_seconds=timeout_seconds)


def machine(command: str = f"{PROGRAM} --model {MODEL} --port 8080", **drop_ins: str) -> ServingMachine:
    """A unit that runs; drop-ins by name, dots written as double underscores."""
    host = ServingMachine(files={FRAGMENT: FakeFile(f"[Service]\nExecStart={command}\n")})
    host.files[INTERPRETER] = host.files[PROGRAM] = FakeFile("", 0o755)
    host.files[MODEL] = FakeFile("GGUF")
    for name, text in drop_ins.items():
        host.files[f"{FRAGMENT}.d/{name}.conf"] = FakeFile(text)
        host.directories.add(f"{FRAGMENT}.d")
    host.reload()
    host.start(UNIT)
    return host


def installation(**changes: object) -> Installation:
    """The unit's llama-server, with the flags of a current build."""
    found = Installation("llama-server", "unit", (PROGRAM,), None, "b11434", None, unit=UNIT)
    return replace(found, **changes)  # type: ignore[arg-type]


def a_plan(slots: int = 5) -> Plan:
    """Five slots of 8,192 tokens on a host with plenty of memory."""
    made = size(problem(cpu_host(128 * GIB, cores=16), fixed=Fixed(slots=slots, context_tokens=8192)))
    return replace(made, model=replace(made.model, reference=MODEL, source_paths=(MODEL,)))
