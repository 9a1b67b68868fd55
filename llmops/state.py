"""What llmops remembers between runs: rates it measured, and the plan it applied last. Small JSON files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from llmops.core.documents import plan_document, plan_from_document
from llmops.core.errors import UnreadableInput
from llmops.core.hardware import Hardware
from llmops.core.model import ModelSpec
from llmops.core.plan import MeasuredRates, Plan
from llmops.core.serialization import decode, encode
from llmops.host import Host, MutableHost

SCHEMA = 1
SYSTEM_DIRECTORY = PurePosixPath("/var/lib/llmops")
RATES_FILE = "rates.json"
_FILE_MODE = 0o644
# Rates of machines and models that are long gone must not pile up.
_MOST_RATES = 200


@dataclass(frozen=True)
class Subject:
    """What a rate was measured on: what decides speed of the machine and of the model, the engine and its version."""

    host: tuple[object, ...]
    model: tuple[object, ...]
    engine: str
    engine_version: str | None

    @property
    def key(self) -> str:
        """One text for all four: the first two as fingerprints."""
        return "/".join(
            (_fingerprint(self.host), _fingerprint(self.model), self.engine, self.engine_version or "unknown")
        )


@dataclass(frozen=True)
class Recalled:
    """Something remembered, or None; `warning` says why a file that exists could not be used."""

    rates: MeasuredRates | None = None
    plan: Plan | None = None
    warning: str | None = None


def subject(hardware: Hardware, model: ModelSpec, engine: str, engine_version: str | None) -> Subject:
    """What decides speed: processors, cards, memory size; the model's shape and size, not its path."""
    cpu = hardware.cpu
    machine = (
        cpu.model, cpu.physical_cores, cpu.usable_threads, hardware.memory.total_bytes,
        tuple((gpu.name, gpu.total_bytes) for gpu in hardware.gpus),
    )  # fmt: skip
    weights = (model.architecture, model.layers, model.parameters, model.quantization, model.weights_bytes)
    return Subject(machine, weights, engine, engine_version)


def _fingerprint(parts: object) -> str:
    import hashlib

    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def directories(host: Host) -> tuple[PurePosixPath, ...]:
    """Where to look, own directory first: root's is /var/lib/llmops, a user's the XDG state directory."""
    if host.effective_uid() == 0:
        return (SYSTEM_DIRECTORY,)
    environment = host.environment()
    state = environment.get("XDG_STATE_HOME", "")
    home = environment.get("HOME", "")
    if state.startswith("/"):  # the XDG specification: relative paths are to be ignored
        return (PurePosixPath(state, "llmops"), SYSTEM_DIRECTORY)
    return (PurePosixPath(home, ".local/state/llmops"), SYSTEM_DIRECTORY) if home else (SYSTEM_DIRECTORY,)


def read_rates(host: Host, wanted: Subject) -> Recalled:
    """The rates measured on this machine with this model and engine, in any of the directories."""
    warning = None
    for directory in directories(host):
        document, problem = _read(host, directory / RATES_FILE)
        warning = warning or problem
        rates = _mapping(document.get("rates"))
        entry = rates.get(wanted.key) if rates else None
        if entry is None:
            continue
        try:
            return Recalled(rates=_sound(decode(MeasuredRates, entry, "rates")), warning=warning)
        except UnreadableInput as unreadable:
            warning = warning or f"{directory / RATES_FILE} is ignored: {unreadable.message}"
    return Recalled(warning=warning)


def _sound(rates: MeasuredRates) -> MeasuredRates:
    values = [rates.prefill_tokens_per_second, *(rate for _, rate in rates.decode_tokens_per_second)]
    if not rates.decode_tokens_per_second or not all(0 < value < float("inf") for value in values):
        raise UnreadableInput("rates that no machine can have")
    return rates


def write_rates(host: MutableHost, measured_on: Subject, rates: MeasuredRates) -> None:
    """Remember rates; those of the same subject are replaced. Raise OSError where the directory cannot be written."""
    path = directories(host)[0] / RATES_FILE
    document, _ = _read(host, path)
    kept = {key: value for key, value in _mapping(document.get("rates")).items() if key != measured_on.key}
    entries = [*kept.items(), (measured_on.key, encode(_sound(rates)))][-_MOST_RATES:]
    _write(host, path, {"schema": SCHEMA, "rates": dict(entries)})


def read_applied_document(host: Host, name: str) -> tuple[Mapping[str, Any], str | None]:
    """What `write_applied_document` last wrote for this name, {} where there is nothing; and a warning."""
    warning = None
    for directory in directories(host):
        document, problem = _read(host, directory / _plan_file(name))
        warning = warning or problem
        if document:
            return _mapping(document.get("data")), warning
    return {}, warning


def read_applied_plan(host: Host, engine: str) -> Recalled:
    """The plan that llmops last made live for this engine."""
    warning = None
    for directory in directories(host):
        path = directory / _plan_file(engine)
        document, problem = _read(host, path)
        warning = warning or problem
        if not document:
            continue
        try:
            return Recalled(plan=plan_from_document(document.get("data"), str(path)), warning=warning)
        except UnreadableInput as unreadable:
            warning = warning or f"{path} is ignored: {unreadable.message}"
    return Recalled(warning=warning)


def read_last_applied_plan(host: Host, engines: Iterable[str]) -> Recalled:
    """Of the plans that are live for these engines, the one that was applied last."""
    found = [(read_applied_plan(host, engine), engine) for engine in engines]
    live = [(_written_seconds(host, engine), recalled) for recalled, engine in found if recalled.plan is not None]
    if live:
        return max(live, key=lambda row: row[0])[1]
    return next((recalled for recalled, _ in found if recalled.warning), Recalled())


def _written_seconds(host: Host, engine: str) -> float:
    for directory in directories(host):
        try:
            return host.status(directory / _plan_file(engine)).modified_seconds
        except OSError:
            continue
    return 0.0


def write_applied_plan(host: MutableHost, plan: Plan) -> None:
    """Remember the plan that is now live."""
    write_applied_document(host, plan.engine, plan_document(plan))


def write_applied_document(host: MutableHost, engine: str, document: Mapping[str, Any]) -> None:
    """Remember a plan that is at hand as its document."""
    _write(host, directories(host)[0] / _plan_file(engine), {"schema": SCHEMA, "data": document})


def forget_applied_plan(host: MutableHost, engine: str) -> None:
    """After a rollback to a state that llmops did not make."""
    host.remove(directories(host)[0] / _plan_file(engine))


def _plan_file(engine: str) -> str:
    return f"applied-{engine}.json"


def _read(host: Host, path: PurePosixPath) -> tuple[Mapping[str, Any], str | None]:
    """The document, and a warning when a file is there that cannot be used."""
    try:
        document = json.loads(host.read_text(path))
    except FileNotFoundError:
        return {}, None
    except OSError as problem:
        return {}, f"{path} is ignored: {problem.strerror or problem}"
    except (ValueError, RecursionError):
        return {}, f"{path} is ignored: it is not JSON"
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        return {}, f"{path} is ignored: it is not of schema {SCHEMA}"
    return document, None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _write(host: MutableHost, path: PurePosixPath, document: Mapping[str, object]) -> None:
    host.write_text(path, json.dumps(document, indent=1, allow_nan=False) + "\n", mode=_FILE_MODE)
