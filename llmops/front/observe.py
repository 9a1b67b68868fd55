"""Whether the front in force is the one that was written: its files, its unit, who listens, its own word."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from llmops import systemd
from llmops.core.verification import Check, CheckStatus
from llmops.front.haproxy import CONFIGURATION_PATH, STATUS_PATH, UNIT, configuration_file
from llmops.front.spec import FrontSpec
from llmops.front.traffic import traffic_of
from llmops.host import Host

_ANSWER_SECONDS = 5.0


def read_word(host: Host, spec: FrontSpec) -> Mapping[str, Any] | None:
    """What the front at this address says of itself; None where no front of llmops answers."""
    try:
        answer = host.get(f"{spec.listen.url}{STATUS_PATH}", timeout_seconds=_ANSWER_SECONDS)
        document = json.loads(answer.body)
    except (ConnectionError, TimeoutError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and spec.word.keys() <= document.keys() else None


def serves_as(host: Host, spec: FrontSpec) -> bool:
    """True once the front that answers has these limits and reaches every server behind it."""
    word = read_word(host, spec)
    return (
        word is not None
        and all(word[name] == value for name, value in spec.word.items())
        and _engines(word) == _engines_expected(spec)
    )


def _engines(word: Mapping[str, Any]) -> set[tuple[object, ...]]:
    rows = word.get("engines")
    found = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return {tuple(str(row.get(name)) for name in ("address", "slots", "up")) for row in found}


def _engines_expected(spec: FrontSpec) -> set[tuple[object, ...]]:
    return {(str(one.address), str(one.slots), "1") for one in spec.servers}


def front_checks(host: Host, spec: FrontSpec, *, engine_slots: int | None) -> tuple[Check, ...]:
    """Every part of a front that can be seen; `engine_slots` are those that the engine really has."""
    return (
        _file(host, spec),
        _unit(host),
        _listener(host, spec),
        *_limits(host, spec),
        _slots(spec, engine_slots),
        _engine(host, spec),
    )


def _file(host: Host, spec: FrontSpec) -> Check:
    name, expected = "front_file", f"{CONFIGURATION_PATH} as llmops wrote it"
    try:
        same = host.read_text(CONFIGURATION_PATH) == configuration_file(spec).content
    except FileNotFoundError:
        return Check(name, expected, "no such file", CheckStatus.FAIL)
    except OSError as problem:
        return Check(name, expected, None, CheckStatus.NOT_EVALUATED, str(problem))
    return _compared(name, expected, expected if same else "edited since, or written by another llmops")


def _unit(host: Host) -> Check:
    state = systemd.state(host, UNIT)
    observed = f"{state.active_state}, {state.file_state or 'no unit file'}"
    return _compared("front_unit", "active, enabled", observed)


def _listener(host: Host, spec: FrontSpec) -> Check:
    """Who really holds the address: a process of the front's unit, or somebody else."""
    expected = f"{UNIT} at {spec.listen}"
    groups = {process.pid: process.control_group or "" for process in host.processes()}
    holders = [
        socket.pid
        for socket in host.listening_sockets()
        if (socket.address, socket.port) == (spec.listen.host, spec.listen.port)
    ]
    if not holders:
        return Check("front_listener", expected, f"nobody at {spec.listen}", CheckStatus.FAIL)
    if all(pid is None for pid in holders):
        return Check("front_listener", expected, None, CheckStatus.NOT_EVALUATED, "only root sees whose socket it is")
    own = any(pid is not None and groups.get(pid, "").endswith(f"/{UNIT}") for pid in holders)
    return _compared("front_listener", expected, expected if own else f"process {holders[0]} at {spec.listen}")


def _limits(host: Host, spec: FrontSpec) -> tuple[Check, ...]:
    word = read_word(host, spec)
    if word is None:
        why = f"no front of llmops answers at {spec.listen.url}"
        return (Check("front_limits", _limits_text(spec.word), None, CheckStatus.FAIL, why),)
    return (_compared("front_limits", _limits_text(spec.word), _limits_text(word)),)


def _limits_text(word: Mapping[str, Any]) -> str:
    return f"{word['slots']} served, {word['queue']} waiting, {word['patience_seconds']} s"


def _slots(spec: FrontSpec, engine_slots: int | None) -> Check:
    """With fewer slots in the engine its own queue, which nothing bounds, would fill first."""
    expected = f"{spec.slots} slots in {spec.engine}"
    if engine_slots is None:
        return Check("front_slots", expected, None, CheckStatus.NOT_EVALUATED, "the engine does not say its slots")
    return _compared("front_slots", expected, f"{engine_slots} slots in {spec.engine}")


def _engine(host: Host, spec: FrontSpec) -> Check:
    path = traffic_of(spec.engine).health_path
    expected = f"200 for {path}"
    try:
        answer = host.get(f"{spec.listen.url}{path}", timeout_seconds=_ANSWER_SECONDS)
    except (ConnectionError, TimeoutError) as problem:
        return Check("front_reaches_engine", expected, "no answer", CheckStatus.FAIL, str(problem))
    return _compared("front_reaches_engine", expected, f"{answer.status} for {path}")


def _compared(name: str, expected: str, observed: str) -> Check:
    return Check(name, expected, observed, CheckStatus.PASS if observed == expected else CheckStatus.FAIL)
