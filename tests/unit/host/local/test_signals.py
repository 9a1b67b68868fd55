"""The first ending signal undoes, the next ones do not disturb the undoing."""

from __future__ import annotations

import signal
from collections.abc import Sequence

import pytest

from llmops.core.errors import Interrupted
from llmops.engines.found import Installation
from llmops.engines.seeing import Unseen, unit_part
from llmops.host import Completed
from llmops.host.local.signals import ENDING_SIGNALS, held_back, interruptible
from tests.unit.fake_machine import FakeMachine


@pytest.mark.parametrize("number", ENDING_SIGNALS)
def test_a_signal_becomes_one_exception_with_the_exit_code_of_a_shell(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    undone: list[str] = []
    with pytest.raises(Interrupted) as found, interruptible():
        try:
            signal.raise_signal(number)
            undone.append("never reached")
        finally:
            for later in ENDING_SIGNALS:
                signal.raise_signal(later)
            undone.append("undone")
    assert undone == ["undone"]
    assert found.value.exit_code == 128 + number
    assert signal.getsignal(number) is before


def test_who_notes_a_failed_command_and_goes_on_does_not_go_on_after_a_signal() -> None:
    class Signalled(FakeMachine):
        def query(self, argv: Sequence[str], *, timeout_seconds: float = 20.0) -> Completed:
            signal.raise_signal(signal.SIGTERM)
            return Completed(tuple(argv), 0, "", "")

    installation = Installation("llama-server", "unit", ("/usr/bin/llama-server",), None, None, None, unit="a.service")
    with pytest.raises(Interrupted), interruptible():
        unit_part(Signalled(), installation, Unseen())


def test_what_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_signal_waits_for_the_end_of_what_must_not_be_cut() -> None:
    done: list[str] = []
    with pytest.raises(Interrupted), interruptible():
        with held_back():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
            done.append("whole")
        done.append("never reached")
    assert done == ["whole"]
