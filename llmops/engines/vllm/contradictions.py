"""Where a person's own drop-ins say otherwise than a plan for vLLM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llmops import systemd
from llmops.engines.base import Contradiction, Setting
from llmops.engines.found import InForce
from llmops.engines.vllm.checks import same_value
from llmops.engines.vllm.command import DECIDED
from llmops.engines.vllm.words import Argument, canonical_flag, program_length, read_words


def contradictions(settings: Sequence[Setting], unit: str, in_force: InForce) -> tuple[Contradiction, ...]:
    """One for each planned option that a drop-in outside llmops sets to another value."""
    planned = {canonical_flag(one.name): one for one in settings if one.name.startswith("--")}
    planned = {flag: one for flag, one in planned.items() if flag in DECIDED}
    files = tuple(systemd.UnitFile(path, text) for path, text in in_force.unmanaged_drop_ins)
    found = []
    for path, value in systemd.values(files, "Service", "ExecStart"):
        for argument in _arguments(value, unit):
            setting = planned.get(argument.flag)
            if setting is not None and not same_value(argument.value, setting.value or ""):
                found.append(Contradiction(path, "drop_in", setting.name, argument.value, setting.value or ""))
    return tuple(found)


def _arguments(value: str, unit: str) -> Iterator[Argument]:
    try:
        words = systemd.command(value, unit).words
    except ValueError:  # systemd refuses such a line too, so it sets nothing
        return
    yield from read_words(words[program_length(words) or len(words) :])
