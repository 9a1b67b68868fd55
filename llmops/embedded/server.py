"""From settings to a running server: xllamacpp's parameters, the start, and the stop on a signal."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from llmops.embedded.options import DEFAULT_PORT
from llmops.embedded.values import EnumMember, Value

# llama.cpp reads the least context as unsigned: -1 forbids to shrink it, as an explicit `-c 0` does in arg.cpp.
KEEP_TRAINED_CONTEXT = -1
# The C++ destructor waits for a loop that the constructor has only just begun: stopped in the same instant, the loop
# misses the request and never ends.
SETTLE_SECONDS = 1.0
# A live stream ends at its next ping, at most 30 s later; what has not ended then never will.
STOP_LIMIT_SECONDS = 45
SET_JSON_LOG = "_Z20common_log_set_jsonlb"  # void common_log_set_jsonl(bool), for which xllamacpp has no binding


class CannotServe(Exception):
    """The server could not be started; its own log says why."""


def parameters(library: ModuleType, settings: Mapping[str, Value], environment: Mapping[str, str]) -> Any:
    """A CommonParams with llama-server's defaults and the given settings."""
    result = library.CommonParams()
    result.port = DEFAULT_PORT
    result.n_parallel = -1
    if key := environment.get("LLAMA_API_KEY"):
        result.api_keys = key.split(",")
    if settings.get("n_ctx") == 0:
        result.fit_params_min_ctx = KEEP_TRAINED_CONTEXT
    for attribute, value in settings.items():
        if not attribute.startswith("@"):
            _set(library, result, attribute, value)
    _set_special(result, settings)
    return result


def _set(library: ModuleType, target: Any, attribute: str, value: Value) -> None:
    *path, last = attribute.split(".")
    for name in path:
        target = getattr(target, name)
    if isinstance(value, EnumMember):
        setattr(target, last, getattr(getattr(library, value.enumeration), value.member))
    else:
        setattr(target, last, list(value) if isinstance(value, tuple) else value)


def _set_special(result: Any, settings: Mapping[str, Value]) -> None:
    alias, host = settings.get("@alias"), settings.get("@host")
    if isinstance(alias, tuple):
        result.model_alias = set(alias)
    if isinstance(host, tuple):
        result.hostnames = list(host)
    result.no_extra_bufts = settings.get("@repack") is False
    if "cpuparams_batch.n_threads" not in settings:
        result.cpuparams_batch.n_threads = result.cpuparams.n_threads


def log_as_json(library: ModuleType) -> None:
    """One JSON object per log line; raise CannotServe where this build of the library cannot."""
    try:
        switch = getattr(ctypes.CDLL(library.xllamacpp.__file__), SET_JSON_LOG)
    except AttributeError:
        raise CannotServe("this xllamacpp cannot log JSON: leave out --log-jsonl") from None
    switch(ctypes.c_bool(1))


def serve(library: ModuleType, settings: Mapping[str, Value], environment: Mapping[str, str]) -> None:
    """Serve until SIGTERM or SIGINT; raise CannotServe where the start failed. Before it is ready a signal ends it."""
    if settings.get("@log_jsonl"):
        log_as_json(library)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        server = library.Server(parameters(library, settings, environment))
    except RuntimeError as error:
        raise CannotServe(str(error)) from error
    started = time.monotonic()
    wait_for_signal()
    time.sleep(max(0.0, started + SETTLE_SECONDS - time.monotonic()))
    signal.alarm(STOP_LIMIT_SECONDS)
    del server  # the only way to stop it: the C++ destructor ends the loop and the listener


def wait_for_signal() -> None:
    """Return at the first SIGTERM or SIGINT; the next one ends the process at once, as in llama-server."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)  # a signal may reach one of the library's threads, which wakes no Python call here
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    os.read(reader, 1)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
