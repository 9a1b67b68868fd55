"""NVIDIA's systems on a chip (Jetson), whose older software has no NVML: the device tree names them."""

from __future__ import annotations

from llmops.core.hardware import Gpu
from llmops.host import Host
from llmops.probe.sources import read_value

_TREE = "/proc/device-tree"
# The chip in the device tree's `compatible` -> compute capability (NVIDIA's table of CUDA devices).
_CHIPS = {
    "nvidia,tegra210": (5, 3),
    "nvidia,tegra186": (6, 2),
    "nvidia,tegra194": (7, 2),
    "nvidia,tegra234": (8, 7),
    "nvidia,tegra264": (11, 0),
}


def read_jetson(host: Host) -> Gpu | None:
    """The graphics part of such a system, its memory shared with the processor; None on every other machine."""
    compatible = read_value(host, f"{_TREE}/compatible") or ""
    chip = next((name for name in _CHIPS if name in compatible.split("\0")), None)
    if chip is None:
        return None
    model = (read_value(host, f"{_TREE}/model") or chip).rstrip("\0").strip()
    return Gpu(
        index=0,
        uuid=None,
        name=model,
        total_bytes=None,
        free_bytes=None,
        compute_capability=_CHIPS[chip],
        unified=True,
        kind="integrated",
    )
