"""Who else holds the memory of cards: named where a plan does not fit, or has to make do with what is left."""

from __future__ import annotations

from llmops.actions.port import name_of
from llmops.core.errors import DoesNotFit
from llmops.core.hardware import Gpu, Hardware
from llmops.core.units import format_bytes
from llmops.engines.found import InForce
from llmops.host import Host

# Less than this of a card is a screen or a browser, which nobody stops for a plan.
_WORTH_NAMING = 0.05


def holders(host: Host, hardware: Hardware, in_force: InForce) -> tuple[str, ...]:
    """One line for each process of others that holds much of a card; nothing of cards that were described."""
    held = [
        (gpu, process.pid, process.used_bytes)
        for gpu in hardware.gpus
        for process in gpu.processes
        if process.pid not in in_force.pids and _is_much(gpu, process.used_bytes)
    ]
    if not held:
        return ()
    names = {process.pid: name_of(process) for process in host.processes()}
    return tuple(
        f"{names.get(pid, 'a program that is not seen from here')} (process {pid}) holds"
        f" {format_bytes(used) if used is not None else 'memory'} of gpu{gpu.index}"
        for gpu, pid, used in held
    )


def _is_much(gpu: Gpu, used_bytes: int | None) -> bool:
    """Where the driver does not say how much, everybody is named."""
    return used_bytes is None or not gpu.total_bytes or used_bytes >= _WORTH_NAMING * gpu.total_bytes


def with_holders(refusal: DoesNotFit, lines: tuple[str, ...]) -> DoesNotFit:
    """The refusal with who holds the cards, and that it can be stopped."""
    if not lines:
        return refusal
    hint = f"stop it, if it need not run; or {refusal.hint}" if refusal.hint else "stop it, if it need not run"
    return DoesNotFit(f"{refusal.message}; {'; '.join(lines)}", hint=hint)
