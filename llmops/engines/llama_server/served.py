"""What a running llama-server serves, in a plan's own terms."""

from __future__ import annotations

from llmops.core.plan import Fixed
from llmops.core.units import MIB
from llmops.engines.base import InForce, Installation, Served
from llmops.engines.llama_server import options
from llmops.engines.llama_server.arguments import Argument, find, program_length, read_arguments
from llmops.engines.llama_server.endpoint import said_value
from llmops.engines.llama_server.options import Option

# The engine's own defaults (common/common.h).
DEFAULT_BATCH_TOKENS, DEFAULT_UBATCH_TOKENS = 2048, 512
DEFAULT_PROMPT_CACHE_MIB, DEFAULT_CHECKPOINTS = 8192, 32


def served(in_force: InForce, installation: Installation) -> Served | None:
    """The values in force; None where the server does not say how many slots it has and how long each is.

    What the command line, the environment and config.ini leave open is the engine's default.
    """
    if in_force.slots is None or in_force.context_tokens_per_slot is None or in_force.arguments is None:
        return None
    sources = _Sources(in_force, installation)
    unified = sources.switch(options.KV_UNIFIED)
    asked = sources.number(options.SLOTS, -1)
    values = Fixed(
        slots=in_force.slots,
        context_tokens=in_force.context_tokens_per_slot,
        cache_type_k=sources.text(options.CACHE_TYPE_K) or "f16",
        cache_type_v=sources.text(options.CACHE_TYPE_V) or "f16",
        batch_tokens=sources.number(options.BATCH, DEFAULT_BATCH_TOKENS),
        ubatch_tokens=sources.number(options.UBATCH, DEFAULT_UBATCH_TOKENS),
        kv_unified=in_force.slots > 1 and asked < 0 if unified is None else unified,
        swa_full=bool(sources.switch(options.SWA_FULL)),
        flash_attention=sources.text(options.FLASH_ATTENTION) or "auto",
        repack=sources.switch(options.REPACK) is not False,
        prompt_cache_bytes=max(0, sources.number(options.PROMPT_CACHE, DEFAULT_PROMPT_CACHE_MIB)) * MIB,
        context_checkpoints=sources.number(options.CHECKPOINTS, DEFAULT_CHECKPOINTS),
    )
    return Served(values, context_was_chosen=sources.text(options.CONTEXT) not in {None, "", "0"})


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
        said = self.text(option)
        return None if said is None else said.lower() in {"", "1", "true", "on", "enabled"}
