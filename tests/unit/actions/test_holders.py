"""Who holds the memory of cards, in refusals and warnings."""

from __future__ import annotations

from dataclasses import replace

from llmops.actions.holders import holders, with_holders
from llmops.core.errors import DoesNotFit
from llmops.core.hardware import GpuProcess
from llmops.engines.found import InForce
from tests.unit.actions.test_port import Listening, process
from tests.unit.core.example_models import GIB, one_card

HOST = Listening(running_now=(process(4711, "/usr/bin/python3", "train.py"),))


def held(*processes: GpuProcess) -> tuple[str, ...]:
    hardware = one_card(24 * GIB)
    hardware = replace(hardware, gpus=(replace(hardware.gpus[0], processes=processes),))
    return holders(HOST, hardware, InForce(pid=7, worker_pids=(8,)))


def test_processes_of_others_are_named_with_what_they_hold() -> None:
    assert held(GpuProcess(4711, 18 * GIB)) == ("python3 (process 4711) holds 18.00 GiB of gpu0",)
    assert held(GpuProcess(99, None)) == ("a program that is not seen from here (process 99) holds memory of gpu0",)


def test_the_engine_itself_and_a_screen_are_not() -> None:
    assert held(GpuProcess(7, 18 * GIB), GpuProcess(8, GIB * 4), GpuProcess(4711, GIB // 4)) == ()


def test_a_refusal_names_them_first_among_the_remedies() -> None:
    told = with_holders(DoesNotFit("too much", hint="--slots 1 fits"), held(GpuProcess(4711, 18 * GIB)))
    assert told.message == "too much; python3 (process 4711) holds 18.00 GiB of gpu0"
    assert told.hint == "stop it, if it need not run; or --slots 1 fits"
    same = DoesNotFit("too much")
    assert with_holders(same, ()) is same
