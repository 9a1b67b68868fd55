"""From what somebody pasted to the keys of an evidence file: by the names of the keys alone, never by the case."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Evidence = dict[str, Any]
SCHEMA = 1
MIB = 1024**2

# Where a key of a case goes in the evidence: section, then key.
_PLACES = {
    "env": ("environment",),
    "client_env": ("client_environment",),
    "proc_environ": ("process_environment",),
    "systemctl_show": ("systemctl_show",),
    "server_config_log": ("server_config",),
    "api_ps": ("api_ps",),
    "props": ("props",),
    "slots": ("slots",),
    "metrics": ("metrics",),
    "responses": ("responses",),
    "vmstat": ("vmstat",),
    "model": ("model",),
    "args": ("arguments",),
    "runner_cmd": ("runner_command",),
    "want": ("wanted",),
    "users": ("users",),
    "engine_version": ("engine_version",),
    "measured_tok_s": ("measured", "tokens_per_second"),
    "systemd_units": ("units",),
    "cpuinfo_flags": ("cpu", "flags"),
    "hypervisor": ("cpu", "hypervisor"),
    "sched_getaffinity": ("cpu", "affinity_cpus"),
    "numa_nodes": ("cpu", "numa_nodes"),
    "nvidia_smi": ("nvidia_smi", "text"),
    "nvidia_smi_csv": ("nvidia_smi", "csv"),
    "nvidia_smi_q": ("nvidia_smi", "query"),
    "nvidia_smi_topo": ("nvidia_smi", "topology"),
    "nvml": ("nvml", "answers"),
    "ss": ("listening",),
    "dropins": ("drop_ins",),
}


def _lines(value: Any) -> list[str]:
    return value.splitlines() if isinstance(value, str) else [str(line) for line in value]


def _files(value: Any) -> dict[str, str]:
    return {str(path): file_text(content) for path, content in value.items()}


def _program(value: Any) -> dict[str, str]:
    return {str(value).rsplit("/", 1)[-1]: str(value)}


# Keys whose values change their form on the way.
_FORMS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "files": ("files", _files),
    "logs": ("engine_log", _lines),
    "service_log": ("engine_log", _lines),
    "journal": ("journal", _lines),
    "journal_kernel": ("kernel_log", _lines),
    "which": ("programs", _program),
}
_PARENT_MEMORY = re.compile(r"nvml_index(\d+)_total_mib")
_INSTANCE_MEMORY = re.compile(r"nvml_mig_device_total_mib")


def normalise(case: Mapping[str, Any]) -> tuple[Evidence, dict[str, Any]]:
    """One case as evidence and as what is expected of it; what has no place is kept under `notes`."""
    evidence: Evidence = {"schema": SCHEMA, "engine": case.get("engine", "any")}
    for name, key in (("version", "engine_version"), ("hw", "reported"), ("workload", "workload")):
        if case.get(name):
            evidence[key] = case[name]
    for name, value in (case.get("inputs") or {}).items():
        _place(evidence, str(name), value)
    expected = {"kind": case.get("kind"), **(case.get("expect") or {})}
    return evidence, expected


def _place(evidence: Evidence, name: str, value: Any) -> None:
    if name in _FORMS:
        key, form = _FORMS[name]
        try:
            found = form(value)
        except (AttributeError, TypeError):
            evidence.setdefault("notes", {})[name] = value
            return
        _merge(evidence, (key,), found)
    elif name in _PLACES:
        _merge(evidence, _PLACES[name], value)
    elif match := _PARENT_MEMORY.fullmatch(name):
        _device(evidence, int(match.group(1)))["total_bytes"] = int(value) * MIB
    elif _INSTANCE_MEMORY.fullmatch(name):
        _device(evidence, 0).setdefault("instances", []).append({"total_bytes": int(value) * MIB})
    else:
        evidence.setdefault("notes", {})[name] = value


def _merge(evidence: Evidence, place: tuple[str, ...], value: Any) -> None:
    """Put a value into its place; a second one of the same place is added where that is possible."""
    *sections, key = place
    target = evidence
    for section in sections:
        target = target.setdefault(section, {})
    before = target.get(key)
    if isinstance(before, dict) and isinstance(value, dict):
        target[key] = {**before, **value}
    elif isinstance(before, list) and isinstance(value, list):
        target[key] = [*before, *value]
    else:
        target[key] = value


def _device(evidence: Evidence, index: int) -> dict[str, Any]:
    devices: list[dict[str, Any]] = evidence.setdefault("nvml", {}).setdefault("devices", [])
    while len(devices) <= index:
        devices.append({"index": len(devices)})
    return devices[index]


def file_text(content: Any) -> str:
    """A file as text: mappings become its lines, `NAME_kib: 5` as /proc/meminfo writes it, others as `NAME 5`."""
    if isinstance(content, Mapping):
        rows = [_row(str(name), value) for name, value in content.items()]
        return "".join(f"{row}\n" for row in rows)
    if isinstance(content, list):
        return "".join(f"{line}\n" for line in content)
    text = str(content)
    return text if text.endswith("\n") else f"{text}\n"


def _row(name: str, value: Any) -> str:
    kibibytes = name.removesuffix("_kib")
    return f"{name} {value}" if kibibytes == name else f"{kibibytes}: {value} kB"
