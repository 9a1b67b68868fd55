"""What a running llama-server serves, in a plan's own terms."""

from __future__ import annotations

from llmops.core.plan import Fixed
from llmops.core.units import MIB
from llmops.engines.found import InForce, Installation, Served
from llmops.engines.llama_server import defaults, options
from llmops.engines.llama_server.arguments import Argument, find, program_length, read_arguments
from llmops.engines.llama_server.endpoint import said_value
from llmops.engines.llama_server.options import Option

EVERY_LAYER = 1 << 16  # more than any model has
_OFF = frozenset({"0", "false", "off", "disabled"})


def served(in_force: InForce, installation: Installation) -> Served | None:
    """The values in force; None where the server does not say how many slots it has and how long each is.

    What the command line, the environment and config.ini leave open is the engine's default.
    """
    if in_force.slots is None or in_force.context_tokens_per_slot is None or in_force.arguments is None:
        return None
    sources = _Sources(in_force, installation)
    unified = _unified(in_force.slots, sources)
    longest = in_force.context_tokens_per_slot
    # With one pool a request may use all of it, up to its cap, but only a share is sure.
    capped = in_force.slots if sources.text(options.KV_UNIFIED_PER_SLOT) else 1
    pool = sources.number(options.CONTEXT, 0) or longest * capped if unified else longest * in_force.slots
    values = Fixed(
        slots=in_force.slots,
        context_tokens=min(longest, max(longest, pool) // in_force.slots),
        cache_type_k=sources.text(options.CACHE_TYPE_K) or "f16",
        cache_type_v=sources.text(options.CACHE_TYPE_V) or "f16",
        batch_tokens=sources.number(options.BATCH, defaults.BATCH_TOKENS),
        ubatch_tokens=sources.number(options.UBATCH, defaults.UBATCH_TOKENS),
        kv_unified=unified,
        swa_full=bool(sources.switch(options.SWA_FULL)),
        flash_attention=sources.text(options.FLASH_ATTENTION) or "auto",
        repack=sources.switch(options.REPACK) is not False,
        prompt_cache_bytes=max(0, sources.number(options.PROMPT_CACHE, defaults.PROMPT_CACHE_MIB)) * MIB,
        context_checkpoints=sources.number(options.CHECKPOINTS, defaults.CHECKPOINTS),
        cpu_expert_layers=_cpu_expert_layers(sources),
        tensor_split=_shares(sources.text(options.TENSOR_SPLIT) or ""),
    )
    return Served(
        values,
        context_was_chosen=sources.text(options.CONTEXT) not in {None, "", "0"},
        request_context_tokens=longest,
        threads=_above_zero(sources.number(options.THREADS, 0)),
        gpu_layers=_not_negative(sources.number(options.GPU_LAYERS, -1)),
        works_against=sources.works_against(),
    )


def _unified(slots: int, sources: _Sources) -> bool:
    """An automatic number of slots comes with one pool, whatever else is said (some builds took 1 for automatic)."""
    asked = sources.number(options.SLOTS, -1)
    automatic = asked < 0 or asked == 1 != slots
    return (slots > 1 and automatic) or bool(sources.switch(options.KV_UNIFIED))


def _cpu_expert_layers(sources: _Sources) -> int | None:
    if sources.switch(options.CPU_EXPERTS):
        return EVERY_LAYER
    return _above_zero(sources.number(options.CPU_EXPERT_LAYERS, 0))


def _shares(text: str) -> tuple[float, ...] | None:
    """The numbers of `-ts`, or None where there are none."""
    try:
        return tuple(float(part) for part in text.replace("/", ",").split(",")) if text else None
    except ValueError:
        return None


def _above_zero(number: int) -> int | None:
    return number if number > 0 else None


def _not_negative(number: int) -> int | None:
    return number if number >= 0 else None


class _Sources:
    """The sources that llama-server reads, strongest first."""

    def __init__(self, in_force: InForce, installation: Installation) -> None:
        words = in_force.arguments or in_force.configured_arguments or ()
        length = program_length(words) or 0
        self._arguments = read_arguments(words[length:], installation.flags, installation.valued_flags)
        self._variables = dict(in_force.environment or in_force.configured_environment or ())
        self._config_files = in_force.config_files

    def text(self, option: Option) -> str | None:
        return said_value(self._arguments, self._variables, self._config_files, option)

    def number(self, option: Option, default: int) -> int:
        try:
            return int(self.text(option) or default)
        except ValueError:
            return default

    def switch(self, option: Option) -> bool | None:
        argument: Argument | None = find(self._arguments, option)
        if argument is not None:
            return argument.flag not in option.negated
        if any("_NO_" in name and name in self._variables for name in option.environment):
            return False  # there with any value, it turns the option off (common/arg.cpp)
        said = self.text(option)
        return None if said is None else said.lower() not in _OFF

    def works_against(self) -> tuple[str, ...]:
        """The words that no plan would have, each with what it does."""
        return tuple(
            f"{argument.flag}: {options.WORKS_AGAINST[argument.flag]}"
            for argument in self._arguments
            if argument.flag in options.WORKS_AGAINST
        )
