"""One loaded model: its process, what its log says about memory, and its slots."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from . import log
from .gate import ClientGone, Gate
from .launch import child_launch, runner_launch
from .options import Options
from .settings import FOREVER_NANOSECONDS, SECOND, Settings
from .store import Model

_BUFFER = re.compile(r"(\S+)\s+(?:model|KV|compute|output|RS) buffer size\s*=\s*([\d.]+) MiB")
_STOP_SECONDS = 5.0
STOPPED = (
    "model runner has unexpectedly stopped, this may be due to resource limitations or an internal error, "
    "check ollama server logs for details"
)


class LoadError(Exception):
    """The model could not be loaded; the text is what Ollama answers."""


class ChildError(Exception):
    """The process answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Runner:
    """A model in memory; the scheduler owns `references`, `keep_alive`, `expires_at`, `expiring`, `timer`."""

    def __init__(self, settings: Settings, model: Model, options: Options, slots: int) -> None:
        self.settings, self.model, self.options, self.slots = settings, model, options, slots
        self.gate = Gate(slots)
        self.references = 0
        self.keep_alive = settings.keep_alive
        self.expires_at = 0.0
        self.expiring = False
        self.timer: threading.Timer | None = None
        self._host_bytes = self._gpu_bytes = 0.0
        self._heard = time.monotonic()
        self.port = free_port()
        launch = (child_launch if settings.traits.wraps_llama_server else runner_launch)(
            settings, model, options, slots, self.port
        )
        self.process = subprocess.Popen(
            launch.words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=launch.environment,
            text=True,
            errors="replace",
        )
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process.poll() is None

    @property
    def size(self) -> int:
        """Bytes in all memories, as the engine's log tells them."""
        return int(self._host_bytes + self._gpu_bytes)

    @property
    def size_vram(self) -> int:
        """Bytes on GPUs."""
        return int(self._gpu_bytes)

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._heard = time.monotonic()
            log.write(line)
            found = _BUFFER.search(line)
            if found:
                self._count(found.group(1), float(found.group(2)) * (1 << 20))

    def _count(self, backend: str, size: float) -> None:
        if backend in {"CPU", "BLAS"} or backend.startswith("CPU_") or backend.endswith("_Host"):
            self._host_bytes += size
        else:
            self._gpu_bytes += size

    def wait_until_ready(self) -> None:
        """Return once it serves; LoadError when it ends or says nothing for OLLAMA_LOAD_TIMEOUT."""
        name = "llama-server" if self.settings.traits.wraps_llama_server else "llama runner"
        began = self._heard = time.monotonic()
        while not self._healthy():
            if not self.alive:
                log.say("ERROR", "server.go:1", f"{name} terminated", error=f"exit status {self.process.returncode}")
                raise LoadError(f"{name} process has terminated: exit status {self.process.returncode}")
            silent = (time.monotonic() - self._heard) * SECOND
            if self.settings.load_timeout != FOREVER_NANOSECONDS and silent > self.settings.load_timeout:
                self.stop()
                raise LoadError(f"timed out waiting for {name} to start")
            time.sleep(0.02)
        log.say("INFO", "server.go:1388", f"{name} started in {time.monotonic() - began:.2f} seconds")

    def _healthy(self) -> bool:
        try:
            return self._request("GET", "/health", None)[0] == 200
        except OSError:
            return False

    def stop(self) -> None:
        """End the process."""
        self.process.terminate()
        try:
            self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _request(self, method: str, path: str, body: object) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(method, path, payload, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except http.client.HTTPException as error:
            raise ConnectionError(str(error)) from error
        finally:
            connection.close()

    def ask(self, path: str, body: object) -> Any:
        """The JSON that the process answers; ChildError when it refuses."""
        status, content = self._request("POST", path, body)
        if status != 200:
            raise ChildError(status, _message(content))
        return json.loads(content)

    @contextlib.contextmanager
    def stream(self, path: str, body: object, gone: Callable[[], bool]) -> Iterator[Iterator[dict[str, Any]]]:
        """The events of a streamed answer. ClientGone when the client leaves, also before the first of them."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        ended = threading.Event()
        try:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            threading.Thread(target=_watch, args=(connection.sock, gone, ended), daemon=True).start()
            answer = connection.getresponse()
            if answer.status != 200:
                raise ChildError(answer.status, _message(answer.read()))
            yield _events(answer)
        except (OSError, http.client.HTTPException) as error:
            if gone():
                raise ClientGone from error
            raise ChildError(500, STOPPED) from error
        finally:
            ended.set()
            connection.close()


def _watch(connection: socket.socket, gone: Callable[[], bool], ended: threading.Event) -> None:
    while not ended.wait(0.1):
        if gone():
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            return


def _events(answer: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    for line in answer:
        text = line.strip().removeprefix(b"data: ")
        if line.startswith(b"data: ") and text != b"[DONE]":
            yield json.loads(text)


def _message(content: bytes) -> str:
    try:
        return str(json.loads(content)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return content.decode(errors="replace")
