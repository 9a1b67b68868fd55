"""The real pynvml against a stand-in for NVIDIA's library that is compiled here and driven by a scenario file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from llmops.core.errors import DoesNotFit
from llmops.core.hardware import CardLink, Gpu, GpuProcess, GpuReading, Hardware
from llmops.core.serialization import decode
from llmops.probe import read_hardware
from tests.unit.core.test_machine_warnings import planned
from tests.unit.probe import machines

pytestmark = pytest.mark.native

ROOT = Path(__file__).parents[2]
DOUBLE = ROOT / "tests/doubles/nvml"
PROGRAM = """
import json
from llmops.core.serialization import encode
from llmops.host.local.nvml import read_gpus
print(json.dumps(encode(read_gpus())))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the compiled stand-in under the name that pynvml loads."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: install gcc")
    directory = tmp_path_factory.mktemp("nvml")
    target = directory / "libnvidia-ml.so.1"
    command = [compiler, "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(target)]
    subprocess.run([*command, str(DOUBLE / "nvml.c")], check=True)
    return directory


def read(library: Path, scenario: str, shutdowns: Path) -> GpuReading:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "LD_LIBRARY_PATH": str(library),
        "NVML_SCENARIO": str(DOUBLE / "scenarios" / f"{scenario}.txt"),
        "NVML_SHUTDOWN_LOG": str(shutdowns),
    }
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True, text=True, timeout=240
    )
    return decode(GpuReading, json.loads(answer.stdout), "reading")


def gigabytes_per_second(gpu: Gpu) -> int | None:
    rate = gpu.bandwidth_bytes_per_second
    return None if rate is None else round(rate / 1e9)


def test_a_24_gb_card(library: Path, tmp_path: Path) -> None:
    reading = read(library, "one-24gb", tmp_path / "shutdowns")
    assert (reading.outcome, reading.driver_version) == ("ok", "550.54.15")
    (gpu,) = reading.gpus
    assert gpu == Gpu(
        index=0,
        uuid="GPU-0a000000-0000-0000-0000-000000000001",
        name="NVIDIA GeForce RTX 3090",
        total_bytes=24 * 1024**3,
        free_bytes=24_000_000_000,
        compute_capability=(8, 6),
        bandwidth_bytes_per_second=936_096_000_000,
        bus_width_bits=384,
        memory_clock_hertz=9_751_000_000,
        processes=(GpuProcess(900, None), GpuProcess(4242, 1_200_000_000)),
    )
    assert (tmp_path / "shutdowns").read_text() == "shutdown\n"


def test_an_80_gb_card(library: Path, tmp_path: Path) -> None:
    (gpu,) = read(library, "one-80gb", tmp_path / "shutdowns").gpus
    assert (gpu.total_bytes, gpu.compute_capability, gigabytes_per_second(gpu)) == (85_520_809_984, (9, 0), 3352)
    assert gpu.processes == ()


def test_two_unequal_cards(library: Path, tmp_path: Path) -> None:
    gpus = read(library, "two-unequal", tmp_path / "shutdowns").gpus
    assert [(gpu.index, gpu.name, gpu.free_bytes, gigabytes_per_second(gpu)) for gpu in gpus] == [
        (0, "NVIDIA GeForce RTX 4090", 25_200_000_000, 1008),
        (1, "NVIDIA GeForce RTX 3060", 11_000_000_000, 360),
    ]
    assert gpus[1].processes == (GpuProcess(1200, 600_000_000),)


def test_eight_equal_cards(library: Path, tmp_path: Path) -> None:
    gpus = read(library, "eight-equal", tmp_path / "shutdowns").gpus
    assert [gpu.index for gpu in gpus] == list(range(8))
    assert len({gpu.uuid for gpu in gpus}) == 8
    assert {(gpu.name, gpu.total_bytes, gigabytes_per_second(gpu)) for gpu in gpus} == {
        ("NVIDIA A100-SXM4-80GB", 80 * 1024**3, 2039)
    }


def test_a_card_that_shares_the_memory_of_the_host(library: Path, tmp_path: Path) -> None:
    (gpu,) = read(library, "gb10", tmp_path / "shutdowns").gpus
    assert (gpu.unified, gpu.kind) == (True, "integrated")
    assert (gpu.total_bytes, gpu.free_bytes, gpu.bandwidth_bytes_per_second) == (None, None, None)
    assert gpu.compute_capability == (12, 1)


def test_a_divided_card_shows_its_instances(library: Path, tmp_path: Path) -> None:
    gpus = read(library, "divided", tmp_path / "shutdowns").gpus
    assert [(gpu.index, gpu.name, gpu.total_bytes, gigabytes_per_second(gpu)) for gpu in gpus] == [
        (0, "NVIDIA A100-SXM4-80GB MIG 3g.40gb", 40 * 1024**3, 1020),
        (0, "NVIDIA A100-SXM4-80GB MIG 2g.20gb", 20 * 1024**3, 510),
    ]
    assert [gpu.uuid for gpu in gpus] == [f"MIG-00000000-0000-0000-0000-00000000000{number}" for number in (1, 2)]
    assert {(gpu.compute_capability, gpu.kind, gpu.parent_uuid) for gpu in gpus} == {
        ((8, 0), "instance", "GPU-0f000000-0000-0000-0000-000000000001")
    }


def test_an_instance_is_seen_where_its_parent_may_not_be_asked(library: Path, tmp_path: Path) -> None:
    reading = read(library, "divided-in-container", tmp_path / "shutdowns")
    (gpu,) = reading.gpus
    assert (reading.outcome, gpu.kind, gpu.total_bytes) == ("ok", "instance", 16 * 1024**3)
    assert gpu.parent_uuid == "GPU-10000000-0000-0000-0000-000000000001"
    assert gpu.bandwidth_bytes_per_second is None, "its share of the parent's memory is unknown"


@pytest.mark.parametrize(("scenario", "licensed"), [("vgpu-unlicensed", False), ("vgpu-licensed", True)])
def test_a_share_of_a_card_says_whether_it_is_licensed(
    library: Path, tmp_path: Path, scenario: str, licensed: bool
) -> None:
    (gpu,) = read(library, scenario, tmp_path / "shutdowns").gpus
    assert (gpu.kind, gpu.licensed, gpu.total_bytes) == ("virtual", licensed, 24 * 1024**3)
    assert gpu.bandwidth_bytes_per_second is None


def test_heat_and_power_limits(library: Path, tmp_path: Path) -> None:
    hot, capped = read(library, "hot-and-capped", tmp_path / "shutdowns").gpus
    assert (hot.throttle_reasons, hot.temperature_celsius) == (("thermal",), 93)
    assert (capped.throttle_reasons, capped.power_limit_watts, capped.power_default_watts) == (
        ("power_cap",),
        200.0,
        350.0,
    )
    assert {hot.kind, capped.kind} == {"card"}
    assert (hot.licensed, capped.licensed) == (None, None)


def test_a_system_on_a_chip_has_no_memory_of_its_own(library: Path, tmp_path: Path) -> None:
    (gpu,) = read(library, "jetson", tmp_path / "shutdowns").gpus
    assert (gpu.unified, gpu.kind, gpu.total_bytes, gpu.free_bytes) == (True, "integrated", None, None)


@pytest.mark.parametrize(
    ("scenario", "device", "room_bytes", "said"),
    [
        ("divided", "gpu0", 42_500_000_000, "one instance of a divided card: its own 40.00 GiB"),
        ("gb10", "host", 60 * 1024**3, "has no memory of its own"),
        ("jetson", "host", 60 * 1024**3, "has no memory of its own"),
        ("vgpu-unlicensed", "gpu0", 25_200_000_000, "without a licence"),
        ("vgpu-licensed", "gpu0", 25_200_000_000, "speeds are upper limits"),
        ("hot-and-capped", "gpu1", 25_300_000_000, "limited to 200 of 350 W"),
        ("two-unequal", "gpu1", 11_000_000_000, "the cards are unequal (1008.1 GB/s, 360.0 GB/s)"),
    ],
)
def test_what_a_plan_does_about_it(
    library: Path, tmp_path: Path, scenario: str, device: str, room_bytes: int, said: str
) -> None:
    plan = planned(server_with(read(library, scenario, tmp_path / "shutdowns")))
    rooms = {budget.device: budget.available_bytes for budget in plan.budgets}
    assert rooms[device] == room_bytes
    assert len(rooms) == (1 if device == "host" else 2 + int(device[3:]))
    assert any(said in line for line in plan.warnings), plan.warnings


def server_with(reading: GpuReading) -> Hardware:
    """A server of 64 GiB with these cards."""
    tree = machines.large_server() | machines.meminfo(64 * 1024**3, 60 * 1024**3)
    return read_hardware(machines.TreeHost(tree, reading=reading))


def test_a_model_for_the_whole_card_is_refused_on_an_instance(library: Path, tmp_path: Path) -> None:
    machine = server_with(read(library, "divided-in-container", tmp_path / "shutdowns"))
    with pytest.raises(DoesNotFit, match=r"on gpu0, which has 15\.83 GiB"):
        planned(machine)


def test_a_lost_card_does_not_hide_the_others(library: Path, tmp_path: Path) -> None:
    reading = read(library, "one-lost", tmp_path / "shutdowns")
    assert reading.outcome == "ok"
    assert [gpu.index for gpu in reading.gpus] == [1]
    assert "card 0: GPU is lost" in reading.detail


def test_a_library_without_the_newer_memory_query(library: Path, tmp_path: Path) -> None:
    (gpu,) = read(library, "old-library", tmp_path / "shutdowns").gpus
    assert (gpu.total_bytes, gpu.free_bytes) == (32 * 1024**3, 33_900_000_000)
    assert gigabytes_per_second(gpu) == 898


@pytest.mark.parametrize(
    ("scenario", "outcome", "detail"),
    [
        ("mismatch", "version_mismatch", "different versions"),
        ("driver-not-loaded", "driver_not_loaded", "not loaded"),
        ("no-permission", "no_permission", "may not open"),
        ("all-refused", "no_permission", "card 0: Insufficient Permissions"),
        ("no-devices", "no_devices", "shows no card"),
        ("unknown-error", "failed", "Unknown Error"),
    ],
)
def test_every_way_to_see_no_card(library: Path, tmp_path: Path, scenario: str, outcome: str, detail: str) -> None:
    reading = read(library, scenario, tmp_path / "shutdowns")
    assert (reading.outcome, reading.gpus) == (outcome, ())
    assert detail in reading.detail


def test_no_library_at_all(tmp_path: Path) -> None:
    broken = tmp_path / "libnvidia-ml.so.1"
    broken.write_text("no library")
    reading = read(tmp_path, "no-devices", tmp_path / "shutdowns")
    assert (reading.outcome, reading.gpus) == ("library_missing", ())


def test_a_bridge_is_told_from_the_bus(library: Path, tmp_path: Path) -> None:
    bridged, other, untold = read(library, "bridged-pair-and-one-more", tmp_path / "log").links
    assert bridged == CardLink(0, 1, "nvlink", 4 * 14_062_000_000, "a host bridge", peer_access=True)
    assert other == CardLink(0, 2, "pcie", 8 * 1_969_230_769, "the link between processors", peer_access=False)
    assert untold == CardLink(1, 2, None, 8 * 1_969_230_769)


def test_links_to_a_switch_lead_to_every_card(library: Path, tmp_path: Path) -> None:
    links = read(library, "cards-on-a-switch", tmp_path / "log").links
    assert [(link.first, link.second) for link in links] == [(0, 1), (0, 2), (1, 2)]
    assert {link.bytes_per_second for link in links} == {18 * 26_562_000_000}
