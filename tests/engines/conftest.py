"""Real engines for the tests: the model, the llama-server binary, the embedded server, and how one is started."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.engines.http_calls import a_free_port, is_ready

REPOSITORY = Path(__file__).resolve().parents[2]
READY_SECONDS = 300.0
STOP_SECONDS = 60.0  # llama-server ends a live stream only at its next ping, every 30 s

# Threads that spin at OpenMP's barriers starve each other on busy cores: 60 tokens took 20 to 36 s instead of 3 to 5.
SHARED_CORES = {"OMP_WAIT_POLICY": "passive"}

RunningServer = Callable[..., AbstractContextManager[str]]


def absent(what: str) -> None:
    """Skip where a person runs the tests by hand; fail where every layer must run."""
    message = f"{what} is not here: `make test` gets it"
    if os.environ.get("LLMOPS_REQUIRE_LAYERS"):
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def model_path() -> str:
    """The small real model."""
    named = os.environ.get("LLMOPS_TEST_MODEL")
    candidates = [Path(named)] if named else sorted((REPOSITORY / ".cache" / "models").glob("*.gguf"))
    for candidate in candidates:
        if candidate.is_file():
            return str(candidate)
    absent("the test model")
    raise AssertionError


@pytest.fixture(scope="session")
def llama_server() -> tuple[str, ...]:
    """The words that start the real binary."""
    named = os.environ.get("LLMOPS_TEST_LLAMA_SERVER")
    candidate = Path(named) if named else REPOSITORY / ".cache" / "llama.cpp" / "bin" / "llama-server"
    if not candidate.is_file():
        absent("the llama-server binary")
    return (str(candidate),)


@pytest.fixture(scope="session")
def embedded_server() -> tuple[str, ...]:
    """The words that start the embedded server."""
    if importlib.util.find_spec("xllamacpp") is None:
        absent("xllamacpp")
    return (sys.executable, "-m", "llmops.embedded")


@pytest.fixture(scope="session", params=["binary", "embedded"])
def server_command(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Each of the two servers in turn: what holds for one must hold for the other."""
    name = {"binary": "llama_server", "embedded": "embedded_server"}[request.param]
    command: tuple[str, ...] = request.getfixturevalue(name)
    return command


@pytest.fixture
def free_port() -> int:
    """A loopback port that nobody listens on."""
    return a_free_port()


def wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return once the server is ready; fail with its own words when it ended or is late."""
    deadline = time.monotonic() + READY_SECONDS
    while not is_ready(url):
        code = process.poll()
        if code is not None or time.monotonic() > deadline:
            why = f"ended with {code}" if code is not None else f"was not ready in {READY_SECONDS:.0f} s"
            pytest.fail(f"{process.args!r} {why}:\n{log.read_text(errors='replace')[-4000:]}")
        time.sleep(0.05)


def stop(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, and SIGKILL to what does not end."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def server(command: tuple[str, ...], *arguments: str) -> Iterator[str]:
    """Start on a free loopback port, yield the URL once ready, stop at the end. Give no --host and no --port."""
    port = a_free_port()
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "server.log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [*command, *arguments, "--host", "127.0.0.1", "--port", str(port)],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env={**SHARED_CORES, **os.environ},
            )
        try:
            wait_until_ready(url, process, log)
            yield url
        finally:
            stop(process)


@pytest.fixture(scope="session")
def running_server() -> RunningServer:
    """`with running_server(command, "-m", model, "-np", "2") as url:` starts a server and stops it."""
    return server
