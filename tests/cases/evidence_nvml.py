"""NVML as a piece of evidence tells it: the functions that llmops calls, all else not supported."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pynvml

MIB = 1024**2


class EvidenceNvml:
    """Stands in for the module pynvml; every function that the evidence says nothing of is not supported."""

    def __init__(self, evidence: Mapping[str, Any]) -> None:
        told = evidence.get("nvml") or {}
        self._refused = {
            name: code for name, code in (told.get("answers") or {}).items() if str(code).startswith("NVML_")
        }
        self.devices: list[dict[str, Any]] = list(told.get("devices") or _rows(evidence))
        named = str((evidence.get("environment") or {}).get("CUDA_VISIBLE_DEVICES", "")).split(",")
        uuids = iter([word for word in named if word.startswith("MIG-")])
        for device in self.devices:
            # Which instance is meant is what the variable tells: the driver resolves it by its UUID.
            device["instances"] = [{"uuid": next(uuids, None), **one} for one in device.get("instances", ())]

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml") or name in {"nvmlMemory_v2"} or name.startswith("nvmlClocks"):
            return getattr(pynvml, name)
        return lambda *_arguments, **_options: self._fail("NVML_ERROR_NOT_SUPPORTED")

    def _fail(self, code: str) -> Any:
        raise pynvml.NVMLError(getattr(pynvml, code))

    def _refuse(self, name: str) -> None:
        if name in self._refused:
            self._fail(self._refused[name])

    def nvmlDeviceGetCount(self) -> int:
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> dict[str, Any]:
        return self.devices[index]

    def nvmlDeviceGetName(self, device: dict[str, Any]) -> str | None:
        return device.get("name")

    def nvmlDeviceGetUUID(self, device: dict[str, Any]) -> str | None:
        return device.get("uuid")

    def nvmlDeviceGetMemoryInfo(self, device: dict[str, Any], version: Any = None) -> Any:
        self._refuse("nvmlDeviceGetMemoryInfo")
        if device.get("total_bytes") is None:
            self._fail("NVML_ERROR_NOT_SUPPORTED")
        return SimpleNamespace(total=device["total_bytes"], free=device.get("free_bytes", device["total_bytes"]))

    def nvmlDeviceGetMigMode(self, device: dict[str, Any]) -> list[int]:
        return [1, 1] if device["instances"] else [0, 0]

    def nvmlDeviceGetMaxMigDeviceCount(self, device: dict[str, Any]) -> int:
        return len(device["instances"])

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: dict[str, Any], index: int) -> dict[str, Any]:
        return dict(device["instances"][index])


def _rows(evidence: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Cards as the table of `nvidia-smi --query-gpu --format=csv` lists them; `[N/A]` is no number."""
    text = (evidence.get("nvidia_smi") or {}).get("csv") or ""
    rows = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    return [
        {
            "name": row.get("name"),
            "total_bytes": _mebibytes(row.get("memory.total [MiB]")),
            "free_bytes": _mebibytes(row.get("memory.free [MiB]")),
        }
        for row in rows
    ]


def _mebibytes(text: str | None) -> int | None:
    digits = (text or "").split(" ")[0]
    return int(digits) * MIB if digits.isdecimal() else None
