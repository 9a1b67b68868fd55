"""A plan in the words of `vllm serve`: each flag where the version has it, else a warning with what to do before it."""

from __future__ import annotations

from collections.abc import Iterator

from llmops.core.plan import Plan
from llmops.core.version import Since, Timeline, Version
from llmops.engines.base import Setting
from llmops.engines.found import Installation
from llmops.engines.vllm.releases import NEWEST, OLDEST

_FIRST = Version((0,))
CACHE_MEMORY_FLAG = Timeline(
    (
        Since(_FIRST, value=False, source="vllm 0.10.1, vllm/engine/arg_utils.py"),
        Since(Version((0, 10, 2)), value=True, source="vllm 0.10.2, --kv-cache-memory-bytes"),
    )
)
QUEUE_FLAG = Timeline(
    (
        Since(_FIRST, value=False, source="vllm 0.28.0: no limit of what waits"),
        Since(Version((0, 29, 0)), value=True, source="vllm 0.29.0, --max-num-queued-reqs (PR 49445)"),
    )
)
# Whether several API servers, one for each engine side by side, count waiting requests together.
QUEUE_SHARED = Timeline(
    (
        Since(_FIRST, value=False, source="vllm 0.29.0: each API server counts its own"),
        Since(Version((0, 30, 0)), value=True, source="vllm 0.30.0, vllm/v1/engine/admission_control.py (PR 54746)"),
    )
)
NODES_FLAG = Timeline(
    (
        Since(_FIRST, value=False, source="vllm 0.11.0: several machines only with ray"),
        Since(Version((0, 11, 1)), value=True, source="vllm 0.11.1, --nnodes"),
    )
)
# The words of --kv-cache-dtype for each type of cache.
CACHE_TYPE_WORDS: Timeline[dict[str, str]] = Timeline(
    (
        Since(_FIRST, {"fp8": "fp8"}, "vllm 0.8.5, vllm/config.py"),
        Since(Version((0, 11, 0)), {"fp8": "fp8", "bf16": "bfloat16"}, "vllm 0.11.0, vllm/config/cache.py"),
        Since(
            Version((0, 18, 0)),
            {"fp8": "fp8", "bf16": "bfloat16", "f16": "float16"},
            "vllm 0.18.0, vllm/config/cache.py",
        ),
    )
)
# Layers of each pipeline stage (vllm/distributed/utils.py, get_pp_indices).
LAYERS_VARIABLE = "VLLM_PP_LAYER_PARTITION"


def arguments(plan: Plan, version: Version | None) -> tuple[Setting, ...]:
    """What follows `vllm serve`: the model, then every planned option that this version has."""
    rows = [
        (plan.model.reference, None),
        ("--max-model-len", str(plan.context_tokens_per_slot)),
        ("--max-num-seqs", str(plan.shape.slots_of_each)),
        ("--max-num-batched-tokens", str(plan.batch_tokens)),
        *_memory(plan, version),
        *_parallel(plan, version),
        *_types(plan, version),
    ]
    if plan.prefix_caching is not None:
        rows.append((f"--{'' if plan.prefix_caching else 'no-'}enable-prefix-caching", None))
    if plan.enforce_eager:
        rows.append(("--enforce-eager", None))
    if QUEUE_FLAG.at(version):
        rows.append(("--max-num-queued-reqs", str(_let_in(plan, version))))
    return tuple(Setting(name, value) for name, value in rows)


def _let_in(plan: Plan, version: Version | None) -> int:
    """Requests that run or wait (vllm/v1/engine/async_llm.py, check_admission), over all engines side by side."""
    most = plan.slots + plan.queue_requests
    return most if QUEUE_SHARED.at(version) else -(-most // plan.data_parallel)


def waiting_of(limit: int, slots: int, engines: int, version: Version | None) -> int:
    """Requests that may wait where `--max-num-queued-reqs` is `limit` and `slots` run over all engines side by side."""
    return max(0, (limit if QUEUE_SHARED.at(version) else limit * engines) - slots)


def variables(plan: Plan) -> tuple[Setting, ...]:
    """What no flag says: the layers of each stage, and that cards are counted as they lie on the bus."""
    if not plan.layer_partition:
        return ()
    layers = ",".join(str(count) for count in plan.layer_partition)
    return (
        Setting("CUDA_DEVICE_ORDER", "PCI_BUS_ID", environment=True),
        Setting(LAYERS_VARIABLE, layers, environment=True),
    )


def _memory(plan: Plan, version: Version | None) -> list[tuple[str, str | None]]:
    if plan.kv_memory_bytes is not None and CACHE_MEMORY_FLAG.at(version):
        return [("--kv-cache-memory-bytes", str(plan.kv_memory_bytes))]
    share = plan.gpu_memory_utilization
    return [] if share is None else [("--gpu-memory-utilization", f"{share:.10g}")]


def _parallel(plan: Plan, version: Version | None) -> list[tuple[str, str | None]]:
    rows: list[tuple[str, str | None]] = []
    if plan.tensor_parallel > 1:
        rows.append(("--tensor-parallel-size", str(plan.tensor_parallel)))
    if plan.pipeline_parallel > 1:
        rows.append(("--pipeline-parallel-size", str(plan.pipeline_parallel)))
    if plan.data_parallel > 1:
        rows.append(("--data-parallel-size", str(plan.data_parallel)))
    if plan.expert_parallel:
        rows.append(("--enable-expert-parallel", None))
    if plan.nodes > 1 and NODES_FLAG.at(version):
        rows.append(("--nnodes", str(plan.nodes)))
    return rows


def _repeats_its_cache(plan: Plan) -> bool:
    """Whether memory keeps slots few and cards that share a layer all keep the same latent vectors."""
    latent = any(layer.is_latent for layer in plan.model.attention_layers)
    few = plan.binding_constraint == "memory" and plan.nodes == 1
    return few and latent and plan.model.experts > 0 and plan.tensor_parallel > 1


def _has_its_type(plan: Plan, version: Version | None) -> bool:
    """Whether the cache is of the planned type, by itself or because it can be told."""
    from llmops.engines.vllm.defaults import own_cache_type

    return plan.cache_type_k == own_cache_type(plan.model, version) or bool(_types(plan, version))


def _types(plan: Plan, version: Version | None) -> list[tuple[str, str | None]]:
    """The type of the cache where it is not the server's own, and float16 where the card has no bfloat16."""
    from llmops.engines.vllm.defaults import own_cache_type

    own, word = own_cache_type(plan.model, version), CACHE_TYPE_WORDS.at(version).get(plan.cache_type_k)
    if plan.cache_type_k == own:
        return []
    if (own, plan.cache_type_k) == ("bf16", "f16"):
        return [("--dtype", "half")]
    return [] if word is None else [("--kv-cache-dtype", word)]


def warnings(plan: Plan, installation: Installation) -> tuple[str, ...]:
    """What this version cannot be told, and what the plan leaves to the person who starts it."""
    return (*_what_no_flag_says(plan, installation.version), *_what_is_left(plan), *_unknown(installation.version))


def _what_no_flag_says(plan: Plan, version: Version | None) -> Iterator[str]:
    if plan.kv_memory_bytes is not None and not CACHE_MEMORY_FLAG.at(version):
        yield (
            "before 0.10.2 vLLM has no flag for the memory of its cache: raise --gpu-memory-utilization until the log"
            " says the same `Available KV cache memory`"
        )
    if not QUEUE_FLAG.at(version):
        yield (
            "before 0.29.0 the queue of vLLM has no limit: once the plan is live, put a front before it that lets"
            f" {plan.queue_requests} wait and refuses more: sudo llmops apply --front haproxy --listen 127.0.0.1:8001"
        )
    if plan.nodes > 1:
        how = "" if NODES_FLAG.at(version) else " --distributed-executor-backend ray, for --nnodes came with 0.11.1:"
        yield (
            f"one server on {plan.nodes} machines like this one:{how} llmops render --inventory FILE --directory DIR"
            " writes what each of them starts, and in which order"
        )
    if not _has_its_type(plan, version):
        yield f"this version of vLLM cannot be told a cache in {plan.cache_type_k}; it uses the model's own type"


def _what_is_left(plan: Plan) -> Iterator[str]:
    """What only the person can decide."""
    if _repeats_its_cache(plan):
        yield (
            f"the cache of {plan.model.reference} is whole on each of the {plan.tensor_parallel} cards that share a"
            f" layer: with --data-parallel {plan.tensor_parallel} --expert-parallel each keeps other requests in it"
        )
    if plan.draft_reference is not None:
        yield (
            f"{plan.draft_reference} is counted in the memory; vLLM is told to use it with --speculative-config, with"
            " the number of tokens to guess"
        )


def _unknown(version: Version | None) -> Iterator[str]:
    """A version whose rules were not read; the nearest known one's are taken."""
    if version is not None and version > NEWEST:
        yield f"vLLM {version} is newer than all that llmops knows: planned by the rules of {NEWEST}"
    if version is not None and version < OLDEST:
        yield f"vLLM {version} is older than all that llmops knows: planned by the rules of {OLDEST}"
