"""What a person should know of a machine before relying on it; `code` is the doctor's word for the same thing."""

from __future__ import annotations

from dataclasses import dataclass

from llmops.core.hardware import Cpu, Gpu, Hardware, Memory
from llmops.core.units import format_bytes, format_rate

Value = int | float | str | bool

# A quota that ran out in more than this share of its periods slows an engine down by itself.
THROTTLED_OFTEN = 0.2
# Limits that only round the default are no limits.
_LOWERED_LIMIT = 0.95
# Free memory that looks this much smaller to a program leads it to other decisions.
_MISREAD_MEMORY = 0.8
_UNEQUAL_BANDWIDTH = 1.5
_SLOWED = {
    "thermal": "it is too hot",
    "hardware_slowdown": "its own protection slows it down",
    "power_brake": "its power supply asks it to",
}


@dataclass(frozen=True)
class Notice:
    """One thing to know; `severity` is info, warning or critical, `values` what it rests on."""

    code: str
    severity: str
    message: str
    values: tuple[tuple[str, Value], ...] = ()
    devices: tuple[int, ...] = ()


def hardware_notices(hardware: Hardware) -> tuple[Notice, ...]:
    """Everything that the probe's values alone tell, cards first."""
    return (*card_notices(hardware), *processor_notices(hardware.cpu), *_memory_notices(hardware.memory))


def card_notices(hardware: Hardware) -> tuple[Notice, ...]:
    """Shared memory, instances, lent shares, heat and power, unequal cards, graphics that do not count."""
    notices = [notice for gpu in hardware.gpus for notice in _of_card(gpu, hardware)]
    notices += _unequal(hardware.gpus)
    if hardware.gpu_outcome == "version_mismatch":
        message = "the NVIDIA library and the loaded module are of different versions: reboot, or no card can be used"
        notices.append(Notice("gpu-driver-mismatch", "critical", message))
    left_out = [gpu for gpu in hardware.other_gpus if gpu.kind == "integrated"]
    if left_out and not hardware.gpus:
        names = ", ".join(gpu.name for gpu in left_out)
        message = f"{names} is not used: integrated graphics share the processor's memory and are not faster"
        notices.append(Notice("igpu-not-worth-it", "info", message))
    return tuple(notices)


def one_slot(engine: str, where: str, in_flight: int | None) -> Notice:
    """A server that takes one request at a time, and what that means to several users."""
    message = (
        f"{engine} ({where}) has 1 slot: of five users who ask at once four wait in line. That is a queue, nothing is"
        " broken; llmops plan says how many slots this machine can serve"
    )
    values: tuple[tuple[str, Value], ...] = (("slots", 1),)
    values = values if in_flight is None else (*values, ("requests_in_flight", in_flight))
    return Notice("one-slot", "info", message, values)


def _of_card(gpu: Gpu, hardware: Hardware) -> list[Notice]:
    found = [_shared(gpu, hardware), _instance(gpu), _lent(gpu), _slowed(gpu), _limited(gpu)]
    return [notice for notice in found if notice is not None]


def _shared(gpu: Gpu, hardware: Hardware) -> Notice | None:
    if not gpu.unified:
        return None
    values: list[tuple[str, Value]] = [("gpus", len(hardware.gpus)), ("unified", True)]
    values += [("total_bytes", gpu.total_bytes)] if gpu.total_bytes is not None else []
    values += [("available_bytes", gpu.free_bytes)] if gpu.free_bytes is not None else []
    reach = "" if gpu.total_bytes is None else f" (it reaches {format_bytes(gpu.total_bytes)})"
    message = f"{gpu.name} has no memory of its own{reach}: the host's is counted once, for both"
    return Notice("unified-memory", "info", message, tuple(values), (gpu.index,))


def _instance(gpu: Gpu) -> Notice | None:
    if gpu.kind != "instance":
        return None
    size = "its own memory" if gpu.total_bytes is None else f"its own {format_bytes(gpu.total_bytes)}"
    values = () if gpu.total_bytes is None else (("vram_total_bytes", gpu.total_bytes),)
    message = f"{gpu.name} is one instance of a divided card: {size} counts, not the card's"
    return Notice("mig-detected", "info", message, values, (gpu.index,))


def _lent(gpu: Gpu) -> Notice | None:
    if gpu.kind != "virtual":
        return None
    if gpu.licensed is False:
        message = f"{gpu.name} is a virtual card without a licence: its driver slows it down after some 20 minutes"
        return Notice("vgpu-unlicensed", "critical", message, (), (gpu.index,))
    message = f"{gpu.name} is lent by a hypervisor and may be shared with other machines: speeds are upper limits"
    return Notice("vgpu-detected", "info", message, (), (gpu.index,))


def _slowed(gpu: Gpu) -> Notice | None:
    """A power cap that is reached is normal work; the other reasons are not."""
    reasons = [_SLOWED[name] for name in gpu.throttle_reasons if name in _SLOWED]
    if not reasons:
        return None
    heat = "" if gpu.temperature_celsius is None else f" ({gpu.temperature_celsius} degrees Celsius)"
    message = f"{gpu.name} runs below its clocks now: {' and '.join(reasons)}{heat}"
    return Notice("gpu-thermal-throttle", "warning", message, (), (gpu.index,))


def _limited(gpu: Gpu) -> Notice | None:
    limit, default = gpu.power_limit_watts, gpu.power_default_watts
    if limit is None or default is None or limit >= default * _LOWERED_LIMIT:
        return None
    message = f"{gpu.name} is limited to {limit:.0f} of {default:.0f} W: prompts are read more slowly than on its kind"
    return Notice("gpu-power-limited", "info", message, (("watts", limit), ("default_watts", default)), (gpu.index,))


def _unequal(gpus: tuple[Gpu, ...]) -> list[Notice]:
    rates = [gpu.bandwidth_bytes_per_second for gpu in gpus]
    known = [rate for rate in rates if rate]
    if len(known) < 2 or len(known) < len(gpus) or max(known) < _UNEQUAL_BANDWIDTH * min(known):
        return []
    message = (
        f"the cards are unequal ({', '.join(format_rate(rate) for rate in known)}): each holds layers by its free"
        " memory, and every token waits for the slow one's share"
    )
    return [Notice("gpus-unequal", "info", message, (), tuple(gpu.index for gpu in gpus))]


def processor_notices(cpu: Cpu) -> tuple[Notice, ...]:
    """Missing instruction sets, and a quota that an engine does not see."""
    found = [_without_vectors(cpu), _quota(cpu)]
    return tuple(notice for notice in found if notice is not None)


def _without_vectors(cpu: Cpu) -> Notice | None:
    is_x86 = cpu.architecture == "x86_64" or "sse4_2" in cpu.flags
    if not is_x86 or not cpu.flags or "avx2" in cpu.flags:
        return None
    message = "the processor shows no AVX2: engines take their slowest code, or do not start"
    if cpu.hypervisor is None:
        return Notice("cpu-no-avx2", "warning", message)
    message += "; set the virtual machine's processor type to host (or x86-64-v3)"
    return Notice("cpu-no-avx2", "warning", message, (("hypervisor", cpu.hypervisor), ("fix", "cpu-type-host")))


def _quota(cpu: Cpu) -> Notice | None:
    seen = cpu.affinity_cpus or cpu.logical_cpus
    if cpu.quota_cores is None or cpu.usable_threads is None or seen is None or seen <= cpu.usable_threads:
        return None
    values: tuple[tuple[str, Value], ...] = (("threads", cpu.usable_threads), ("processors_seen", seen))
    message = (
        f"a quota gives {cpu.quota_cores:g} of the {seen} processors that an engine counts:"
        f" more than {cpu.usable_threads} threads stop each other"
    )
    severity = "warning"
    if cpu.throttled_ratio is not None:
        values = (*values, ("throttled_ratio", cpu.throttled_ratio))
        if cpu.throttled_ratio > THROTTLED_OFTEN:
            severity = "critical"
            message += f"; the quota ran out in {cpu.throttled_ratio:.0%} of its periods"
    return Notice("threads-over-quota", severity, message, values)


def _memory_notices(memory: Memory) -> tuple[Notice, ...]:
    """A container without a limit: what its files have brought into the page cache is not gone."""
    total, available, used = memory.total_bytes, memory.available_bytes, memory.group_used_bytes
    if total is None or available is None or used is None or memory.limit_bytes is not None:
        return ()
    seen = max(0, total - used)
    if seen >= available * _MISREAD_MEMORY:
        return ()
    message = (
        f"an engine that takes its control group's use for gone sees {format_bytes(seen)} free; with the page cache"
        f" {format_bytes(available)} are available"
    )
    values = (("available_bytes", available), ("engine_sees_bytes", seen))
    return (Notice("cgroup-memory-pagecache", "warning", message, values),)
