"""Which models are loaded: one load at a time, a bounded queue of those that wait for a load, unloading when idle.

OLLAMA_MAX_QUEUE bounds only that queue: a request for a model that is loaded goes past it, to the model's slots.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .gate import ClientGone
from .memory import refusal
from .options import Options, slots
from .runner import LoadError, Runner
from .settings import FOREVER_NANOSECONDS, SECOND, Settings
from .store import Model

BUSY = "server busy, please try again.  maximum pending requests exceeded"


class Busy(Exception):
    """Too many requests wait for a load."""


class _Pending:
    def __init__(self, model: Model, options: Options, keep_alive: int | None) -> None:
        self.model, self.options, self.keep_alive = model, options, keep_alive
        self.done = threading.Event()
        self.cancelled = False
        self.runner: Runner | None = None
        self.error: LoadError | None = None


class Scheduler:
    """Serves one request after the other where something must be loaded or unloaded first."""

    def __init__(self, settings: Settings, gpus: int = 0) -> None:
        self._settings = settings
        self._most = settings.most_loaded or 3 * max(gpus, 1)
        self._lock = threading.Condition()
        self._loaded: dict[Path, Runner] = {}
        self._pending: deque[_Pending] = deque()
        self._idle = True
        threading.Thread(target=self._work, daemon=True).start()

    def loaded(self) -> list[Runner]:
        """Every loaded model, that which stays longest first."""
        with self._lock:
            return sorted(self._loaded.values(), key=self.expires_at, reverse=True)

    @staticmethod
    def expires_at(runner: Runner) -> float:
        """Seconds since 1970; from now where it was never idle."""
        return runner.expires_at or time.time() + runner.keep_alive / SECOND

    @contextmanager
    def use(self, model: Model, options: Options, keep_alive: int | None, gone: Callable[[], bool]) -> Iterator[Runner]:
        """The loaded model, for as long as the request takes. Busy, LoadError or ClientGone where there is none."""
        runner = self._get(model, options, keep_alive, gone)
        try:
            yield runner
        finally:
            self._release(runner)

    def unload(self, model: Model) -> None:
        """Unload the model as soon as nobody uses it."""
        with self._lock:
            runner = self._loaded.get(model.weights)
            if runner is None:
                return
            runner.keep_alive, runner.expiring = 0, True
            idle = runner.references == 0
        if idle:
            self._drop(runner)

    def close(self) -> None:
        """End every process."""
        with self._lock:
            runners = list(self._loaded.values())
            self._loaded.clear()
        for runner in runners:
            runner.stop()

    def _get(self, model: Model, options: Options, keep_alive: int | None, gone: Callable[[], bool]) -> Runner:
        request = _Pending(model, options, keep_alive)
        with self._lock:
            runner = self._fitting(request) if self._settings.traits.loaded_model_bypasses_queue else None
            if runner is not None:
                return self._take(runner, request)
            room = self._settings.queue if self._settings.queue else int(self._idle)
            if len(self._pending) >= room:
                raise Busy(BUSY)
            self._pending.append(request)
            self._lock.notify_all()
        while not request.done.wait(0.1):
            if gone() and self._cancel(request):
                raise ClientGone
        if request.error is not None:
            raise request.error
        assert request.runner is not None
        return request.runner

    def _cancel(self, request: _Pending) -> bool:
        with self._lock:
            request.cancelled = not request.done.is_set()
            return request.cancelled

    def _fitting(self, request: _Pending) -> Runner | None:
        runner = self._loaded.get(request.model.weights)
        usable = runner is not None and runner.alive and not runner.expiring
        return runner if usable and runner and runner.options.loading == request.options.loading else None

    def _take(self, runner: Runner, request: _Pending) -> Runner:
        runner.references += 1
        if request.keep_alive is not None:
            runner.keep_alive = request.keep_alive
        return runner

    def _release(self, runner: Runner) -> None:
        with self._lock:
            runner.references -= 1
            if runner.references == 0:
                runner.expires_at = time.time() + runner.keep_alive / SECOND
                self._start_timer(runner)
            self._lock.notify_all()

    def _start_timer(self, runner: Runner) -> None:
        if runner.timer is not None:
            runner.timer.cancel()
        if runner.keep_alive == FOREVER_NANOSECONDS:
            return
        runner.timer = threading.Timer(runner.keep_alive / SECOND, self._expire, (runner, runner.expires_at))
        runner.timer.daemon = True
        runner.timer.start()

    def _expire(self, runner: Runner, deadline: float) -> None:
        with self._lock:
            if runner.references or runner.expires_at != deadline:
                return
            runner.expiring = True
        self._drop(runner)

    def _drop(self, runner: Runner) -> None:
        runner.stop()
        with self._lock:
            if self._loaded.get(runner.model.weights) is runner:
                del self._loaded[runner.model.weights]
            self._lock.notify_all()

    def _work(self) -> None:
        while True:
            with self._lock:
                self._idle = True
                self._lock.wait_for(lambda: self._pending)
                request = self._pending.popleft()
                self._idle = False
            if not request.cancelled:
                self._serve(request)

    def _serve(self, request: _Pending) -> None:
        try:
            runner = self._provide(request)
        except LoadError as error:
            request.error = error
            request.done.set()
            return
        with self._lock:
            if request.cancelled:
                self._take(runner, request)
            else:
                request.runner = self._take(runner, request)
                request.done.set()
                return
        self._release(runner)

    def _provide(self, request: _Pending) -> Runner:
        while True:
            with self._lock:
                runner = self._fitting(request)
                if runner is not None:
                    return runner
                victim = self._loaded.get(request.model.weights) or self._surplus()
                if victim is not None:
                    self._wait_until_idle(victim)
            if victim is None:
                return self._load(request)
            self._drop(victim)

    def _wait_until_idle(self, runner: Runner) -> None:
        runner.expiring = True
        self._lock.wait_for(lambda: runner.references == 0)

    def _surplus(self) -> Runner | None:
        if len(self._loaded) < self._most:
            return None
        order = sorted(
            self._loaded.values(),
            key=lambda runner: (runner.references > 0, runner.keep_alive, str(runner.model.weights)),
        )
        return order[0]

    def _load(self, request: _Pending) -> Runner:
        count = slots(self._settings, request.model)
        refused = refusal(self._settings, request.model, request.options, count)
        if refused:
            raise LoadError(refused)
        try:
            runner = Runner(self._settings, request.model, request.options, count)
        except OSError as error:
            raise LoadError(f"error starting llama-server: {error}") from error
        runner.wait_until_ready()
        with self._lock:
            self._loaded[request.model.weights] = runner
        return runner
