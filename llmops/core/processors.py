"""Threads and batch sizes: what follows from cores, quota and the longest acceptable gap."""

from __future__ import annotations

from llmops.core.hardware import Cpu
from llmops.core.plan import Fixed, Policy

# The engine's own defaults, and the range in which smaller batches still pay (measured: half the prefill rate at 64).
MOST_BATCH_TOKENS = 2048
LEAST_BATCH_TOKENS = 64
MOST_UBATCH_TOKENS = 512
# Measured on two idle virtual processors, llama-server build 11434: 10 ms more for each step of 18 layers.
WAKING_SECONDS_PER_LAYER = 0.55e-3
# The most that waking may cost of a step.
WAKING_SHARE = 0.2


def decode_threads(cpu: Cpu) -> int | None:
    """One thread per core that may be used: decode waits for memory, and a second thread per core only contends.

    Performance cores alone where there are two kinds; never more than affinity and quota allow; None if unknown.
    """
    cores = cpu.performance_cores or cpu.physical_cores
    known = [number for number in (cores, cpu.usable_cores, cpu.usable_threads) if number is not None]
    return max(1, min(known)) if known else None


def prefill_threads(cpu: Cpu) -> int | None:
    """Every usable thread: prefill is arithmetic and gains from all of them."""
    return cpu.usable_threads


def waits_passively(cpu: Cpu, threads: int | None, layers: int, step_seconds: float) -> bool:
    """Whether threads should sleep, not spin, while they wait for each other within a step of `step_seconds`.

    Spinning is faster on processors of one's own. Where the host takes processors away (a virtual machine) or a quota
    counts every spin, one late thread makes all the others burn the time that it needs: with two threads and two other
    busy processes on two virtual processors, decode fell from 100 to 0.5 tokens/s spinning and to 70 sleeping. Sleeping
    costs a fixed time per layer, so it is an insurance that only models with longer steps can afford.
    """
    shared = "hypervisor" in cpu.flags or cpu.quota_cores is not None
    affordable = layers * WAKING_SECONDS_PER_LAYER <= WAKING_SHARE * step_seconds
    return threads is not None and threads > 1 and shared and affordable


def batch_tokens(
    prefill_tokens_per_second: float,
    policy: Policy,
    fixed: Fixed,
    slots: int,
    limits: tuple[int, int] = (1, MOST_BATCH_TOKENS),
) -> tuple[int, int]:
    """Logical and physical batch; `limits` are the least with which the engine starts, and its own large one.

    Running streams stand still for one batch of somebody else's prompt, so `itl` bounds it by the longest gap:
    the largest power of two <= rate x gap. `ttft` keeps the engine's large batch. A batch holds a token per slot, and
    at least the physical batch where that one was given.
    """
    least, most = limits
    if fixed.batch_tokens is not None:
        batch = fixed.batch_tokens
    elif policy.protect == "ttft":
        batch = max(most, fixed.ubatch_tokens or 0, slots, least)
    else:
        within_gap = _power_of_two_at_most(prefill_tokens_per_second * policy.max_gap_seconds)
        batch = max(LEAST_BATCH_TOKENS, min(most, within_gap))
        while batch < slots:
            batch *= 2
        batch = max(batch, fixed.ubatch_tokens or 0, least)
    return batch, min(batch, fixed.ubatch_tokens or MOST_UBATCH_TOKENS)


def _power_of_two_at_most(number: float) -> int:
    return 1 << max(0, int(number).bit_length() - 1)
