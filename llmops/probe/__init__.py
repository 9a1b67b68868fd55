"""One file per source of the machine, one function read_x(host) each; `read_hardware` puts them together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from llmops.core.hardware import Hardware
from llmops.host import Host


def read_hardware(
    host: Host,
    *,
    bandwidth: bool = False,
    cards: bool = True,
    engine_pids: tuple[int, ...] = (),
    engine_limit_bytes: int | None = None,
    engine_environment: Mapping[str, str] | None = None,
) -> Hardware:
    """Everything that can be seen, each value with its source; a source that fails leaves None and a reason.

    Where an engine runs (`engine_pids`, the main process first), its own control group and affinity are what limits it.
    `bandwidth` also measures memory reads (up to three seconds), without `cards` none is looked for;
    `engine_limit_bytes` is the unit's MemoryMax, `engine_environment` what names the devices that the engine may use
    (None: this process's own).
    """
    from llmops.probe.cgroup import read_limits
    from llmops.probe.cpu import read_cpu
    from llmops.probe.memory import read_memory
    from llmops.probe.sources import read_source
    from llmops.probe.swap import read_swap

    process = str(engine_pids[0]) if engine_pids else "self"
    if read_source(host, f"/proc/{process}/cgroup").content is None:
        process = "self"
    limits = read_limits(host, process)
    cpu, cpu_notes = read_cpu(host, limits, process)
    memory, memory_notes = read_memory(host, limits, engine_pids=engine_pids, engine_limit_bytes=engine_limit_bytes)
    swap, swap_notes = read_swap(host)
    hardware = Hardware(cpu=cpu, memory=memory, swap=swap, observations=(*cpu_notes, *memory_notes, *swap_notes))
    if cards:
        hardware = _with_cards(host, hardware, engine_pids, engine_environment)
    if bandwidth:
        from llmops.probe.bandwidth import read_bandwidth

        measured, notes = read_bandwidth(host, cpu, memory)
        hardware = replace(hardware, bandwidth=measured, observations=(*hardware.observations, *notes))
    return hardware


def _with_cards(
    host: Host, hardware: Hardware, engine_pids: tuple[int, ...], engine_environment: Mapping[str, str] | None
) -> Hardware:
    from llmops.probe.cards import read_cards

    found = read_cards(host, hardware.memory, engine_pids, engine_environment)
    return replace(
        hardware,
        gpus=found.reading.gpus,
        gpu_outcome=found.reading.outcome,
        gpu_detail=found.reading.detail,
        driver_version=found.reading.driver_version,
        observations=(*hardware.observations, *found.observations),
        other_gpus=found.others,
        links=found.reading.links,
    )
