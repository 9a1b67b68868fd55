"""Probe, plan and memory against a real NVIDIA card; started by run.sh, which says what it needs."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from llmops.core.hardware import Gpu, Hardware
from llmops.core.memory.ggml_runtime import DEVICE_CONTEXT_BYTES
from llmops.host.local import LocalHost
from llmops.probe import read_hardware
from tests.gpu.memory import check_server_memory, find_model
from tests.gpu.report import MIB, Report

REPOSITORY = Path(__file__).resolve().parents[2]
FIELDS = (
    "uuid", "name", "memory.total", "memory.free", "driver_version", "compute_cap", "power.limit",
    "power.default_limit", "temperature.gpu",
)  # fmt: skip
HELD_BYTES = 1024 * MIB
# Free memory changes while it is read; a display or another process may come and go.
FREE_APART_MIB, DEGREES_APART, WATTS_APART = 512, 15, 1
CUDA_START_SECONDS = 60.0


def llmops(*words: str) -> subprocess.CompletedProcess[str]:
    """One command of llmops as a user types it."""
    command = [sys.executable, "-m", "llmops", *words]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=240, check=False)


def complaint(ended: subprocess.CompletedProcess[str]) -> str:
    """What a command that failed says: its envelope's errors, else the end of what it printed."""
    if ended.returncode == 0:
        return ""
    try:
        return "; ".join(str(row["message"]) for row in json.loads(ended.stdout)["errors"])
    except (ValueError, KeyError, TypeError):
        return (ended.stderr or ended.stdout).strip()[-300:]


def smi_rows() -> list[dict[str, str]]:
    """What nvidia-smi says of every card."""
    command = ["nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
    text = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    return [
        dict(zip(FIELDS, [part.strip() for part in line.split(",")], strict=True)) for line in text.splitlines() if line
    ]


def number(text: str) -> float | None:
    """`[N/A]` and the like are no numbers."""
    try:
        return float(text)
    except ValueError:
        return None


def check_probe(report: Report) -> Hardware:
    """Every value of every whole card that nvidia-smi shows too."""
    ended = llmops("probe", "--output", "json")
    report.check("llmops probe ends with 0", holds=ended.returncode == 0, detail=complaint(ended))
    hardware = read_hardware(LocalHost())
    print(f"     {hardware.gpu_detail}, driver {hardware.driver_version}", flush=True)
    rows = smi_rows()
    seen = (*hardware.gpus, *hardware.other_gpus)
    by_uuid = {gpu.uuid: gpu for gpu in seen}
    parents = {gpu.parent_uuid for gpu in seen}
    for row in rows:
        gpu = by_uuid.get(row["uuid"])
        if gpu is None:
            report.check(f"{row['uuid']} is divided, its instances are seen", holds=row["uuid"] in parents)
        else:
            compare(report, gpu, row, hardware)
    if ended.returncode == 0:
        told: list[dict[str, Any]] = json.loads(ended.stdout)["data"]["hardware"]["gpus"]
        report.same("cards of the command and of the library", len(told), len(hardware.gpus))
    return hardware


def compare(report: Report, gpu: Gpu, row: dict[str, str], hardware: Hardware) -> None:
    """One card as llmops and as nvidia-smi see it."""
    at = f"card {gpu.index}"
    capability = ".".join(str(part) for part in gpu.compute_capability or ())
    report.same(f"{at} name", gpu.name, row["name"])
    report.same(f"{at} compute capability", capability, row["compute_cap"])
    report.same("driver", hardware.driver_version, row["driver_version"])
    total = number(row["memory.total"])
    if total is None:
        report.check(f"{at} shares the host's memory", holds=gpu.unified, detail=f"{gpu.total_bytes} bytes")
    else:
        report.close(f"{at} memory (MiB)", (gpu.total_bytes or 0) / MIB, total, 1)
        report.close(f"{at} free memory (MiB)", (gpu.free_bytes or 0) / MIB, number(row["memory.free"]), FREE_APART_MIB)
        report.check(
            f"{at} bandwidth is known",
            holds=bool(gpu.bandwidth_bytes_per_second) or gpu.kind == "virtual",
            detail=f"{(gpu.bandwidth_bytes_per_second or 0) / 1e9:.0f} GB/s",
        )
    report.close(f"{at} power limit (W)", gpu.power_limit_watts, number(row["power.limit"]), WATTS_APART)
    report.close(f"{at} default limit (W)", gpu.power_default_watts, number(row["power.default_limit"]), WATTS_APART)
    report.close(f"{at} temperature (C)", gpu.temperature_celsius, number(row["temperature.gpu"]), DEGREES_APART)


def check_held(report: Report) -> None:
    """Memory that one process takes: seen as taken, as that process's, and the driver's own part as predicted."""
    before = read_hardware(LocalHost())
    if not before.gpus or before.gpus[0].unified:
        report.leave_out("memory held by a process", "the first card has no memory of its own")
        return
    command = [sys.executable, "-m", "tests.gpu.allocate", str(HELD_BYTES), "0"]
    with subprocess.Popen(
        command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None and child.stdin is not None and child.stderr is not None
        if not child.stdout.readline():
            report.leave_out("memory held by a process", child.stderr.read().strip()[:200] or "no answer")
            return
        during = read_hardware(LocalHost(), engine_pids=(child.pid,))
        child.stdin.close()
        child.wait(CUDA_START_SECONDS)
    judge_held(report, before.gpus[0], during.gpus[0])


def judge_held(report: Report, before: Gpu, during: Gpu) -> None:
    """`before` and `during` are the same card without and with the memory held."""
    taken = (before.free_bytes or 0) - (during.free_bytes or 0)
    context = taken - HELD_BYTES
    low, high = DEVICE_CONTEXT_BYTES
    report.check("memory that a process takes is seen", holds=taken >= HELD_BYTES, detail=f"{taken // MIB} MiB")
    report.check(
        "the driver's context is within the prediction",
        holds=context <= high,
        detail=f"{context // MIB} MiB, predicted {low // MIB} to {high // MIB}",
    )
    if not during.held_by_engine_bytes:
        report.leave_out("memory by process", "the driver shows no process of this name space (a container)")
        return
    report.check(
        "memory that the engine holds counts as free for its next plan",
        holds=abs((during.usable_bytes or 0) - (before.usable_bytes or 0)) <= FREE_APART_MIB * MIB,
        detail=f"{during.held_by_engine_bytes // MIB} MiB held",
    )


def check_plan(report: Report, model: Path) -> None:
    """A plan for this machine: on the card, within its memory."""
    ended = llmops("plan", "--engine", "llama-server", "--model", str(model), "--output", "json")
    report.check("llmops plan ends with 0", holds=ended.returncode == 0, detail=complaint(ended))
    if ended.returncode:
        return
    data = json.loads(ended.stdout)["data"]
    print(f"     {data['plan']['slots']} slots of {data['plan']['context_tokens_per_slot']} tokens", flush=True)
    for warning in data["warnings"]:
        print(f"     {warning}", flush=True)
    for row in data["budget"]:
        report.check(
            f"budget of {row['device']} fits",
            holds=row["free_bytes"] >= 0,
            detail=f"{row['free_bytes'] // MIB} MiB left",
        )


def check_snapshot(report: Report, directory: Path, hardware: Hardware, model: Path) -> None:
    """A recording of this machine that gives the same cards again."""
    with tempfile.TemporaryDirectory(dir=directory) as empty:
        target = Path(empty) / "snapshot"
        ended = llmops("snapshot", str(target), "--model", str(model))
        report.check("llmops snapshot ends with 0", holds=ended.returncode == 0, detail=complaint(ended))
        again = llmops("probe", "--snapshot", str(target), "--output", "json")
        report.check("the recording replays", holds=again.returncode == 0, detail=complaint(again))
        if again.returncode:
            return
        found = json.loads(again.stdout)["data"]["hardware"]
        report.same(
            "cards of the recording", [gpu["name"] for gpu in found["gpus"]], [gpu.name for gpu in hardware.gpus]
        )
        (directory / "hardware.json").write_text(json.dumps(found, indent=1) + "\n")
        kept = directory / "snapshot"
        if not kept.exists():
            target.rename(kept)
    print(f"     recorded into {directory}", flush=True)


def main() -> int:
    """The exit code of the report."""
    directory = Path(sys.argv[1]).resolve()
    report = Report()
    hardware = check_probe(report)
    check_held(report)
    model = find_model(directory)
    check_plan(report, model)
    check_server_memory(report, model)
    check_snapshot(report, directory, hardware, model)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
