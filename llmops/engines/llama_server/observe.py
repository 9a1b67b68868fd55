"""What a llama-server really serves: unit, process, listener, configuration files and its own word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from llmops.engines.found import InForce, Installation
from llmops.engines.llama_server import options
from llmops.engines.llama_server.arguments import program_length, read_arguments, value_of
from llmops.engines.llama_server.endpoint import read_endpoint
from llmops.engines.seeing import Unseen, ask_json, owner_of, process_part, text, unit_part, whole
from llmops.host import Host, ProcessInfo

SYSTEM_CONFIG_FILE = "/etc/llama.cpp/config.ini"


def observe(host: Host, installation: Installation) -> InForce:
    """Everything that can be seen of one installation; nothing is changed and no sleeping server is woken."""
    unseen = Unseen()
    seen = unit_part(host, installation, unseen)
    process = _process_of(host, installation, seen, unseen)
    if process is not None:
        seen = process_part(host, process, (), seen, unseen)
        seen = replace(seen, config_files=_config_files(host, process))
    seen = _listener_part(host, installation, seen, unseen)
    if seen.url is not None and seen.pid is not None:
        seen = _own_word(host, seen, unseen)
    return replace(seen, unseen=tuple(unseen.reasons.items()))


def _process_of(host: Host, installation: Installation, seen: InForce, unseen: Unseen) -> ProcessInfo | None:
    """The server itself: the unit's main process, or the child that a script in the unit started."""
    processes = {process.pid: process for process in host.processes()}
    for pid in (seen.pid, installation.pid):
        process = processes.get(pid or 0)
        if process is not None and program_length(process.argv) is not None:
            return process
    main = processes.get(seen.pid or 0)
    if main is not None and main.control_group:
        for process in processes.values():
            if process.control_group == main.control_group and program_length(process.argv) is not None:
                return process
    if main is None:
        unseen.note("arguments", "the server is not running")
    else:
        unseen.note("arguments", f"process {main.pid} is not a llama-server")
    return None


def _config_files(host: Host, process: ProcessInfo) -> tuple[tuple[str, str], ...]:
    """The files that llama-server reads by itself, the system's first (docs/preset.md)."""
    variables = dict(process.environment or ())
    config_home = variables.get("XDG_CONFIG_HOME") or f"{variables.get('HOME', '')}/.config"
    paths = [SYSTEM_CONFIG_FILE]
    if config_home.startswith("/") and config_home != "/.config":
        paths.append(f"{config_home}/llama.cpp/config.ini")
    found = []
    for path in paths:
        try:
            found.append((path, host.read_text(path)))
        except OSError:  # absent in nearly every installation
            continue
    return tuple(found)


def _listener_part(host: Host, installation: Installation, seen: InForce, unseen: Unseen) -> InForce:
    words = seen.arguments or seen.configured_arguments or ()
    length = program_length(words) or len(words)
    arguments = read_arguments(words[length:], installation.flags, installation.valued_flags)
    endpoint = read_endpoint(arguments, seen)
    seen = replace(seen, url=endpoint.url, model_path=value_of(arguments, options.MODEL))
    if endpoint.url is None:
        unseen.note("url", "the server listens on a socket in the file system only")
        return seen
    listeners = [one for one in host.listening_sockets() if str(one.port) == endpoint.port]
    owner = owner_of(listeners, seen.pid)
    if not listeners:
        unseen.note("listener_pid", f"nobody listens on port {endpoint.port}")
    elif owner is None:
        unseen.note("listener_pid", f"who listens on port {endpoint.port} may be seen by root only")
    return replace(seen, listener_pid=owner)


def _own_word(host: Host, seen: InForce, unseen: Unseen) -> InForce:
    properties = ask_json(host, f"{seen.url}/props", "props", unseen)
    if not isinstance(properties, Mapping):
        unseen.note("props", f"{seen.url}/props answered something that is no object")
        return seen
    defaults = properties.get("default_generation_settings")
    sleeping = properties.get("is_sleeping")
    seen = replace(
        seen,
        slots=whole(properties.get("total_slots")),
        context_tokens_per_slot=whole(defaults.get("n_ctx")) if isinstance(defaults, Mapping) else None,
        model_path=text(properties.get("model_path")) or seen.model_path,
        build=text(properties.get("build_info")),
        sleeping=sleeping if isinstance(sleeping, bool) else None,
    )
    if seen.slots is None:
        unseen.note("props", f"{seen.url}/props names no slots: this is not llama-server, or it is its router")
    if sleeping is True:  # asking /slots would load the model again
        unseen.note("slot_contexts", "the server sleeps")
        return seen
    slots = ask_json(host, f"{seen.url}/slots", "slot_contexts", unseen)
    if not isinstance(slots, list) or not all(isinstance(slot, Mapping) for slot in slots):
        unseen.note("slot_contexts", f"{seen.url}/slots answered something that is no list of slots")
        return seen
    contexts = tuple(whole(slot.get("n_ctx")) or 0 for slot in slots)
    return replace(seen, slot_contexts=contexts, processing=sum(slot.get("is_processing") is True for slot in slots))
