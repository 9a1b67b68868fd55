"""What NVML says of a card besides its size: heat, power, a hypervisor's share and its licence, how it is attached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# nvml.h, nvmlClocksEventReason*: bit -> name. The other bits are no limits of the card: idle, chosen clocks, displays.
_REASONS = (
    (0x04, "power_cap"),
    (0x08, "hardware_slowdown"),
    (0x20, "thermal"),
    (0x40, "thermal"),
    (0x80, "power_brake"),
)
_MILLIWATTS_PER_WATT = 1000
Ask = Callable[..., Any]


@dataclass(frozen=True)
class CardState:
    """One card now; None where it does not say."""

    throttle_reasons: tuple[str, ...] = ()
    temperature_celsius: int | None = None
    power_limit_watts: float | None = None
    power_default_watts: float | None = None
    virtual: bool = False
    licensed: bool | None = None
    integrated: bool = False


def read_state(nvml: Any, ask: Ask, handle: Any) -> CardState:
    """`ask(function, *arguments)` gives None where the card or the library does not support a function."""
    virtual = ask(nvml.nvmlDeviceGetVirtualizationMode, handle) == nvml.NVML_GPU_VIRTUALIZATION_MODE_VGPU
    return CardState(
        throttle_reasons=_throttle_reasons(nvml, ask, handle),
        temperature_celsius=ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
        power_limit_watts=_watts(ask(nvml.nvmlDeviceGetEnforcedPowerLimit, handle)),
        power_default_watts=_watts(ask(nvml.nvmlDeviceGetPowerManagementDefaultLimit, handle)),
        virtual=virtual,
        licensed=_licensed(ask(nvml.nvmlDeviceGetGridLicensableFeatures, handle)) if virtual else None,
        integrated=ask(nvml.nvmlDeviceGetBusType, handle) == nvml.NVML_BUS_TYPE_FPCI,
    )


def _throttle_reasons(nvml: Any, ask: Ask, handle: Any) -> tuple[str, ...]:
    """The older name of the function serves drivers before 535."""
    bits = ask(nvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
    if bits is None:
        bits = ask(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle) or 0
    return tuple(dict.fromkeys(name for bit, name in _REASONS if bits & bit))


def _watts(milliwatts: int | None) -> float | None:
    return milliwatts / _MILLIWATTS_PER_WATT if milliwatts else None


def _licensed(features: Any) -> bool | None:
    """Whether a licence is held; None where the driver needs none (nvmlGridLicensableFeatures_t)."""
    if features is None or not features.isGridLicenseSupported:
        return None
    rows = [features.gridLicensableFeatures[number] for number in range(features.licensableFeaturesCount)]
    return any(row.featureState for row in rows)
