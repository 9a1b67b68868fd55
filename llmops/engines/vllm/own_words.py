"""What a person's own words for vLLM hide, cannot take back, or do against a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llmops.core.errors import Misconfigured
from llmops.core.plan import Plan
from llmops.engines.found import InForce, Installation
from llmops.engines.vllm.words import Argument, find, model_of, program_length, read_words

# On a processor it wins over --kv-cache-memory-bytes (vllm/platforms/cpu.py); whole GiB only.
HIDDEN_CACHE_MEMORY = "VLLM_CPU_KVCACHE_SPACE"
# What tells one of several servers that together hold the copies of a model which part of them it is.
_OF_ONE_RANK = (
    "--data-parallel-rank", "--data-parallel-start-rank", "--data-parallel-size-local", "--data-parallel-external-lb",
    "--data-parallel-hybrid-lb", "--data-parallel-multi-port-external-lb",
)  # fmt: skip


def require_told_model(
    program: Sequence[str], present: Sequence[str], config: Sequence[Argument], installation: Installation
) -> None:
    """Raise Misconfigured where a person's words hide the model: which of them take a value is not known."""
    if any(not one.flag for one in read_words(present)) or not present:
        return
    if model_of((*program, *present), config) is None and program[-1] == "serve":
        raise Misconfigured(
            f"the model that {installation.unit} serves cannot be told from its words",
            hint="write it directly after `serve` in ExecStart= of the unit, then run this again",
        )


def require_kept_words(plan: Plan, said: Sequence[Argument]) -> None:
    """Raise Misconfigured where words that stay would end the server beside those that the plan takes away."""
    if find(said, "--enable-eplb") is not None and not plan.expert_parallel:
        raise Misconfigured(
            "--enable-eplb needs whole experts on each card, and the plan has none",
            hint="plan with --expert-parallel, or take --enable-eplb out of the words of the unit",
        )
    all_here = ("--data-parallel-size-local", str(plan.data_parallel))
    rank = next((one.flag for one in said if one.flag in _OF_ONE_RANK and (one.flag, one.value) != all_here), None)
    if rank is not None:
        raise Misconfigured(
            f"{rank} makes this server a part of a larger one, which llmops does not plan",
            hint=f"take {rank} out of the words of the unit, or configure it by hand: llmops size",
        )


def words_warnings(installation: Installation, in_force: InForce | None) -> tuple[str, ...]:
    """What a person's own words do that no plan would."""
    if in_force is None or installation.unit is None or in_force.user_arguments is None:
        return ()
    words = in_force.user_arguments
    said = read_words(words[program_length(words) or len(words) :])
    lines = []
    if find(said, "--api-key") is not None:
        lines.append(
            "--api-key stands on the command line, where every user of the machine can read it: put VLLM_API_KEY=..."
            " into a file of root's alone, and EnvironmentFile= of it into a drop-in"
        )
    if find(said, "--disable-log-stats") is not None:
        lines.append("--disable-log-stats is kept, but: requests that are put back for want of cache cannot be seen")
    return tuple(lines)


def require_undoable(
    plan: Plan, config: Sequence[Argument], installation: Installation, in_force: InForce | None
) -> None:
    """Raise Misconfigured for what no word on the command line can take back."""
    pool = find(config, "--kv-cache-memory-bytes")
    if pool is not None and plan.kv_memory_bytes is None:
        raise Misconfigured(
            f"the --config file of {installation.unit} sets kv-cache-memory-bytes to {pool.value}, and the plan leaves"
            " the memory of the cache to the engine",
            hint=f"take that line out of the file, or plan with it: --kv-memory {pool.value}",
        )
    variables: Mapping[str, str] = dict(in_force.configured_environment or ()) if in_force is not None else {}
    if variables.get(HIDDEN_CACHE_MEMORY) and plan.kv_memory_bytes is not None:
        raise Misconfigured(
            f"{installation.unit} sets {HIDDEN_CACHE_MEMORY}={variables[HIDDEN_CACHE_MEMORY]}, which wins over"
            " --kv-cache-memory-bytes",
            hint=f"take it out: UnsetEnvironment={HIDDEN_CACHE_MEMORY} in a drop-in of your own (systemctl edit)",
        )
