"""The swap check sees real swapping: a real swap file, and a real memory limit around a serving machine.

The limit is a control group made outside: inside a container MemoryMax= is shown and not always enforced.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.systemd.machine import Machine
from tests.systemd.root import CACHE, run

pytestmark = [pytest.mark.systemd, pytest.mark.timeout(1800)]

MIB = 1024**2
SWAP_MIB = 1024
# Half of what the processes hold must go: enough to swap all the time, not so much that nothing is served any more.
KEPT_SHARE = 0.5


@contextlib.contextmanager
def swap_file() -> Iterator[None]:
    """Real swap for the whole machine, taken away again at the end."""
    path = CACHE / "swap-for-the-test"
    run("dd", "if=/dev/zero", f"of={path}", "bs=1M", f"count={SWAP_MIB}")
    path.chmod(0o600)
    try:
        run("mkswap", path)
        refused = subprocess.run(["swapon", str(path)], capture_output=True, text=True, check=False).stderr.strip()
        if refused:
            pytest.skip(f"this machine takes no swap file: {refused}")
        yield
    finally:
        subprocess.run(["swapoff", str(path)], check=False)
        path.unlink()


class MemoryGroup:
    """The control group around a machine, of either kind."""

    def __init__(self, machine: Machine) -> None:
        found = [group for group in machine.groups if (group / "memory.stat").exists()]
        if not found:
            pytest.skip("this machine gives the container no memory control group that the test may limit")
        self.group = found[0]
        second = (self.group / "memory.max").exists()
        self.limit_file = self.group / ("memory.max" if second else "memory.limit_in_bytes")
        self.own_memory = "anon" if second else "total_rss"

    def own_bytes(self) -> int:
        """Memory that is not a copy of a file."""
        lines = (self.group / "memory.stat").read_text().splitlines()
        return int(dict(line.split() for line in lines)[self.own_memory])

    @contextlib.contextmanager
    def limited(self, limit_bytes: int) -> Iterator[None]:
        before = self.limit_file.read_text().strip()
        self.limit_file.write_text(str(limit_bytes))
        try:
            yield
        finally:
            self.limit_file.write_text(before)


def swapped_pages() -> dict[str, int]:
    values = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    return {name: int(values[name]) for name in ("pswpin", "pswpout")}


def verdict(machine: Machine) -> dict[str, str]:
    answer = machine.llmops("verify", timeout_seconds=1500)
    assert answer.exit_code in (0, 3), answer
    return {check["name"]: check["status"] for check in answer.envelope["data"]["checks"]}


def test_swapping_while_it_serves_fails_the_verification(served: Callable[..., Machine], model: Path) -> None:
    model.read_bytes()  # the model's pages now count for whoever read them first, so the limit meets only own memory
    machine = served()
    applied = machine.llmops("tune", "--apply", "--users", "5", "--slots", "2")
    assert applied.exit_code == 0, applied
    quiet = {check["name"]: check["status"] for check in applied.envelope["data"]["checks"]}
    assert quiet["no_swap"] == "pass"

    group = MemoryGroup(machine)
    with swap_file(), group.limited(int(group.own_bytes() * KEPT_SHARE)):
        before = swapped_pages()
        squeezed = verdict(machine)
        after = swapped_pages()
    assert after["pswpin"] > before["pswpin"]
    assert after["pswpout"] > before["pswpout"]
    assert squeezed["no_swap"] == "fail"
