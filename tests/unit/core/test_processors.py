"""Threads from cores, quota and affinity; batches from the longest gap."""

from __future__ import annotations

import pytest

from llmops.core.hardware import Cpu
from llmops.core.plan import Fixed, Policy
from llmops.core.processors import batch_tokens, decode_threads, prefill_threads, waits_passively


@pytest.mark.parametrize(
    ("cpu", "decode", "prefill"),
    [
        (Cpu(physical_cores=4, usable_cores=4, usable_threads=4), 4, 4),
        (Cpu(physical_cores=8, usable_cores=8, usable_threads=16), 8, 16),
        (Cpu(physical_cores=16, usable_cores=2, usable_threads=2, quota_cores=2.5), 2, 2),
        (Cpu(physical_cores=12, performance_cores=4, efficiency_cores=8, usable_cores=12, usable_threads=16), 4, 16),
        (Cpu(physical_cores=4, usable_cores=1, usable_threads=1), 1, 1),
        (Cpu(), None, None),
    ],
)
def test_threads(cpu: Cpu, decode: int | None, prefill: int | None) -> None:
    assert decode_threads(cpu) == decode
    assert prefill_threads(cpu) == prefill


@pytest.mark.parametrize(
    ("rate", "expected"), [(10.0, (64, 64)), (300.0, (512, 512)), (511.0, (512, 512)), (1e5, (2048, 512))]
)
def test_a_batch_lasts_no_longer_than_the_longest_gap(rate: float, expected: tuple[int, int]) -> None:
    assert batch_tokens(rate, Policy(), Fixed(), 4) == expected


def test_a_batch_holds_a_token_for_every_slot() -> None:
    assert batch_tokens(10.0, Policy(), Fixed(), 100)[0] == 128


def test_what_the_user_fixes_is_taken() -> None:
    assert batch_tokens(300.0, Policy(), Fixed(batch_tokens=1024, ubatch_tokens=256), 4) == (1024, 256)
    assert batch_tokens(300.0, Policy(protect="ttft"), Fixed(), 4) == (2048, 512)


@pytest.mark.parametrize("policy", [Policy(), Policy(protect="ttft")])
def test_a_step_holds_the_pass_that_the_user_fixes(policy: Policy) -> None:
    assert batch_tokens(300.0, policy, Fixed(ubatch_tokens=4096), 4) == (4096, 4096)


@pytest.mark.parametrize(
    ("cpu", "threads", "step_seconds", "asleep"),
    [
        (Cpu(flags=("hypervisor", "avx2")), 2, 0.4, True),
        (Cpu(flags=("avx2",), quota_cores=2.5), 2, 0.4, True),
        (Cpu(flags=("avx2",)), 8, 0.4, False),
        (Cpu(flags=("hypervisor",)), 1, 0.4, False),
        (Cpu(flags=("hypervisor",)), None, 0.4, False),
        (Cpu(flags=("hypervisor",)), 2, 0.1, True),  # 36 layers wake for 19.8 ms
        (Cpu(flags=("hypervisor",)), 2, 0.098, False),
    ],
)
def test_threads_sleep_where_the_processors_are_not_their_own_and_waking_is_cheap(
    cpu: Cpu, threads: int | None, step_seconds: float, asleep: bool
) -> None:
    assert waits_passively(cpu, threads, 36, step_seconds) is asleep
