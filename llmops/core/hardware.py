"""What a machine is: processors, memory, swap, graphics cards. None means not observed, never zero."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Observation:
    """Where one value came from (`source`), or why it is None (`reason`)."""

    quantity: str
    source: str
    reason: str | None = None


@dataclass(frozen=True)
class Cpu:
    """Processors that the machine has and the share of them that this process may use.

    `usable_threads` counts hardware threads, `usable_cores` physical cores, both within affinity and quota.
    `throttled_ratio` is the share of the quota's periods in which it ran out, `hypervisor` what runs this machine.
    """

    model: str | None = None
    architecture: str | None = None
    physical_cores: int | None = None
    logical_cpus: int | None = None
    threads_per_core: int | None = None
    performance_cores: int | None = None
    efficiency_cores: int | None = None
    numa_nodes: int | None = None
    flags: tuple[str, ...] = ()
    affinity_cpus: int | None = None
    quota_cores: float | None = None
    usable_threads: int | None = None
    last_level_cache_bytes: int | None = None
    usable_cores: int | None = None
    throttled_ratio: float | None = None
    hypervisor: str | None = None


@dataclass(frozen=True)
class Memory:
    """Host memory: `limit_bytes` is the smallest control-group limit, `held_by_engine_bytes` what the engine holds.

    `group_used_bytes` is the use of the outermost visible control group, page cache included: what programs see that
    take it for memory that is gone.
    """

    total_bytes: int | None = None
    available_bytes: int | None = None
    limit_bytes: int | None = None
    limit_available_bytes: int | None = None
    limit_source: str | None = None
    engine_limit_bytes: int | None = None
    held_by_engine_bytes: int = 0
    pressure_some_percent: float | None = None
    pressure_full_percent: float | None = None
    group_used_bytes: int | None = None

    @property
    def rooms(self) -> tuple[tuple[int, int], ...]:
        """(bytes that a new plan may take, size of the whole) under each known limit.

        What the tuned engine holds counts as free.
        """
        held, limit = self.held_by_engine_bytes, self.limit_bytes
        pairs = (
            (None if self.available_bytes is None else self.available_bytes + held, self.total_bytes),
            (None if self.limit_available_bytes is None else self.limit_available_bytes + held, limit),
            (self.engine_limit_bytes, self.engine_limit_bytes),
            (self.total_bytes, self.total_bytes),
        )
        return tuple((room, room if whole is None else whole) for room, whole in pairs if room is not None)

    @property
    def usable_bytes(self) -> int | None:
        """What a new plan may take: the least of every limit."""
        return min((room for room, _ in self.rooms), default=None)


@dataclass(frozen=True)
class Swap:
    """Swap space; it is never counted as memory. `kind` is none, file, partition, zram or mixed."""

    total_bytes: int | None = None
    used_bytes: int | None = None
    kind: str | None = None


@dataclass(frozen=True)
class GpuProcess:
    """A process that holds memory on a card."""

    pid: int
    used_bytes: int | None


@dataclass(frozen=True)
class Gpu:
    """One graphics card (or one instance of a divided one; instances share the card's index and differ in uuid).

    `held_by_engine_bytes` is what the tuned engine holds of it and would give back to a new plan. `kind` is card,
    instance (of a divided card), virtual (a share that a hypervisor lends) or integrated; `vendor` is nvidia, amd or
    intel. `unified` memory is the host's own, and `total_bytes` of it may be used. `throttle_reasons` are those of now:
    thermal, power_brake, hardware_slowdown, power_cap. `licensed` is None where no licence is needed.
    """

    index: int
    uuid: str | None
    name: str
    total_bytes: int | None
    free_bytes: int | None
    compute_capability: tuple[int, int] | None = None
    bandwidth_bytes_per_second: int | None = None
    bus_width_bits: int | None = None
    memory_clock_hertz: int | None = None
    unified: bool = False
    processes: tuple[GpuProcess, ...] = ()
    held_by_engine_bytes: int = 0
    vendor: str = "nvidia"
    kind: str = "card"
    parent_uuid: str | None = None
    architecture: str | None = None
    compute_units: int | None = None
    throttle_reasons: tuple[str, ...] = ()
    temperature_celsius: int | None = None
    power_limit_watts: float | None = None
    power_default_watts: float | None = None
    licensed: bool | None = None

    @property
    def usable_bytes(self) -> int | None:
        """What a new plan may take: the free memory and what the tuned engine holds."""
        return None if self.free_bytes is None else self.free_bytes + self.held_by_engine_bytes


@dataclass(frozen=True)
class CardLink:
    """How two cards, by their indexes, reach each other.

    `kind` is nvlink, xgmi or pcie; `bytes_per_second` is the peak in one direction, `path` what lies between them on
    PCIe, `peer_access` whether one reads the other's memory without the host's in between.
    """

    first: int
    second: int
    kind: str | None = None
    bytes_per_second: int | None = None
    path: str | None = None
    peer_access: bool | None = None


@dataclass(frozen=True)
class GpuReading:
    """The cards, or why none could be seen.

    `outcome` is ok, library_missing, driver_not_loaded, version_mismatch, no_permission, no_devices or failed.
    """

    outcome: str
    detail: str
    gpus: tuple[Gpu, ...] = ()
    driver_version: str | None = None
    links: tuple[CardLink, ...] = ()


@dataclass(frozen=True)
class Bandwidth:
    """Measured memory read rate: the median of the passes, and their spread (max - min) / median."""

    read_bytes_per_second: int | None
    spread: float | None
    buffer_bytes: int | None
    threads: int | None
    passes: int
    reliable: bool
    reason: str | None


@dataclass(frozen=True)
class Hardware:
    """Everything that sizing needs to know about one machine.

    `gpus` are the cards that a plan counts with; `other_gpus` were seen and do not count: see their observations.
    `links` are the pairs of cards of which it is known how they reach each other.
    """

    cpu: Cpu = field(default_factory=Cpu)
    memory: Memory = field(default_factory=Memory)
    swap: Swap = field(default_factory=Swap)
    gpus: tuple[Gpu, ...] = ()
    gpu_outcome: str = "not_looked"
    gpu_detail: str = ""
    driver_version: str | None = None
    bandwidth: Bandwidth | None = None
    observations: tuple[Observation, ...] = ()
    other_gpus: tuple[Gpu, ...] = ()
    links: tuple[CardLink, ...] = ()
