"""What an Ollama really serves: unit, process, listener, its children, its log and its own word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from llmops import systemd
from llmops.engines.found import InForce, Installation
from llmops.engines.ollama.address import read_address
from llmops.engines.ollama.detect import is_server
from llmops.engines.ollama.runners import Runner, reported, runners, server_config, told_by_log
from llmops.engines.seeing import Unseen, ask_json, descendants, owner_of, process_part, unit_part, whole
from llmops.host import Host, ProcessInfo

_LOG_LINES = 3000  # one loaded model writes some hundred lines


def observe(host: Host, installation: Installation) -> InForce:
    """Everything that can be seen of one installation; no model is loaded for it."""
    unseen = Unseen()
    seen = unit_part(host, installation, unseen)
    processes = host.processes()
    process = _process_of(processes, installation, seen, unseen)
    if process is not None:
        seen = process_part(host, process, _workers(process.pid, processes), seen, unseen)
    seen = _listener_part(host, seen, unseen)
    found = runners(process.pid, processes) if process is not None else ()
    lines = _log(host, installation, unseen)
    seen = replace(seen, logged_environment=server_config(lines))
    if seen.url is not None and seen.pid is not None:
        seen = _own_word(host, seen, found, lines, unseen)
    return replace(seen, unseen=tuple(unseen.reasons.items()))


def _process_of(
    processes: tuple[ProcessInfo, ...], installation: Installation, seen: InForce, unseen: Unseen
) -> ProcessInfo | None:
    """The server itself: the unit's main process, or the one below it where a script starts it."""
    wanted = [pid for pid in (seen.pid, installation.pid) if pid]
    for pid in wanted:
        itself = tuple(process for process in processes if process.pid == pid)
        for process in (*itself, *descendants(pid, processes)):
            if is_server(process):
                return process
    unseen.note("arguments", "the server is not running" if not wanted else f"process {wanted[0]} is no ollama serve")
    return None


def _workers(pid: int, processes: tuple[ProcessInfo, ...]) -> tuple[int, ...]:
    """Every process below the server, those that serve a model first."""
    serving = [runner.model.pid for runner in runners(pid, processes) if runner.model.pid]
    return (*serving, *(one.pid for one in descendants(pid, processes) if one.pid not in serving))


def _listener_part(host: Host, seen: InForce, unseen: Unseen) -> InForce:
    variables = dict(seen.environment or seen.configured_environment or ())
    address = read_address(variables.get("OLLAMA_HOST"))
    listeners = [one for one in host.listening_sockets() if one.port == address.port]
    owner = owner_of(listeners, seen.pid)
    if not listeners:
        unseen.note("listener_pid", f"nobody listens on port {address.port}")
    elif owner is None:
        unseen.note("listener_pid", f"who listens on port {address.port} may be seen by root only")
    return replace(seen, url=address.url, listener_pid=owner)


def _log(host: Host, installation: Installation, unseen: Unseen) -> tuple[str, ...]:
    if installation.unit is None:
        unseen.note("log", "only a unit of systemd has a log that can be read")
        return ()
    lines = systemd.journal_tail(host, installation.unit, lines=_LOG_LINES)
    if not lines:
        unseen.note("log", f"the journal of {installation.unit} holds nothing that may be read")
    return lines


def _own_word(host: Host, seen: InForce, found: tuple[Runner, ...], lines: tuple[str, ...], unseen: Unseen) -> InForce:
    document = ask_json(host, f"{seen.url}/api/ps", "loaded", unseen)
    rows = document.get("models") if isinstance(document, Mapping) else None
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        unseen.note("loaded", f"{seen.url}/api/ps answered something that is no list of models")
        return seen
    models = [runner.model for runner in found]
    if len(models) == 1:  # the log does not say of which of several models it speaks
        models = [told_by_log(models[0], lines)]
    newest = models[0] if models else None
    if newest is None or newest.slots is None:
        unseen.note("slots", "no model is loaded" if newest is None else "neither command line nor log names the slots")
    return replace(
        seen,
        loaded=(*models, *reported(rows)),
        slots=newest.slots if newest else None,
        context_tokens_per_slot=newest.context_tokens_per_slot if newest else None,
        model_path=newest.model_path if newest else None,
        processing=_processing(host, found),
    )


def _processing(host: Host, found: tuple[Runner, ...]) -> int | None:
    """Requests being served, by the word of each llama-server; None where none of them tells."""
    counts = [count for runner in found if (count := _busy_slots(host, runner)) is not None]
    return sum(counts) if counts else (0 if not found else None)


def _busy_slots(host: Host, runner: Runner) -> int | None:
    if runner.port is None:
        return None
    slots = ask_json(host, f"http://127.0.0.1:{runner.port}/slots", "slot_contexts", Unseen())
    if not isinstance(slots, list) or not all(
        isinstance(slot, Mapping) and whole(slot.get("id")) is not None for slot in slots
    ):
        return None
    return sum(slot.get("is_processing") is True for slot in slots)
