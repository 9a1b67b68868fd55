"""Values that the user gives instead of what was probed, and the text form of a graphics card."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, replace
from itertools import combinations
from typing import TypeVar

from llmops.core.errors import UsageError
from llmops.core.hardware import Bandwidth, CardLink, Gpu, Hardware, Memory, Observation
from llmops.core.units import format_bytes, parse_bytes, parse_rate

GIVEN = "given"
GPU_FORM = "NAME:TOTAL[:FREE[:CAPABILITY[:BANDWIDTH]]]"
_GPU_HINT = f"write {GPU_FORM}, such as 'RTX 3090:24GiB:23GiB:8.6:936GB/s'"
_CAPABILITY = re.compile(r"(\d{1,2})\.(\d)")

T = TypeVar("T")


def override_hardware(
    hardware: Hardware,
    *,
    ram_bytes: int | None = None,
    ram_available_bytes: int | None = None,
    swap_bytes: int | None = None,
    cores: int | None = None,
    bandwidth_bytes_per_second: int | None = None,
    gpus: tuple[Gpu, ...] | None = None,
    no_gpu: bool = False,
    links: str | None = None,
) -> Hardware:
    """The hardware with the given values put in, each observed as `given`; raise UsageError for impossible ones.

    `ram_bytes` stands for another machine, all of it available unless `ram_available_bytes` says less; the latter alone
    is room on this one. `cores` are physical cores without a quota, `swap_bytes` is empty swap, `links` the kind of
    every link between the cards.
    """
    total = hardware.memory.total_bytes if ram_bytes is None else ram_bytes
    _check(total_bytes=total, available_bytes=ram_available_bytes, cores=cores, no_gpu=no_gpu, gpus=gpus)
    if ram_bytes is not None or ram_available_bytes is not None:
        hardware = _with_memory(hardware, ram_bytes, ram_available_bytes)
    if swap_bytes is not None:
        kind = "none" if swap_bytes == 0 else None
        swap = replace(hardware.swap, total_bytes=swap_bytes, used_bytes=0, kind=kind)
        hardware = _given(replace(hardware, swap=swap), "swap.total_bytes", "swap.used_bytes", "swap.kind")
    if cores is not None:
        hardware = _with_cores(hardware, cores)
    if bandwidth_bytes_per_second is not None:
        bandwidth = Bandwidth(bandwidth_bytes_per_second, None, None, None, 0, reliable=True, reason=None)
        hardware = _given(replace(hardware, bandwidth=bandwidth), "bandwidth.read_bytes_per_second")
    if no_gpu or gpus is not None:
        hardware = _with_gpus(hardware, () if no_gpu else gpus or ())
    return hardware if links is None else _with_links(hardware, links)


def _check(
    *,
    total_bytes: int | None,
    available_bytes: int | None,
    cores: int | None,
    no_gpu: bool,
    gpus: tuple[Gpu, ...] | None,
) -> None:
    if total_bytes is not None and total_bytes <= 0:
        raise UsageError("a machine needs memory", hint="give --ram a size above zero, such as 32GiB")
    if total_bytes is not None and available_bytes is not None and available_bytes > total_bytes:
        raise UsageError(
            f"{format_bytes(available_bytes)} cannot be available of {format_bytes(total_bytes)}",
            hint="lower --ram-available, or give the machine's memory with --ram",
        )
    if cores is not None and cores < 1:
        raise UsageError(f"{cores} cores cannot run anything", hint="give --cores a number of at least 1")
    if no_gpu and gpus:
        raise UsageError("--gpu and --no-gpu exclude each other", hint="leave one of them out")


def _with_memory(hardware: Hardware, total: int | None, available: int | None) -> Hardware:
    """A total describes another machine, so nothing that was seen here limits it and all of it counts as available.

    An available figure alone belongs to this machine: it replaces every estimate of room, hard limits stay.
    """
    probed = hardware.memory
    if total is not None:
        memory = Memory(total_bytes=total, available_bytes=total if available is None else available)
        given = {"memory.total_bytes", "memory.available_bytes"}
    else:
        memory = replace(probed, available_bytes=available, limit_available_bytes=None, held_by_engine_bytes=0)
        given = {"memory.available_bytes"}
    changed = {f"memory.{row.name}" for row in fields(Memory) if getattr(memory, row.name) != getattr(probed, row.name)}
    return _given(replace(hardware, memory=memory), *sorted(given), cleared=tuple(sorted(changed - given)))


def _with_cores(hardware: Hardware, cores: int) -> Hardware:
    """That many equal physical cores, one thread each, all of them usable."""
    cpu = replace(
        hardware.cpu,
        physical_cores=cores,
        logical_cpus=cores,
        threads_per_core=1,
        performance_cores=cores,
        efficiency_cores=0,
        affinity_cpus=None,
        quota_cores=None,
        usable_threads=cores,
        usable_cores=cores,
    )
    names = ("physical_cores", "logical_cpus", "threads_per_core", "performance_cores", "efficiency_cores")
    given = tuple(f"cpu.{name}" for name in (*names, "usable_threads", "usable_cores"))
    return _given(replace(hardware, cpu=cpu), *given, cleared=("cpu.affinity_cpus", "cpu.quota_cores"))


def _with_gpus(hardware: Hardware, gpus: tuple[Gpu, ...]) -> Hardware:
    numbered = tuple(replace(gpu, index=index) for index, gpu in enumerate(gpus))
    replaced_names = ("gpus", "other_gpus", "links")
    observations = tuple(row for row in hardware.observations if not row.quantity.startswith(replaced_names))
    replaced = replace(
        hardware,
        gpus=numbered,
        other_gpus=(),
        gpu_outcome="ok" if numbered else "no_devices",
        gpu_detail=GIVEN,
        driver_version=None,
        observations=observations,
        links=(),
    )
    return _given(replaced, "gpus")


def _with_links(hardware: Hardware, kind: str) -> Hardware:
    """Every two cards linked like that; how fast is not said."""
    pairs = combinations(sorted({gpu.index for gpu in hardware.gpus}), 2)
    kept = tuple(row for row in hardware.observations if not row.quantity.startswith("links"))
    linked = tuple(CardLink(first, second, kind) for first, second in pairs)
    return _given(replace(hardware, links=linked, observations=kept), "links")


def _given(hardware: Hardware, *quantities: str, cleared: tuple[str, ...] = ()) -> Hardware:
    """Put `given` in place of the observations of these quantities; the cleared ones say why they are empty."""
    replaced = {*quantities, *cleared}
    kept = tuple(row for row in hardware.observations if row.quantity not in replaced)
    given = tuple(Observation(quantity, GIVEN) for quantity in quantities)
    empty = tuple(Observation(quantity, GIVEN, "another value was given in its place") for quantity in cleared)
    return replace(hardware, observations=(*kept, *given, *empty))


def parse_gpu(text: str) -> Gpu:
    """`RTX 3090:24GiB:23GiB:8.6:936GB/s` as a card; an empty part counts as left out, and free as the total.

    Raise UsageError for anything else.
    """
    name, *parts = (part.strip() for part in text.split(":"))
    if not name or not parts or not parts[0] or len(parts) > 4:
        raise UsageError(f"{text!r} is not {GPU_FORM}", hint=_GPU_HINT)
    total_text, free_text, capability_text, bandwidth_text = [*parts, "", "", ""][:4]
    total = parse_bytes(total_text)
    free = _optional(parse_bytes, free_text)
    if total <= 0:
        raise UsageError(f"{text!r}: a card needs memory", hint=_GPU_HINT)
    if free is not None and free > total:
        raise UsageError(f"{text!r}: more memory is free than there is", hint=_GPU_HINT)
    return Gpu(
        index=0,
        uuid=None,
        name=name,
        total_bytes=total,
        free_bytes=total if free is None else free,
        compute_capability=_optional(_parse_capability, capability_text),
        bandwidth_bytes_per_second=_optional(parse_rate, bandwidth_text),
    )


def _optional(parse: Callable[[str], T], text: str) -> T | None:
    return parse(text) if text else None


def _parse_capability(text: str) -> tuple[int, int]:
    match = _CAPABILITY.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not a compute capability", hint="write it as NVIDIA does, such as 8.6")
    return int(match.group(1)), int(match.group(2))
