"""One file per source of the machine, one function read_x(host) each; `read_hardware` puts them together."""

from __future__ import annotations

from llmops.core.hardware import Hardware
from llmops.host import Host


def read_hardware(
    host: Host,
    *,
    bandwidth: bool = False,
    engine_pids: tuple[int, ...] = (),
    engine_limit_bytes: int | None = None,
) -> Hardware:
    """Everything that can be seen, each value with its source; a source that fails leaves None and a reason.

    Where an engine runs (`engine_pids`, the main process first), its own control group and affinity are what limits it.
    `bandwidth` also measures memory reads (up to three seconds); `engine_limit_bytes` is the unit's MemoryMax.
    """
    from llmops.probe.bandwidth import read_bandwidth
    from llmops.probe.cgroup import read_limits
    from llmops.probe.cpu import read_cpu
    from llmops.probe.memory import read_memory
    from llmops.probe.nvidia import read_nvidia
    from llmops.probe.sources import read_source
    from llmops.probe.swap import read_swap

    process = str(engine_pids[0]) if engine_pids else "self"
    if read_source(host, f"/proc/{process}/cgroup").content is None:
        process = "self"
    limits = read_limits(host, process)
    cpu, cpu_notes = read_cpu(host, limits, process)
    memory, memory_notes = read_memory(host, limits, engine_pids=engine_pids, engine_limit_bytes=engine_limit_bytes)
    swap, swap_notes = read_swap(host)
    reading, gpu_notes = read_nvidia(host, memory, engine_pids)
    measured, bandwidth_notes = read_bandwidth(host, cpu, memory) if bandwidth else (None, ())
    return Hardware(
        cpu=cpu,
        memory=memory,
        swap=swap,
        gpus=reading.gpus,
        gpu_outcome=reading.outcome,
        gpu_detail=reading.detail,
        driver_version=reading.driver_version,
        bandwidth=measured,
        observations=(*cpu_notes, *memory_notes, *swap_notes, *gpu_notes, *bandwidth_notes),
    )
