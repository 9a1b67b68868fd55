"""What a llama-server really serves: unit, process, listener, configuration files and its own word."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from llmops import systemd
from llmops.core.errors import LlmopsError
from llmops.core.units import KIB
from llmops.engines.base import KEY, InForce, Installation
from llmops.engines.llama_server import options
from llmops.engines.llama_server import unit as units
from llmops.engines.llama_server.arguments import program_length, read_arguments, value_of
from llmops.engines.llama_server.endpoint import read_endpoint
from llmops.host import Host, ListeningSocket, ProcessInfo

SYSTEM_CONFIG_FILE = "/etc/llama.cpp/config.ini"
_MEMORY_LINE = re.compile(r"^(VmRSS|RssAnon):\s+(\d+) kB$", re.MULTILINE)  # proc(5): kB there means KiB
_ASK_SECONDS = 5.0


@dataclass
class Unseen:
    """Why parts of an InForce are None."""

    reasons: dict[str, str] = field(default_factory=dict)

    def note(self, part: str, why: str) -> None:
        """The first reason for a part is kept."""
        self.reasons.setdefault(part, why)


def observe(host: Host, installation: Installation) -> InForce:
    """Everything that can be seen of one installation; nothing is changed and no sleeping server is woken."""
    unseen = Unseen()
    seen = _unit_part(host, installation, unseen)
    process = _process_of(host, installation, seen, unseen)
    if process is not None:
        seen = replace(
            seen,
            pid=process.pid,
            arguments=process.argv,
            environment=process.environment,
            control_group=process.control_group,
        )
        seen = _memory_part(host, process.pid, seen, unseen)
        if process.environment is None:
            unseen.note("environment", "the environment of another user's process is readable by root only")
        seen = replace(seen, config_files=_config_files(host, process))
    seen = _listener_part(host, installation, seen, unseen)
    if seen.url is not None and seen.pid is not None:
        seen = _own_word(host, seen, unseen)
    return replace(seen, unseen=tuple(unseen.reasons.items()))


def _unit_part(host: Host, installation: Installation, unseen: Unseen) -> InForce:
    unit = installation.unit
    if unit is None:
        return InForce(pid=installation.pid)
    try:
        files = systemd.unit_files(host, unit)
        state = systemd.state(host, unit)
    except LlmopsError as problem:
        unseen.note("unit", problem.message)
        return InForce(pid=installation.pid)
    own = units.user_files(files)
    return InForce(
        pid=state.main_pid or installation.pid,
        configured_arguments=units.exec_words(host, unit, files),
        configured_environment=units.environment(host, unit, files),
        environment_files=units.environment_file_paths(files),
        drop_ins=tuple(file.path for file in files if file.path.endswith(".conf")),
        need_daemon_reload=state.need_daemon_reload,
        user_arguments=units.exec_words(host, unit, own),
        unmanaged_drop_ins=units.unmanaged_drop_ins(files),
        unit_file_managed=units.managed_fragment(files),
    )


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


def _memory_part(host: Host, pid: int, seen: InForce, unseen: Unseen) -> InForce:
    try:
        text = host.read_text(f"/proc/{pid}/status")
    except OSError as problem:
        unseen.note("resident_bytes", f"/proc/{pid}/status: {problem.strerror or problem}")
        return seen
    sizes = {name: int(kibibytes) * KIB for name, kibibytes in _MEMORY_LINE.findall(text)}
    return replace(seen, resident_bytes=sizes.get("VmRSS"), anonymous_bytes=sizes.get("RssAnon"))


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
    owner = _owner(listeners, seen.pid)
    if not listeners:
        unseen.note("listener_pid", f"nobody listens on port {endpoint.port}")
    elif owner is None:
        unseen.note("listener_pid", f"who listens on port {endpoint.port} may be seen by root only")
    return replace(seen, listener_pid=owner)


def _owner(listeners: Sequence[ListeningSocket], pid: int | None) -> int | None:
    owners = [one.pid for one in listeners if one.pid is not None]
    return pid if pid in owners else (owners[0] if owners else None)


def _own_word(host: Host, seen: InForce, unseen: Unseen) -> InForce:
    properties = ask_json(host, f"{seen.url}/props", "props", unseen)
    if not isinstance(properties, Mapping):
        unseen.note("props", f"{seen.url}/props answered something that is no object")
        return seen
    defaults = properties.get("default_generation_settings")
    sleeping = properties.get("is_sleeping")
    seen = replace(
        seen,
        slots=_whole(properties.get("total_slots")),
        context_tokens_per_slot=_whole(defaults.get("n_ctx")) if isinstance(defaults, Mapping) else None,
        model_path=_text(properties.get("model_path")) or seen.model_path,
        build=_text(properties.get("build_info")),
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
    contexts = tuple(_whole(slot.get("n_ctx")) or 0 for slot in slots)
    return replace(seen, slot_contexts=contexts, processing=sum(slot.get("is_processing") is True for slot in slots))


def ask_json(host: Host, url: str, part: str, unseen: Unseen) -> Any:
    """The JSON that a route answers, or None with the reason noted."""
    try:
        answer = host.get(url, timeout_seconds=_ASK_SECONDS)
    except (ConnectionError, TimeoutError) as problem:
        unseen.note(part, str(problem))
        return None
    if answer.status in {401, 403}:
        unseen.note(part, f"{url} wants an API key (HTTP {answer.status})")
        unseen.note(KEY, f"{url} wants an API key (HTTP {answer.status})")
        return None
    if answer.status != 200:
        unseen.note(part, f"{url} answered HTTP {answer.status}")
        return None
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError):
        unseen.note(part, f"{url} answered something that is not JSON")
        return None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
