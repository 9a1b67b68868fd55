"""Cards of every vendor: AMD through sysfs, Jetson through the device tree, and which of them count."""

from __future__ import annotations

import pytest

from llmops.core.hardware import CardLink, Gpu, GpuReading, Hardware
from llmops.core.units import GIB
from llmops.probe import read_hardware
from llmops.probe.kfd import architecture_name, memory_bandwidth
from tests.unit.probe import machines
from tests.unit.probe.machines import TreeHost


def not_counted(hardware: Hardware) -> dict[str, str | None]:
    """Name -> why it is not counted."""
    rows = [row for row in hardware.observations if row.quantity.startswith("other_gpus")]
    assert len(rows) == len(hardware.other_gpus)
    return {gpu.name: row.reason for gpu, row in zip(hardware.other_gpus, rows, strict=True)}


def instance(number: int, gigabytes: int) -> Gpu:
    return Gpu(
        index=0,
        uuid=f"MIG-{number}",
        name=f"NVIDIA A100 MIG {number}",
        total_bytes=gigabytes * GIB,
        free_bytes=gigabytes * GIB,
        kind="instance",
        parent_uuid="GPU-1",
    )


def whole(number: int) -> Gpu:
    return Gpu(number, f"GPU-{number}", f"NVIDIA card {number}", 24 * GIB, 23 * GIB)


def nvidia(*gpus: Gpu, variables: dict[str, str] | None = None) -> Hardware:
    reading = GpuReading("ok", f"{len(gpus)} seen by NVML", gpus)
    return read_hardware(TreeHost(machines.small_server(), reading=reading, variables=variables))


def test_graphics_that_map_host_memory_have_what_may_be_mapped_and_is_available() -> None:
    hardware = read_hardware(TreeHost(machines.strix_halo()))
    (gpu,) = hardware.gpus
    assert (gpu.name, gpu.vendor, gpu.kind) == ("AMD Radeon 8060S Graphics", "amd", "integrated")
    assert (gpu.unified, gpu.total_bytes, gpu.free_bytes) == (True, 62 * GIB, 61 * GIB)
    assert (gpu.architecture, gpu.compute_units) == ("gfx1151", 40)
    assert gpu.bandwidth_bytes_per_second is None, "it has the host's, which is measured there"
    assert hardware.gpu_outcome == "ok"
    assert "no ROCm in /opt/rocm: a Vulkan build" in hardware.gpu_detail


def test_no_more_can_be_mapped_than_the_host_has_available() -> None:
    tree = machines.strix_halo() | machines.meminfo(125 * GIB, 20 * GIB)
    (gpu,) = read_hardware(TreeHost(tree)).gpus
    assert gpu.free_bytes == 20 * GIB


def test_most_memory_set_aside_at_boot_makes_it_the_cards_own() -> None:
    tree = machines.strix_halo() | machines.amd_device(1, own=96 * GIB, mapped=16 * GIB, metrics_format=3)
    (gpu,) = read_hardware(TreeHost(tree)).gpus
    assert (gpu.unified, gpu.total_bytes, gpu.free_bytes) == (False, 96 * GIB, 96 * GIB)


def test_a_card_counts_and_the_small_graphics_beside_it_do_not() -> None:
    tree = machines.radeon_desktop() | {"/opt/rocm/.info/version": "6.4.1-83\n"}
    hardware = read_hardware(TreeHost(tree), engine_pids=(812, 900))
    (gpu,) = hardware.gpus
    assert (gpu.index, gpu.name, gpu.uuid) == (0, "AMD Radeon RX 7900 XTX", "0000:03:00.0")
    assert (gpu.total_bytes, gpu.free_bytes, gpu.held_by_engine_bytes) == (24 * GIB, 22 * GIB, 18 * GIB)
    assert gpu.bandwidth_bytes_per_second == 959_232_000_000
    assert not_counted(hardware) == {
        "AMD graphics 0x164e (gfx1036)": "engines leave integrated graphics alone where there is a card"
    }
    assert "ROCm 6.4.1-83 is installed" in hardware.gpu_detail


def test_small_integrated_graphics_alone_are_not_worth_it() -> None:
    tree = machines.small_server() | machines.amd_device(0, own=GIB // 2, mapped=4 * GIB, metrics_format=None)
    hardware = read_hardware(TreeHost(tree))
    assert (hardware.gpus, hardware.gpu_outcome) == ((), "library_missing")
    (reason,) = not_counted(hardware).values()
    assert reason is not None and "not faster" in reason


def test_intel_graphics_do_not_count() -> None:
    inside = {"uevent": "DRIVER=i915\nPCI_SLOT_NAME=0000:00:02.0\nPCI_ID=8086:9A49\n", "device": "0x9a49\n"}
    card = {"vendor": "0x8086\n", "uevent": "DRIVER=xe\nPCI_SLOT_NAME=0000:03:00.0\n", "device": "0xe20b\n"}
    tree = machines.small_server()
    for number, files in enumerate((inside, card)):
        tree |= {f"/sys/class/drm/card{number}/device/{name}": text for name, text in files.items()}
    hardware = read_hardware(TreeHost(tree))
    reasons = not_counted(hardware)
    assert [gpu.kind for gpu in hardware.other_gpus] == ["integrated", "card"]
    assert "not faster" in str(reasons["Intel graphics 0x9a49"])
    assert "--gpu NAME:TOTAL" in str(reasons["Intel graphics 0xe20b"])


def test_amd_cards_are_numbered_after_nvidias_and_their_own_variable_hides_them() -> None:
    reading = GpuReading("ok", "1 seen by NVML", (whole(0),))
    host = TreeHost(machines.radeon_desktop(), reading=reading)
    assert [(gpu.index, gpu.vendor) for gpu in read_hardware(host).gpus] == [(0, "nvidia"), (1, "amd")]
    variables = {"ROCR_VISIBLE_DEVICES": "-1"}
    assert [gpu.vendor for gpu in read_hardware(host, engine_environment=variables).gpus] == ["nvidia"]
    variables = {"CUDA_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": "0"}
    assert [gpu.vendor for gpu in read_hardware(host, engine_environment=variables).gpus] == ["amd"]


def test_cards_without_a_driver_are_said() -> None:
    pci = "/sys/bus/pci/devices"
    tree = machines.small_server() | {
        f"{pci}/0000:01:00.0/class": "0x030000\n",
        f"{pci}/0000:01:00.0/vendor": "0x10de\n",
        f"{pci}/0000:02:00.0/class": "0x020000\n",
        f"{pci}/0000:02:00.0/vendor": "0x1002\n",
    }
    detail = read_hardware(TreeHost(tree)).gpu_detail
    assert "an NVIDIA card is on the PCI bus" in detail
    assert "AMD" not in detail, "a network card is no graphics card"


def test_an_amd_card_with_another_driver_is_said() -> None:
    tree = machines.small_server() | {
        "/sys/class/drm/card0/device/vendor": "0x1002\n",
        "/sys/class/drm/card0/device/uevent": "DRIVER=radeon\n",
    }
    hardware = read_hardware(TreeHost(tree))
    assert hardware.gpus == ()
    assert "its driver is not amdgpu" in hardware.gpu_detail


def test_a_jetson_without_nvml_is_named_by_its_device_tree() -> None:
    tree = machines.small_server() | {
        "/proc/device-tree/model": "NVIDIA Jetson AGX Orin Developer Kit\0",
        "/proc/device-tree/compatible": "nvidia,p3737-0000+p3701-0005\0nvidia,p3701-0005\0nvidia,tegra234\0",
    }
    hardware = read_hardware(TreeHost(tree))
    (gpu,) = hardware.gpus
    assert (gpu.name, gpu.compute_capability) == ("NVIDIA Jetson AGX Orin Developer Kit", (8, 7))
    assert (gpu.unified, gpu.total_bytes, gpu.free_bytes) == (True, 8 * GIB, 7 * GIB)


def test_one_instance_of_a_divided_card_counts() -> None:
    hardware = nvidia(instance(1, 40), instance(2, 20))
    assert [gpu.uuid for gpu in hardware.gpus] == ["MIG-1"]
    assert "one instance" in str(not_counted(hardware)["NVIDIA A100 MIG 2"])


def test_the_engine_may_name_another_instance() -> None:
    hardware = nvidia(instance(1, 40), instance(2, 20), variables={"CUDA_VISIBLE_DEVICES": "MIG-2"})
    assert [gpu.total_bytes for gpu in hardware.gpus] == [20 * GIB]


def test_whole_cards_and_instances_are_not_mixed() -> None:
    hardware = nvidia(whole(0), Gpu(1, "MIG-3", "slice", 10 * GIB, 10 * GIB, kind="instance"))
    assert [gpu.name for gpu in hardware.gpus] == ["NVIDIA card 0"]
    hardware = nvidia(instance(1, 40), whole(1))
    assert [gpu.uuid for gpu in hardware.gpus] == ["MIG-1"]


@pytest.mark.parametrize(
    ("value", "indexes"),
    [
        ("1", [1]),
        ("1,0", [1, 0]),
        ("GPU-2", [2]),
        ("GPU-", []),
        ("", []),
        ("-1", []),
        ("0,7,1", [0]),
        ("0,0", [0]),
        (" 0 , 2 ", [0, 2]),
    ],
)
def test_the_list_of_visible_devices_is_read_as_cuda_reads_it(value: str, indexes: list[int]) -> None:
    hardware = nvidia(whole(0), whole(1), whole(2), variables={"CUDA_VISIBLE_DEVICES": value})
    assert [gpu.index for gpu in hardware.gpus] == indexes
    assert len(hardware.other_gpus) == 3 - len(indexes)


@pytest.mark.parametrize(
    ("version", "name"), [(110501, "gfx1151"), (90010, "gfx90a"), (100306, "gfx1036"), (90402, "gfx942"), (0, None)]
)
def test_architecture_numbers_are_named_as_compilers_name_them(version: int, name: str | None) -> None:
    assert architecture_name(version) == name


@pytest.mark.parametrize(
    ("card", "bits", "megahertz", "gigabytes_per_second"),
    [
        ("RX 6800", 256, 1000, 512),
        ("RX 7900 XTX", 384, 1249, 959),
        ("MI100", 4096, 1200, 1229),
        ("RX 580", 256, 2000, 256),
    ],
)
def test_bandwidth_of_amd_cards(card: str, bits: int, megahertz: int, gigabytes_per_second: int) -> None:
    rate = memory_bandwidth(bits, megahertz)
    assert rate is not None and round(rate / 1e9) == gigabytes_per_second, card
    assert memory_bandwidth(None, megahertz) is None


def test_a_group_that_ran_out_of_quota_shows_how_often() -> None:
    tree = machines.small_server() | {
        "/proc/self/cgroup": "0::/\n",
        "/sys/fs/cgroup/cpu.max": "400000 100000\n",
        "/sys/fs/cgroup/cpu.stat": "usage_usec 1\nnr_periods 4567\nnr_throttled 3115\n",
        "/sys/fs/cgroup/memory.max": "max\n",
        "/sys/fs/cgroup/memory.current": "30400000000\n",
    }
    hardware = read_hardware(TreeHost(tree))
    assert hardware.cpu.throttled_ratio == pytest.approx(3115 / 4567)
    assert hardware.memory.group_used_bytes == 30_400_000_000


@pytest.mark.parametrize(
    ("vendor", "product", "flags", "name"),
    [
        ("QEMU", "Standard PC (Q35 + ICH9, 2009)", "", "kvm"),
        ("VMware, Inc.", "VMware Virtual Platform", "hypervisor", "vmware"),
        ("Microsoft Corporation", "Virtual Machine", "hypervisor", "microsoft"),
        ("Microsoft Corporation", "Surface Pro", "", None),
        ("Hetzner", "vServer", "hypervisor", "kvm"),
        ("Hetzner", "Dedicated", "", None),
        ("Amazon EC2", "c7i.metal-24xl", "", None),
        ("Somebody", "Something", "hypervisor", "unknown"),
        ("Dell Inc.", "PowerEdge R750", "", None),
    ],
)
def test_what_runs_a_virtual_machine(vendor: str, product: str, flags: str, name: str | None) -> None:
    tree = machines.small_server() | {
        "/proc/cpuinfo": machines.cpuinfo_x86("Some processor", 4, f"avx2 {flags}"),
        "/sys/class/dmi/id/sys_vendor": f"{vendor}\n",
        "/sys/class/dmi/id/product_name": f"{product}\n",
    }
    assert read_hardware(TreeHost(tree)).cpu.hypervisor == name


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"/sys/fs/cgroup/cpu.max": "400000 100000", "/sys/fs/cgroup/cpuset.cpus.effective": "0-7"}, 4),
        ({"/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "765000", "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}, 7),
    ],
)
def test_groups_are_found_by_custom_where_proc_does_not_tell(files: dict[str, str], cores: int) -> None:
    assert read_hardware(TreeHost(files)).cpu.usable_threads == cores


def test_links_are_those_between_cards_that_count_with_their_sources() -> None:
    bridge = CardLink(0, 1, "nvlink", 56_000_000_000, "a host bridge", peer_access=True)
    bus = CardLink(0, 2, "pcie", None, "one NUMA node", peer_access=False)
    reading = GpuReading("ok", "3 seen by NVML", (whole(0), whole(1), whole(2)), links=(bridge, bus))
    hardware = read_hardware(TreeHost(machines.small_server(), reading=reading))
    assert hardware.links == (bridge, bus)
    told = {row.quantity: row for row in hardware.observations if row.quantity.startswith("links")}
    assert told["links[0].bytes_per_second"].source == "nvmlDeviceGetNvLinkState x NVLINK_SPEED_MBPS_COMMON"
    assert told["links[1].bytes_per_second"].reason == "the cards or their driver do not tell it"
    hidden = TreeHost(machines.small_server(), reading=reading, variables={"CUDA_VISIBLE_DEVICES": "0,2"})
    assert read_hardware(hidden).links == (bus,)


def io_link(node: int, number: int, kind: int, to: int, megabytes: int) -> dict[str, str]:
    path = f"/sys/class/kfd/kfd/topology/nodes/{node}/io_links/{number}/properties"
    return {path: f"type {kind}\nversion_major 0\nnode_from {node}\nnode_to {to}\nmax_bandwidth {megabytes}\n"}


def test_amd_cards_are_linked_by_xgmi_where_the_compute_driver_shows_it() -> None:
    tree = machines.small_server()
    for place in range(3):
        tree |= machines.amd_device(place, own=64 * GIB, mapped=32 * GIB, metrics_format=1)
        tree |= machines.compute_node(
            place + 1, minor=128 + place, version=90010, simds=416, width=4096, megahertz=1600
        )
        tree |= io_link(place + 1, 0, 2, 0, 32_000)
    tree |= io_link(1, 1, 11, 2, 50_000) | io_link(2, 1, 11, 1, 50_000)
    hardware = read_hardware(TreeHost(tree))
    assert hardware.links == (CardLink(0, 1, "xgmi", 50_000_000_000), CardLink(0, 2, "pcie"), CardLink(1, 2, "pcie"))
    told = {row.quantity: row.source for row in hardware.observations if row.quantity.startswith("links")}
    assert told["links[0].bytes_per_second"] == "kfd io_links max_bandwidth"
    without = {path: text for path, text in tree.items() if "io_links" not in path}
    assert {link.kind for link in read_hardware(TreeHost(without)).links} == {None}
