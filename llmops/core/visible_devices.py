"""Which cards a process may use: what CUDA_VISIBLE_DEVICES and its relatives name, and one instance of a divided card.

CUDA gives a process a single instance, however many there are (NVIDIA's MIG user guide, "Device Enumeration").
"""

from __future__ import annotations

from collections.abc import Mapping

from llmops.core.hardware import Gpu

_VARIABLES = {
    "nvidia": ("CUDA_VISIBLE_DEVICES",),
    "amd": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"),
}
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
