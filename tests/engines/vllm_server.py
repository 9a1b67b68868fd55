"""A real vLLM on a processor with a tiny model: started as a plan says, with its log and the end of all its workers."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.engines.http_calls import a_free_port, is_ready

REPOSITORY = Path(__file__).resolve().parents[2]
# 26 to 78 s on two quiet cores, most of it imports.
READY_SECONDS = 600.0
STOP_SECONDS = 60.0
WORKER = "VLLM::Worker"
NAME = "tiny"
# Offline, no reports to anybody, and threads that sleep while they wait: the machine may be shared.
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "OMP_WAIT_POLICY": "passive",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}


class NotStarted(Exception):
    """The server ended or was late; the text ends with its last words."""


@dataclass(frozen=True)
class VllmServer:
    """A server that answers /health."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path
    started_seconds: float

    def worker_pids(self) -> list[int]:
        """The processes that compute: vLLM renames them."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                if os.getpgid(int(entry.name)) == self.process.pid and WORKER in (entry / "cmdline").read_text():
                    found.append(int(entry.name))
        return found


@contextlib.contextmanager
def serving(python: Path, model: Path, flags: Sequence[str], log: Path) -> Iterator[VllmServer]:
    """Start it on a free port and wait for it; every process of it is ended afterwards. Raise NotStarted."""
    port = a_free_port()
    command = [
        str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), *flags, "--enforce-eager",
        "--served-model-name", NAME, "--host", "127.0.0.1", "--port", str(port),
    ]  # fmt: skip
    url, began = f"http://127.0.0.1:{port}", time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True, env=os.environ | ENVIRONMENT
        )
    try:
        _wait_until_ready(url, process, log)
        yield VllmServer(url, process, log, time.monotonic() - began)
    finally:
        end(process)


def _wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not is_ready(url):
        code = process.poll()
        if code is not None or time.monotonic() > deadline:
            why = f"ended with {code}" if code is not None else f"was not ready in {READY_SECONDS:.0f} s"
            raise NotStarted(f"vLLM {why}:\n{log.read_text(errors='replace')[-4000:]}")
        time.sleep(0.2)


def end(process: subprocess.Popen[bytes]) -> None:
    """End the server and what it started; a worker may outlive it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=STOP_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def planned_flags(model: Path, *options: str) -> tuple[str, ...]:
    """What `llmops plan` says to start this model with on a processor, without the model itself."""
    words = [
        sys.executable, "-m", "llmops", "plan", "--output", "json", "--engine", "vllm", "--engine-version", "0.32.0",
        "--no-gpu", "--model", str(model), *options,
    ]  # fmt: skip
    answer = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    document = json.loads(answer.stdout)
    assert document["exit_code"] == 0, document["errors"]
    arguments: list[str] = document["data"]["plan"]["arguments"]
    return tuple(arguments[1:])


def without(flags: Sequence[str], name: str) -> tuple[str, ...]:
    """The flags without one of them and its value, so that the engine's own choice holds."""
    place = flags.index(name)
    return (*flags[:place], *flags[place + 2 :])


def value_of(flags: Sequence[str], name: str) -> int:
    """The number after a flag."""
    return int(flags[flags.index(name) + 1])
