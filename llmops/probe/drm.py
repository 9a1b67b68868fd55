"""Graphics devices as the kernel lists them, whatever their vendor (/sys/class/drm), and those without a driver."""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmops.host import Host
from llmops.probe.sources import list_names, read_value

DRM = "/sys/class/drm"
_PCI = "/sys/bus/pci/devices"
_CARD = re.compile(r"card\d+")
_VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel"}
# PCI base class 03 is a display controller, 12 a processing accelerator.
_GRAPHICS_CLASSES = ("0x03", "0x12")


@dataclass(frozen=True)
class GraphicsDevice:
    """One device: its directory, vendor (nvidia, amd, intel, other), kernel driver and PCI address."""

    directory: str
    vendor: str
    driver: str | None
    address: str | None
    device_id: str | None
    render_minor: int | None


def read_graphics_devices(host: Host) -> tuple[GraphicsDevice, ...]:
    """Every device that a kernel driver serves; connectors and render nodes are no devices of their own."""
    names = sorted((name for name in list_names(host, DRM) if _CARD.fullmatch(name)), key=lambda name: int(name[4:]))
    return tuple(_device(host, f"{DRM}/{name}/device") for name in names)


def _device(host: Host, directory: str) -> GraphicsDevice:
    event = _pairs(read_value(host, f"{directory}/uevent"))
    vendor = read_value(host, f"{directory}/vendor") or f"0x{event.get('PCI_ID', '').partition(':')[0].lower()}"
    minors = [name[7:] for name in list_names(host, f"{directory}/drm") if re.fullmatch(r"renderD\d+", name)]
    return GraphicsDevice(
        directory=directory,
        vendor=_VENDORS.get(vendor, "other"),
        driver=event.get("DRIVER"),
        address=event.get("PCI_SLOT_NAME"),
        device_id=read_value(host, f"{directory}/device"),
        render_minor=int(minors[0]) if minors else None,
    )


def _pairs(text: str | None) -> dict[str, str]:
    return dict(line.split("=", 1) for line in (text or "").splitlines() if "=" in line)


def read_vendors_on_bus(host: Host) -> frozenset[str]:
    """Vendors of graphics devices on the PCI bus, with or without a driver."""
    found = set()
    for name in list_names(host, _PCI):
        kind = read_value(host, f"{_PCI}/{name}/class") or ""
        if kind.startswith(_GRAPHICS_CLASSES):
            found.add(_VENDORS.get(read_value(host, f"{_PCI}/{name}/vendor") or "", "other"))
    return frozenset(found)
