"""A machine of which only a piece of evidence is known: what it does not tell is not there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from llmops.core.hardware import GpuReading
from llmops.host import Completed, FileStatus, ListeningSocket, ProcessInfo, Response
from llmops.host.local.nvml import read_reading
from tests.cases.evidence_nvml import EvidenceNvml
from tests.unit.probe.machines import TreeHost

BOOTED = "/run/systemd/system"


class EvidenceHost(TreeHost):
    """Answers the probe and the engines' detection from the keys of an evidence file."""

    def __init__(self, evidence: Mapping[str, Any]) -> None:
        cpu = evidence.get("cpu") or {}
        super().__init__(
            {**(evidence.get("files") or {}), **cpu_files(cpu)},
            affinity=cpu.get("affinity_cpus"),
            variables={name: str(value) for name, value in (evidence.get("environment") or {}).items()},
            reading=cards(evidence),
        )
        self._programs = {str(path) for path in (evidence.get("programs") or {}).values()}
        self._units = evidence.get("units")

    def which(self, program: str) -> str | None:
        return next((path for path in self._programs if path.rsplit("/", 1)[-1] == program), None)

    def status(self, path: PurePath | str) -> FileStatus:
        if str(path) in self._programs or str(path) in self.files:
            return FileStatus("file", 1, 0o755, 0, 0, 0.0, 1, 1)
        if str(path) == BOOTED and self._units:
            return FileStatus("directory", 0, 0o755, 0, 0, 0.0, 1, 2)
        raise FileNotFoundError(2, "No such file or directory")

    def resolve(self, path: PurePath | str) -> str:
        return str(path)

    def processes(self) -> tuple[ProcessInfo, ...]:
        return ()

    def listening_sockets(self) -> tuple[ListeningSocket, ...]:
        return ()

    def query(self, argv: Sequence[str], *, timeout_seconds: float = 20.0) -> Completed:
        raise FileNotFoundError(2, "No such file or directory")

    def get(self, url: str, *, timeout_seconds: float = 5.0) -> Response:
        raise ConnectionError("nothing answers")


def cards(evidence: Mapping[str, Any]) -> GpuReading:
    """What llmops reads from an NVML that behaves as the evidence tells."""
    library = EvidenceNvml(evidence)
    if not library.devices:
        return GpuReading("library_missing", "the evidence names no NVIDIA card")
    return read_reading(library)


def cpu_files(cpu: Mapping[str, Any]) -> dict[str, str]:
    """The files in which a kernel shows these values."""
    files = {}
    if cpu.get("flags"):
        virtual = ["hypervisor"] if cpu.get("hypervisor") else []
        files["/proc/cpuinfo"] = f"processor\t: 0\nflags\t\t: {' '.join([*cpu['flags'], *virtual])}\n"
    if cpu.get("hypervisor"):
        files["/sys/class/dmi/id/sys_vendor"] = f"{cpu['hypervisor']}\n"
    return files
