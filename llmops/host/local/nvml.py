"""Asks NVIDIA's management library about the cards; every way of not getting an answer is its own outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from llmops.core.hardware import Gpu, GpuProcess, GpuReading
from llmops.host.local.nvml_links import read_links
from llmops.host.local.nvml_state import CardState, read_state

_INIT_OUTCOMES = {
    "NVML_ERROR_LIBRARY_NOT_FOUND": ("library_missing", "libnvidia-ml.so.1 is not installed: no NVIDIA driver here"),
    "NVML_ERROR_DRIVER_NOT_LOADED": (
        "driver_not_loaded",
        "the NVIDIA driver is installed but its module is not loaded",
    ),
    "NVML_ERROR_LIB_RM_VERSION_MISMATCH": (
        "version_mismatch",
        "libnvidia-ml and the loaded kernel module are of different versions: the driver was upgraded without a reboot",
    ),
    "NVML_ERROR_NO_PERMISSION": ("no_permission", "this user may not open the NVIDIA device files"),
}
# Memory clocks are reported once per cycle; every memory type on these cards moves data on both edges.
_TRANSFERS_PER_CLOCK = 2
_BITS_PER_BYTE = 8
_HERTZ_PER_MEGAHERTZ = 1_000_000


def read_gpus() -> GpuReading:
    """Every card that NVML shows (instances of a divided card instead of the card), or why there is none."""
    try:
        import pynvml
    except ImportError as error:
        return GpuReading("library_missing", f"the Python package nvidia-ml-py cannot be imported: {error}")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return GpuReading(*_init_outcome(pynvml, error))
    try:
        return read_reading(pynvml)
    except pynvml.NVMLError as error:
        return GpuReading("failed", f"NVML: {error}")
    finally:
        _shut_down(pynvml)


def read_reading(pynvml: Any) -> GpuReading:
    """Every card that this module, whose library is started, shows; raise its NVMLError where nothing can be read."""
    return _Reader(pynvml).reading()


def _shut_down(pynvml: Any) -> None:
    try:
        pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        # The reading is complete; the process gives the library back when it ends.
        return


def _init_outcome(pynvml: Any, error: Any) -> tuple[str, str]:
    for name, outcome in _INIT_OUTCOMES.items():
        if error.value == getattr(pynvml, name):
            return outcome
    return "failed", f"NVML did not start: {error}"


class _Reader:
    """Reads cards with NVML started; a value that one card does not support is None."""

    def __init__(self, pynvml: Any) -> None:
        self._nvml = pynvml
        self._refused: list[str] = []
        self._codes: list[int] = []
        self._whole_cards: dict[int, Any] = {}

    def reading(self) -> GpuReading:
        driver = self._text(self._nvml.nvmlSystemGetDriverVersion)
        count = self._nvml.nvmlDeviceGetCount()
        gpus = tuple(gpu for index in range(count) for gpu in self._card(index))
        detail = "; ".join([f"{len(gpus)} seen by NVML", *self._refused])
        if gpus:
            return GpuReading("ok", detail, gpus, driver, read_links(self._nvml, self._value, self._whole_cards))
        if not self._refused:
            return GpuReading("no_devices", "the driver is loaded and shows no card", (), driver)
        only_permission = set(self._codes) == {self._nvml.NVML_ERROR_NO_PERMISSION}
        return GpuReading("no_permission" if only_permission else "failed", "; ".join(self._refused), (), driver)

    def _card(self, index: int) -> tuple[Gpu, ...]:
        try:
            handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
            instances = tuple(self._instances(handle))
            card = self._gpu(index, handle, self._parent_memory(handle) if instances else self._memory(handle))
        except self._nvml.NVMLError as error:
            self._refused.append(f"card {index}: {error}")
            self._codes.append(error.value)
            return ()
        if not instances and not card.unified:
            self._whole_cards[index] = handle
        return tuple(self._instance(card, instance) for instance in instances) or (card,)

    def _gpu(self, index: int, handle: Any, memory: tuple[int | None, int | None, bool]) -> Gpu:
        state = read_state(self._nvml, self._value, handle)
        total, free, unified = (None, None, True) if state.integrated else memory
        bus_width = self._value(self._nvml.nvmlDeviceGetMemoryBusWidth, handle) or None
        megahertz = self._value(self._nvml.nvmlDeviceGetMaxClockInfo, handle, self._nvml.NVML_CLOCK_MEM)
        clock = megahertz * _HERTZ_PER_MEGAHERTZ if megahertz else None
        return Gpu(
            index=index,
            uuid=self._text(self._nvml.nvmlDeviceGetUUID, handle),
            name=self._text(self._nvml.nvmlDeviceGetName, handle) or "unknown NVIDIA card",
            total_bytes=total,
            free_bytes=free,
            compute_capability=self._value(self._nvml.nvmlDeviceGetCudaComputeCapability, handle),
            bandwidth_bytes_per_second=memory_bandwidth(bus_width, clock),
            bus_width_bits=bus_width,
            memory_clock_hertz=clock,
            unified=unified,
            processes=self._processes(handle),
            kind=_kind(state, unified=unified),
            throttle_reasons=state.throttle_reasons,
            temperature_celsius=state.temperature_celsius,
            power_limit_watts=state.power_limit_watts,
            power_default_watts=state.power_default_watts,
            licensed=state.licensed,
        )

    def _instances(self, handle: Any) -> Iterator[Any]:
        """Handles of the instances of a divided card (MIG); none where the card is whole."""
        mode = self._value(self._nvml.nvmlDeviceGetMigMode, handle)
        if not mode or not mode[0]:
            return
        for number in range(self._value(self._nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
            instance = self._value(self._nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number)
            if instance is not None:
                yield instance

    def _instance(self, card: Gpu, handle: Any) -> Gpu:
        """An instance owns slices of the memory, and with them that share of the card's bandwidth."""
        total, free, _ = self._memory(handle)
        bandwidth = card.bandwidth_bytes_per_second
        shared = bandwidth * total // card.total_bytes if bandwidth and total and card.total_bytes else None
        return Gpu(
            index=card.index,
            uuid=self._text(self._nvml.nvmlDeviceGetUUID, handle),
            name=self._text(self._nvml.nvmlDeviceGetName, handle) or card.name,
            total_bytes=total,
            free_bytes=free,
            compute_capability=card.compute_capability,
            bandwidth_bytes_per_second=shared,
            processes=self._processes(handle),
            kind="instance",
            parent_uuid=card.uuid,
            throttle_reasons=card.throttle_reasons,
            temperature_celsius=card.temperature_celsius,
            power_limit_watts=card.power_limit_watts,
            power_default_watts=card.power_default_watts,
        )

    def _parent_memory(self, handle: Any) -> tuple[int | None, int | None, bool]:
        """The memory of a whole divided card, which a container that was lent one instance may not ask for."""
        try:
            return self._memory(handle)
        except self._nvml.NVMLError:
            return None, None, False

    def _memory(self, handle: Any) -> tuple[int | None, int | None, bool]:
        """Total, free, and whether the card has no memory of its own (the call is not supported there)."""
        nvml = self._nvml
        outdated = {nvml.NVML_ERROR_FUNCTION_NOT_FOUND, nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH}
        try:
            try:
                memory = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
            except nvml.NVMLError as error:
                if error.value not in outdated:
                    raise
                memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_NOT_SUPPORTED:
                return None, None, True
            raise
        return memory.total, memory.free, False

    def _processes(self, handle: Any) -> tuple[GpuProcess, ...]:
        """A process that computes and draws is in both lists, with the same memory."""
        used: dict[int, int | None] = {}
        for ask in (
            self._nvml.nvmlDeviceGetComputeRunningProcesses,
            self._nvml.nvmlDeviceGetGraphicsRunningProcesses,
        ):
            for process in self._value(ask, handle) or ():
                used[process.pid] = process.usedGpuMemory or used.get(process.pid)
        return tuple(GpuProcess(pid, used_bytes) for pid, used_bytes in sorted(used.items()))

    def _value(self, ask: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return ask(*arguments)
        except (self._nvml.NVMLError, self._nvml.NVMLLibraryMismatchError):
            return None

    def _text(self, ask: Callable[..., Any], *arguments: Any) -> str | None:
        value = self._value(ask, *arguments)
        return value.decode(errors="replace") if isinstance(value, bytes) else value


def _kind(state: CardState, *, unified: bool) -> str:
    if unified:
        return "integrated"
    return "virtual" if state.virtual else "card"


def memory_bandwidth(bus_width_bits: int | None, memory_clock_hertz: int | None) -> int | None:
    """Peak bytes per second: 384 bits at 9,751 MHz give 936 GB/s (RTX 3090), 5,120 at 1,593 MHz 2,039 (A100 80 GB)."""
    if bus_width_bits is None or memory_clock_hertz is None:
        return None
    return memory_clock_hertz * _TRANSFERS_PER_CLOCK * bus_width_bits // _BITS_PER_BYTE
