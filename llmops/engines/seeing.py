"""Looking at a running engine: JSON routes, memory of processes, who listens, and why something is unseen."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from llmops import systemd
from llmops.core.errors import LlmopsError
from llmops.core.units import KIB
from llmops.engines import unit as units
from llmops.engines.found import KEY, InForce, Installation
from llmops.host import Host, ListeningSocket, ProcessInfo, Response

_MEMORY_LINE = re.compile(r"^(VmRSS|RssAnon):\s+(\d+) kB$", re.MULTILINE)  # proc(5): kB there means KiB
_ASK_SECONDS = 5.0
SomeInForce = TypeVar("SomeInForce", bound=InForce)


@dataclass
class Unseen:
    """Why parts of an InForce are None."""

    reasons: dict[str, str] = field(default_factory=dict)

    def note(self, part: str, why: str) -> None:
        """The first reason for a part is kept."""
        self.reasons.setdefault(part, why)


def unit_part(host: Host, installation: Installation, unseen: Unseen) -> InForce:
    """What systemd says of the unit of an installation, with and without the drop-in of llmops."""
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
    closed = units.closed_file(files)
    if closed is not None:
        unseen.note("unit", f"{closed} may be read by root only")
    return InForce(
        pid=state.main_pid or installation.pid,
        configured_arguments=units.exec_words(host, unit, files),
        configured_environment=units.environment(host, unit, files),
        environment_files=units.environment_file_paths(host, unit, files),
        drop_ins=tuple(file.path for file in files if file.path.endswith(".conf")),
        need_daemon_reload=state.need_daemon_reload,
        user_arguments=units.exec_words(host, unit, own),
        user_command=units.exec_command(host, unit, own),
        unmanaged_drop_ins=units.unmanaged_drop_ins(files),
        unit_file_managed=units.managed_fragment(files),
    )


def process_part(
    host: Host, process: ProcessInfo, workers: Sequence[int], seen: SomeInForce, unseen: Unseen
) -> SomeInForce:
    """What the process of the server says: words, variables, memory together with its workers."""
    if process.environment is None:
        unseen.note("environment", "the environment of another user's process is readable by root only")
    resident, anonymous = memory_of(host, (process.pid, *workers), unseen)
    return replace(
        seen,
        pid=process.pid,
        arguments=process.argv,
        environment=process.environment,
        control_group=process.control_group,
        worker_pids=tuple(workers),
        resident_bytes=resident,
        anonymous_bytes=anonymous,
    )


def descendants(pid: int, processes: Sequence[ProcessInfo]) -> tuple[ProcessInfo, ...]:
    """Every process below one, nearest first."""
    children: dict[int, list[ProcessInfo]] = {}
    for process in processes:
        children.setdefault(process.parent_pid or 0, []).append(process)
    found: list[ProcessInfo] = []
    waiting, known = [pid], {pid}
    while waiting:
        for child in children.get(waiting.pop(0), []):
            if child.pid not in known:
                known.add(child.pid)
                found.append(child)
                waiting.append(child.pid)
    return tuple(found)


def ask_json(host: Host, url: str, part: str, unseen: Unseen) -> Any:
    """The JSON that a route answers, or None with the reason noted."""
    try:
        answer = host.get(url, timeout_seconds=_ASK_SECONDS)
    except (ConnectionError, TimeoutError) as problem:
        unseen.note(part, str(problem))
        return None
    return json_of(answer, url, part, unseen)


def json_of(answer: Response, url: str, part: str, unseen: Unseen) -> Any:
    """The JSON of an answer, or None with the reason noted."""
    if answer.status in {401, 403}:
        wanted = f"{url} wants an API key (HTTP {answer.status}): --api-key-file FILE gives it"
        unseen.note(part, wanted)
        unseen.note(KEY, wanted)
        return None
    if answer.status != 200:
        unseen.note(part, f"{url} answered HTTP {answer.status}")
        return None
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError):
        unseen.note(part, f"{url} answered something that is not JSON")
        return None


def memory_of(host: Host, pids: Sequence[int], unseen: Unseen) -> tuple[int | None, int | None]:
    """Resident bytes of these processes together, and those of them that are not from files; None where unseen."""
    sums: dict[str, int] = {}
    for pid in pids:
        try:
            content = host.read_text(f"/proc/{pid}/status")
        except OSError as problem:
            unseen.note("resident_bytes", f"/proc/{pid}/status: {problem.strerror or problem}")
            return None, None
        for name, kibibytes in _MEMORY_LINE.findall(content):
            sums[name] = sums.get(name, 0) + int(kibibytes) * KIB
    return sums.get("VmRSS"), sums.get("RssAnon")


def owner_of(listeners: Sequence[ListeningSocket], pid: int | None) -> int | None:
    """Who listens: `pid` where it is among them."""
    owners = [one.pid for one in listeners if one.pid is not None]
    return pid if pid in owners else (owners[0] if owners else None)


def whole(value: object) -> int | None:
    """The value where it is a whole number."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def text(value: object) -> str | None:
    """The value where it is a text that is not empty."""
    return value if isinstance(value, str) and value else None
