"""Which cards a process may use: what CUDA_VISIBLE_DEVICES and its relatives name, and one instance of a divided card.

CUDA gives a process a single instance, however many there are (NVIDIA's MIG user guide, "Device Enumeration").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from llmops.core.hardware import Gpu, Hardware, Observation

_VARIABLES = {
    "nvidia": ("CUDA_VISIBLE_DEVICES",),
    "amd": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"),
}
# Beginnings of the names that engines give their devices -> whose devices these can be; others serve every vendor's.
_BACKENDS = {"CUDA": "nvidia", "ROCm": "amd", "HIP": "amd"}
_OTHER_BUILD = "this build of the engine uses devices of another vendor"
_NOT_CHOSEN = "not among the devices that {} names"
_ONE_INSTANCE = "CUDA gives a process one instance of a divided card; name another one in CUDA_VISIBLE_DEVICES"
_BESIDE_INSTANCE = "CUDA does not use whole cards and instances of a divided card together"


def visible_gpus(
    gpus: tuple[Gpu, ...], environment: Mapping[str, str]
) -> tuple[tuple[Gpu, ...], tuple[tuple[Gpu, str], ...]]:
    """The cards that a process with this environment may use, and every other one with the reason."""
    visible: list[Gpu] = []
    hidden: list[tuple[Gpu, str]] = []
    for vendor in dict.fromkeys(gpu.vendor for gpu in gpus):
        own = tuple(gpu for gpu in gpus if gpu.vendor == vendor)
        chosen, variable = _chosen(own, vendor, environment)
        hidden += [(gpu, _NOT_CHOSEN.format(variable)) for gpu in own if gpu not in chosen]
        usable, unusable = _one_instance(chosen)
        visible += usable
        hidden += unusable
    return tuple(visible), tuple(hidden)


def _chosen(gpus: tuple[Gpu, ...], vendor: str, environment: Mapping[str, str]) -> tuple[tuple[Gpu, ...], str]:
    for variable in _VARIABLES.get(vendor, ()):
        if variable in environment:
            return _named(gpus, environment[variable]), variable
    return gpus, ""


def deciding_variables(vendors: Iterable[str], environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The variables of this environment that decide which cards of these vendors are used, with their values."""
    named = (next((name for name in _VARIABLES.get(vendor, ()) if name in environment), None) for vendor in vendors)
    return tuple((name, environment[name]) for name in dict.fromkeys(named) if name is not None)


def _named(gpus: tuple[Gpu, ...], value: str) -> tuple[Gpu, ...]:
    """Devices in the order named, up to the first word that names none, as CUDA reads the list."""
    found: list[Gpu] = []
    for word in (part.strip() for part in value.split(",")):
        match = _find(gpus, word)
        if match is None:
            break
        if match not in found:
            found.append(match)
    return tuple(found)


def _find(gpus: tuple[Gpu, ...], word: str) -> Gpu | None:
    """By number as the vendor's own tool counts, or by a beginning of the UUID that is nobody else's."""
    if word.isdecimal():
        first = 0 if gpus[0].vendor == "nvidia" else gpus[0].index
        return next((gpu for gpu in gpus if gpu.index == first + int(word)), None)
    matches = [gpu for gpu in gpus if word and gpu.uuid and gpu.uuid.startswith(word)]
    return matches[0] if len(matches) == 1 else None


def _one_instance(gpus: tuple[Gpu, ...]) -> tuple[tuple[Gpu, ...], tuple[tuple[Gpu, str], ...]]:
    instances = [gpu for gpu in gpus if gpu.kind == "instance"]
    whole = tuple(gpu for gpu in gpus if gpu.kind != "instance")
    if not instances:
        return whole, ()
    if gpus[0].kind != "instance":
        return whole, tuple((gpu, _BESIDE_INSTANCE) for gpu in instances)
    rest = tuple((gpu, _ONE_INSTANCE) for gpu in instances[1:])
    return (instances[0],), (*rest, *((gpu, _BESIDE_INSTANCE) for gpu in whole))


def served_by(hardware: Hardware, accelerators: tuple[str, ...] | None) -> Hardware:
    """The hardware with the cards that an engine with these devices uses (None: unknown, () a build without any).

    One build serves one vendor; where it is unknown which, the vendor with the most memory counts.
    """
    vendors = {gpu.vendor for gpu in hardware.gpus}
    if accelerators is None:
        wanted = {max(sorted(vendors), key=lambda vendor: _total_bytes(hardware.gpus, vendor))} if vendors else vendors
    else:
        named = {next((v for start, v in _BACKENDS.items() if name.startswith(start)), None) for name in accelerators}
        wanted = vendors if None in named else {vendor for vendor in named if vendor}
    left = tuple(gpu for gpu in hardware.gpus if gpu.vendor in wanted)
    if left == hardware.gpus or accelerators == ():
        return hardware
    out = tuple(gpu for gpu in hardware.gpus if gpu not in left)
    first = len(hardware.other_gpus)
    notes = tuple(
        Observation(f"other_gpus[{first + place}]", f"{gpu.name} is not counted", _OTHER_BUILD)
        for place, gpu in enumerate(out)
    )
    return replace(
        hardware,
        gpus=left,
        other_gpus=(*hardware.other_gpus, *out),
        observations=(*hardware.observations, *notes),
    )


def _total_bytes(gpus: tuple[Gpu, ...], vendor: str) -> int:
    return sum(gpu.total_bytes or 0 for gpu in gpus if gpu.vendor == vendor)
