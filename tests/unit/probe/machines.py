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
    ) -> None:
        super().__init__(Recording())
        self.files = dict(files)
        self.reads: list[tuple[int, int, int]] = []
        self._affinity = affinity
        self._reading = reading
        self._read_seconds = read_seconds

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
