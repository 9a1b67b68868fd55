"""Hand-made file trees of machines, with the figures that such machines show, and a host that serves them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePath

from llmops.core.hardware import GpuReading
from llmops.core.units import GIB, KIB
from llmops.host.recorded import RecordedHost
from llmops.host.recording import Recording

CPU = "/sys/devices/system/cpu"
NO_CARDS = GpuReading("library_missing", "libnvidia-ml.so.1 is not installed")
MOUNT_V2 = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"


class TreeHost(RecordedHost):
    """Serves texts from a dictionary; what is not in it does not exist, an OSError in it is raised."""

    def __init__(
        self,
        files: Mapping[str, str | OSError],
        *,
        affinity: int | None = None,
        reading: GpuReading = NO_CARDS,
        read_seconds: Callable[[int, int, int], tuple[float, ...]] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(Recording())
        self.files = dict(files)
        self.reads: list[tuple[int, int, int]] = []
        self._affinity = affinity
        self._reading = reading
        self._read_seconds = read_seconds
        self._variables = dict(variables or {})

    def read_text(self, path: PurePath | str) -> str:
        content = self.files.get(str(path), FileNotFoundError(2, "No such file or directory"))
        if isinstance(content, OSError):
            raise content
        return content

    def list_directory(self, path: PurePath | str) -> tuple[str, ...]:
        prefix = f"{path}/"
        names = {name[len(prefix) :].split("/")[0] for name in self.files if name.startswith(prefix)}
        if not names:
            raise FileNotFoundError(2, "No such file or directory")
        return tuple(sorted(names))

    def read_bytes(self, path: PurePath | str, offset: int, length: int) -> bytes:
        return self.read_text(path).encode("latin-1")[offset : offset + length]

    def environment(self) -> Mapping[str, str]:
        return self._variables

    def gpus(self) -> GpuReading:
        return self._reading

    def affinity_cpus(self) -> int | None:
        return self._affinity

    def memory_read_seconds(self, buffer_bytes: int, threads: int, passes: int) -> tuple[float, ...]:
        self.reads.append((buffer_bytes, threads, passes))
        assert self._read_seconds is not None, "this machine is not to be measured"
        return self._read_seconds(buffer_bytes, threads, passes)


def cpuinfo_x86(model: str, cpus: int, flags: str) -> str:
    block = "processor\t: {}\nvendor_id\t: GenuineIntel\nmodel name\t: {}\nflags\t\t: fpu lm {}\n"
    return "\n".join(block.format(cpu, model, flags) for cpu in range(cpus))


def topology(cores: list[str]) -> dict[str, str]:
    """`cores` holds the processors of each core as the kernel lists them: `0,32`."""
    files: dict[str, str] = {}
    for core in cores:
        for cpu in core.split(","):
            files[f"{CPU}/cpu{cpu}/topology/core_cpus_list"] = f"{core}\n"
    return files


def caches(cpus: range | list[int], level: int, size_kib: int, shared: str) -> dict[str, str]:
    """A last level besides the instruction and data caches of the first level."""
    files: dict[str, str] = {}
    for cpu in cpus:
        directory = f"{CPU}/cpu{cpu}/cache"
        rows = (("Data", 1, 48, str(cpu)), ("Instruction", 1, 32, str(cpu)), ("Unified", level, size_kib, shared))
        for index, (kind, depth, size, who) in enumerate(rows):
            files |= {
                f"{directory}/index{index}/type": f"{kind}\n",
                f"{directory}/index{index}/level": f"{depth}\n",
                f"{directory}/index{index}/size": f"{size}K\n",
                f"{directory}/index{index}/shared_cpu_list": f"{who}\n",
            }
    return files


def meminfo(total_bytes: int, available_bytes: int) -> dict[str, str]:
    text = f"MemTotal:       {total_bytes // KIB} kB\nMemFree:  1024 kB\nMemAvailable:   {available_bytes // KIB} kB\n"
    return {"/proc/meminfo": text + "SwapTotal:      0 kB\n"}


def pressure(some: float = 0.0, full: float = 0.0) -> str:
    return (
        f"some avg10=9.99 avg60={some:.2f} avg300=0.00 total=1\nfull avg10=9.99 avg60={full:.2f} avg300=0.00 total=1\n"
    )


NO_SWAP = {"/proc/swaps": "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"}


def small_server() -> dict[str, str]:
    """A 4-core virtual server with 8 GiB: no second threads, all of the host's cache reported, no limits, no swap."""
    return {
        "/proc/cpuinfo": cpuinfo_x86("Intel Xeon Processor (Skylake, IBRS)", 4, "sse4_2 avx f16c fma avx2 avx512f"),
        f"{CPU}/online": "0-3\n",
        **topology(["0", "1", "2", "3"]),
        **caches(range(4), 3, 16 * 1024, "0-3"),
        "/sys/devices/system/node/has_cpu": "0\n",
        "/proc/self/status": "Name:\tllmops\nCpus_allowed_list:\t0-3\n",
        "/proc/self/cgroup": "0::/user.slice/user-0.slice/session-1.scope\n",
        "/proc/self/mountinfo": MOUNT_V2,
        "/proc/pressure/memory": pressure(),
        **meminfo(8 * GIB, 7 * GIB),
        **NO_SWAP,
    }


def large_server() -> dict[str, str]:
    """Two sockets of 16 cores with two threads each; processors 0-15 and 32-47 on the first; one cache per socket."""
    first, second = [f"{cpu},{cpu + 32}" for cpu in range(16)], [f"{cpu},{cpu + 32}" for cpu in range(16, 32)]
    return {
        "/proc/cpuinfo": cpuinfo_x86(
            "Intel(R) Xeon(R) Gold 6430", 64, "avx2 avx512f avx512_vnni avx512_bf16 amx_tile amx_int8"
        ),
        f"{CPU}/online": "0-63\n",
        **topology(first + second),
        **caches([*range(16), *range(32, 48)], 3, 60 * 1024, "0-15,32-47"),
        **caches([*range(16, 32), *range(48, 64)], 3, 60 * 1024, "16-31,48-63"),
        "/sys/devices/system/node/has_cpu": "0-1\n",
        "/proc/self/status": "Cpus_allowed_list:\t0-63\n",
        "/proc/self/cgroup": "0::/\n",
        "/proc/self/mountinfo": MOUNT_V2,
        **meminfo(256 * GIB, 250 * GIB),
        **NO_SWAP,
    }


def hybrid_laptop() -> dict[str, str]:
    """Six performance cores with two threads (0-11), eight efficiency cores (12-19)."""
    fast = [f"{cpu},{cpu + 1}" for cpu in range(0, 12, 2)]
    return {
        "/proc/cpuinfo": cpuinfo_x86("13th Gen Intel(R) Core(TM) i7-13700H", 20, "f16c fma avx2 avx_vnni"),
        f"{CPU}/online": "0-19\n",
        **topology(fast + [str(cpu) for cpu in range(12, 20)]),
        **caches(range(20), 3, 24 * 1024, "0-19"),
        "/sys/devices/cpu_core/cpus": "0-11\n",
        "/sys/devices/cpu_atom/cpus": "12-19\n",
        "/sys/devices/system/node/has_cpu": "0\n",
        "/proc/self/status": "Cpus_allowed_list:\t0-127\n",
        "/proc/self/cgroup": "0::/user.slice\n",
        "/proc/self/mountinfo": MOUNT_V2,
        **meminfo(32 * GIB, 20 * GIB),
        "/proc/swaps": NO_SWAP["/proc/swaps"] + "/dev/zram0 partition\t8388604\t\t102400\t\t100\n",
    }


def arm_board() -> dict[str, str]:
    """Four small and four big Arm cores, no model name, no cache directory."""
    block = "processor\t: {}\nFeatures\t: fp asimd asimdhp asimddp\nCPU implementer\t: 0x41\nCPU part\t: {}\n"
    small, big = [block.format(cpu, "0xd05") for cpu in range(4)], [block.format(cpu, "0xd0b") for cpu in range(4, 8)]
    return {
        "/proc/cpuinfo": "\n".join(small + big),
        f"{CPU}/online": "0-7\n",
        **topology([str(cpu) for cpu in range(8)]),
        **{f"{CPU}/cpu{cpu}/cpu_capacity": "280\n" for cpu in range(4)},
        **{f"{CPU}/cpu{cpu}/cpu_capacity": "1024\n" for cpu in range(4, 8)},
        "/proc/self/status": "Cpus_allowed_list:\t0-7\n",
        "/proc/self/cgroup": "0::/\n",
        "/proc/self/mountinfo": MOUNT_V2,
        **meminfo(16 * GIB, 14 * GIB),
        **NO_SWAP,
    }


def amd_device(
    number: int, *, own: int, mapped: int, own_used: int = 0, mapped_used: int = 0, metrics_format: int | None
) -> dict[str, str]:
    """One device of the amdgpu driver; the header of gpu_metrics is size (two bytes), format, revision."""
    directory = f"/sys/class/drm/card{number}/device"
    files = {
        f"{directory}/vendor": "0x1002\n",
        f"{directory}/uevent": f"DRIVER=amdgpu\nPCI_CLASS=30000\nPCI_SLOT_NAME=0000:0{number + 3}:00.0\n",
        f"{directory}/drm/card{number}/dev": "226:0\n",
        f"{directory}/drm/renderD{128 + number}/dev": "226:128\n",
        f"{directory}/mem_info_vram_total": f"{own}\n",
        f"{directory}/mem_info_vram_used": f"{own_used}\n",
        f"{directory}/mem_info_gtt_total": f"{mapped}\n",
        f"{directory}/mem_info_gtt_used": f"{mapped_used}\n",
    }
    if metrics_format is not None:
        files[f"{directory}/gpu_metrics"] = f"\x80\x00{chr(metrics_format)}\x03rest"
    return files


def compute_node(number: int, *, minor: int, version: int, simds: int, width: int, megahertz: int) -> dict[str, str]:
    """One node of AMD's compute driver beside the processor's."""
    nodes = "/sys/class/kfd/kfd/topology/nodes"
    return {
        f"{nodes}/0/properties": "cpu_cores_count 16\nsimd_count 0\n",
        f"{nodes}/0/gpu_id": "0\n",
        f"{nodes}/{number}/properties": (
            f"cpu_cores_count 0\nsimd_count {simds}\nsimd_per_cu 2\ngfx_target_version {version}\n"
            f"drm_render_minor {minor}\n"
        ),
        f"{nodes}/{number}/gpu_id": f"{4000 + number}\n",
        f"{nodes}/{number}/mem_banks/0/properties": f"heap_type 1\nwidth {width}\nmem_clk_max {megahertz}\n",
    }


def strix_halo() -> dict[str, str]:
    """A processor with wide graphics: 512 MiB set aside, 62 GiB of 125 may be mapped."""
    return {
        **small_server(),
        **meminfo(125 * GIB, 118 * GIB),
        **amd_device(1, own=GIB // 2, own_used=GIB // 4, mapped=62 * GIB, mapped_used=1 * GIB, metrics_format=3),
        "/sys/class/drm/card1-DP-1/status": "disconnected\n",
        "/sys/class/drm/card1/device/device": "0x1586\n",
        "/sys/class/drm/card1/device/revision": "0xc1\n",
        "/usr/share/libdrm/amdgpu.ids": "# ids\n1.0.0\n1586,\tC1,\tAMD Radeon 8060S Graphics\n",
        **compute_node(1, minor=129, version=110501, simds=80, width=256, megahertz=1000),
    }


def radeon_desktop() -> dict[str, str]:
    """A card with 24 GiB, and the two compute units inside the processor beside it."""
    return {
        **small_server(),
        **meminfo(64 * GIB, 58 * GIB),
        **amd_device(0, own=24 * GIB, own_used=2 * GIB, mapped=32 * GIB, metrics_format=1),
        **amd_device(1, own=GIB // 2, mapped=32 * GIB, metrics_format=2),
        "/sys/class/drm/card0/device/product_name": "Radeon RX 7900 XTX\n",
        "/sys/class/drm/card1/device/device": "0x164e\n",
        **compute_node(1, minor=128, version=110000, simds=192, width=384, megahertz=1249),
        **compute_node(2, minor=129, version=100306, simds=4, width=128, megahertz=2400),
        "/sys/class/kfd/kfd/proc/812/vram_4001": f"{18 * GIB}\n",
    }
