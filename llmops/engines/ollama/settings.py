"""The one list of variables that a plan becomes: it feeds the drop-in, the trial and what verify expects."""

from __future__ import annotations

from collections.abc import Iterator

from llmops.core.errors import Misconfigured, TooOld, UsageError
from llmops.core.plan import Plan
from llmops.core.units import MIB
from llmops.core.version import Version
from llmops.engines.base import Setting
from llmops.engines.found import InForce, Installation
from llmops.engines.ollama.facts import (
    CACHE_TYPES,
    DEFAULT_FIT_TARGET_MIB,
    OLDEST,
    OLDEST_SOURCE,
    QUANTISED_CACHE_NEEDS_FLASH_ATTENTION,
    RUNS_LLAMA_SERVER,
)
from llmops.engines.waiting import WAIT_POLICY, waits_as_told

# A model stays until another one needs its place: its memory is planned for, and loading it again costs the next user
# seconds to minutes (envconfig/config.go: below zero is for ever).
KEEP_ALIVE = "-1"
_EXACT_CACHE_TYPES = frozenset({"f32", "f16", "bf16"})


def compose(plan: Plan, version: Version | None, in_force: InForce | None = None) -> tuple[Setting, ...]:
    """Every planned variable of this version; raise UsageError for a cache that it does not have."""
    _require_cache_type(plan, version)
    pairs = [*_own_variables(plan, version)]
    if RUNS_LLAMA_SERVER.at(version):
        pairs += _child_variables(plan, in_force)
    return tuple(Setting(name, value, environment=True) for name, value in pairs)


def _own_variables(plan: Plan, version: Version | None) -> Iterator[tuple[str, str]]:
    yield "OLLAMA_NUM_PARALLEL", str(plan.slots)
    yield "OLLAMA_CONTEXT_LENGTH", str(plan.context_tokens_per_slot)
    yield "OLLAMA_MAX_LOADED_MODELS", str(plan.loaded_models)
    yield "OLLAMA_KEEP_ALIVE", KEEP_ALIVE
    # With 0 the server can block itself for good (server/sched.go: unbuffered channels), so 1 is the least.
    yield "OLLAMA_MAX_QUEUE", str(max(1, plan.queue_requests))
    yield "OLLAMA_KV_CACHE_TYPE", plan.cache_type_k
    flash = flash_attention(plan, version)
    if flash is not None:
        yield "OLLAMA_FLASH_ATTENTION", flash


def flash_attention(plan: Plan, version: Version | None) -> str | None:
    """1, 0, or None where the server decides by itself."""
    quantised = plan.cache_type_k not in _EXACT_CACHE_TYPES
    if plan.flash_attention == "on" or (quantised and QUANTISED_CACHE_NEEDS_FLASH_ATTENTION.at(version)):
        return "1"
    return "0" if plan.flash_attention == "off" else None


def _child_variables(plan: Plan, in_force: InForce | None) -> Iterator[tuple[str, str]]:
    """What reaches the llama-server of each model: only what Ollama itself never puts on its command line."""
    yield "LLAMA_ARG_CACHE_RAM", str(plan.prompt_cache_bytes // MIB)
    yield "LLAMA_ARG_CTX_CHECKPOINTS", str(plan.context_checkpoints)
    if plan.threads is not None:
        yield "LLAMA_ARG_THREADS", str(plan.threads)
    if plan.gpu_layers:
        yield "LLAMA_ARG_FIT_TARGET", str(fit_target_mib(plan))
    if plan.kv_unified:
        yield "LLAMA_ARG_KV_UNIFIED", "true"
    if plan.swa_full:
        yield "LLAMA_ARG_SWA_FULL", "true"
    if not plan.repack:
        yield "LLAMA_ARG_REPACK", "false"
    if plan.passive_waiting and not waits_as_told(in_force):
        yield WAIT_POLICY, "passive"


def fit_target_mib(plan: Plan) -> int:
    """MiB of each card that stay free: the engine's own margin, and room for a projector that it loads afterwards.

    Ollama adds the projector's size by itself, but not where the variable is set (llm/llama_server.go).
    """
    projectors = [group.stored_bytes for group in plan.model.tensors if group.role == "encoder"]
    return DEFAULT_FIT_TARGET_MIB + -(-sum(projectors) // MIB)


def _require_cache_type(plan: Plan, version: Version | None) -> None:
    keys, values = plan.cache_type_k, plan.cache_type_v
    if keys != values:
        raise UsageError(
            f"Ollama keeps keys and values in one type, not keys in {keys} and values in {values}",
            hint="give --cache-type",
        )
    known = CACHE_TYPES.at(version)
    if keys not in known:
        raise UsageError(f"this Ollama has no cache of type {keys}", hint=f"one of: {', '.join(known)}")


def require_usable(installation: Installation) -> None:
    """Raise Misconfigured for a program that does not run, TooOld for one that lacks what every plan needs."""
    if installation.problem is not None:
        raise Misconfigured(
            f"Ollama is installed but cannot be used: {installation.problem}",
            hint=f"make this work first: {' '.join(installation.command)} --version",
        )
    version = installation.version
    if version is not None and version < OLDEST:
        raise TooOld(
            f"Ollama {installation.version_text} is older than {OLDEST}: {OLDEST_SOURCE}",
            hint="install it anew: curl -fsSL https://ollama.com/install.sh | sh",
        )
