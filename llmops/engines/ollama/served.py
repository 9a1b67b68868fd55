"""What a running Ollama serves, in a plan's own terms."""

from __future__ import annotations

from llmops.core.plan import Fixed
from llmops.core.units import MIB
from llmops.core.version import Version
from llmops.engines.found import InForce, Installation, Served
from llmops.engines.ollama.facts import DEFAULT_CHECKPOINTS, DEFAULT_PROMPT_CACHE_MIB, DEFAULT_SLOTS, RUNS_LLAMA_SERVER

_OFF = frozenset({"0", "f", "false", "F", "FALSE", "False"})  # strconv.ParseBool; every other text is true


def served(in_force: InForce, installation: Installation) -> Served | None:
    """The values in force; None where they cannot be seen, or where a person left to Ollama what must be chosen.

    Without OLLAMA_CONTEXT_LENGTH the context depends on the cards; without OLLAMA_MAX_LOADED_MODELS three models are
    loaded with no look at the memory of a host without cards.
    """
    if in_force.environment is None:
        return None
    variables = {name: value.strip().strip("\"'") for name, value in in_force.environment}
    context = _number(variables, "OLLAMA_CONTEXT_LENGTH", 0)
    if not context or not _number(variables, "OLLAMA_MAX_LOADED_MODELS", 0):
        return None
    version = installation.version
    cache_type = variables.get("OLLAMA_KV_CACHE_TYPE", "").lower() or "f16"
    values = Fixed(
        slots=_number(variables, "OLLAMA_NUM_PARALLEL", 0) or DEFAULT_SLOTS.at(version),
        context_tokens=context,
        cache_type_k=cache_type,
        cache_type_v=cache_type,
        flash_attention=_flash_attention(variables),
        prompt_cache_bytes=_kept_prompts_mib(variables, version) * MIB,
        context_checkpoints=_checkpoints(variables, version),
    )
    return Served(values, context_was_chosen=True)


def _kept_prompts_mib(variables: dict[str, str], version: Version | None) -> int:
    if not RUNS_LLAMA_SERVER.at(version):
        return 0
    return max(0, _number(variables, "LLAMA_ARG_CACHE_RAM", DEFAULT_PROMPT_CACHE_MIB))


def _checkpoints(variables: dict[str, str], version: Version | None) -> int:
    if not RUNS_LLAMA_SERVER.at(version):
        return 0
    return max(0, _number(variables, "LLAMA_ARG_CTX_CHECKPOINTS", DEFAULT_CHECKPOINTS))


def _flash_attention(variables: dict[str, str]) -> str:
    said = variables.get("OLLAMA_FLASH_ATTENTION", "")
    if not said:
        return "auto"
    return "off" if said in _OFF else "on"


def _number(variables: dict[str, str], name: str, default: int) -> int:
    try:
        return int(variables[name])
    except (KeyError, ValueError):  # a value that is no number is ignored with a warning (envconfig/config.go)
        return default
