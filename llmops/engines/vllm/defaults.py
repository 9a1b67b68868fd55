"""What vLLM chooses by itself for values that nobody gives, in a plan's terms."""

from __future__ import annotations

from dataclasses import replace

from llmops.core.hardware import Hardware, Memory
from llmops.core.memory.ggml_runtime import host_reserve_bytes
from llmops.core.memory.vllm import SERVER_BYTES
from llmops.core.memory.vllm_budget import card_facts
from llmops.core.memory.vllm_defaults import Batch, CardFacts, batch
from llmops.core.memory.vllm_facts import AUTO_CACHE_FOLLOWS_CHECKPOINT, CPU_POOL, UTILIZATION
from llmops.core.memory.vllm_settings import VllmSettings
from llmops.core.model import ModelSpec
from llmops.core.overrides import GIVEN
from llmops.core.plan import Fixed
from llmops.core.units import MIB
from llmops.core.version import Version

# The server checks free memory after it has opened the card, which itself takes some of it.
OPENING_BYTES = 512 * MIB
_DEVICES = {"amd": "rocm", "intel": "xpu"}


def with_defaults(fixed: Fixed, model: ModelSpec, hardware: Hardware, version: Version | None) -> Fixed:
    """Every value that is not fixed as this version chooses it; a server of unknown version counts as the newest."""
    own = own_batch(hardware, model, version, fixed)
    cache_type = fixed.cache_type_k or own_cache_type(model, version)
    own_pool = fixed.kv_memory_bytes is not None or takes_own_pool(hardware, version, fixed)
    share = None if own_pool else UTILIZATION.at(version)
    return replace(
        fixed,
        slots=fixed.slots or own.requests * (fixed.data_parallel or 1),
        context_tokens=fixed.context_tokens or model.context_tokens_trained,
        cache_type_k=cache_type,
        cache_type_v=fixed.cache_type_v or cache_type,
        batch_tokens=fixed.batch_tokens or own.tokens,
        ubatch_tokens=fixed.batch_tokens or own.tokens,
        gpu_memory_utilization=fixed.gpu_memory_utilization or share,
        tensor_parallel=fixed.tensor_parallel or 1,
        pipeline_parallel=fixed.pipeline_parallel or 1,
        data_parallel=fixed.data_parallel or 1,
        expert_parallel=bool(fixed.expert_parallel),
        nodes=fixed.nodes or 1,
    )


def own_batch(hardware: Hardware, model: ModelSpec, version: Version | None, fixed: Fixed) -> Batch:
    """Tokens of one step and requests at once; of several cards the one with the smallest decides."""
    settings = settings_of(hardware, version, fixed)
    cards = [card_facts(gpu) for gpu in hardware.gpus] or [CardFacts()]
    return min((batch(model, settings, card) for card in cards), key=lambda own: own.tokens)


def settings_of(hardware: Hardware, version: Version | None, fixed: Fixed) -> VllmSettings:
    """The fixed values in the memory model's terms, as far as they decide what the server chooses by itself."""
    return VllmSettings(
        version=version,
        device=device(hardware, on_card=uses_cards(hardware, fixed.kv_memory_bytes)),
        tensor_parallel=fixed.tensor_parallel or 1,
        pipeline_parallel=fixed.pipeline_parallel or 1,
        max_model_len=fixed.context_tokens,
        max_num_seqs=None if fixed.slots is None else max(1, fixed.slots // (fixed.data_parallel or 1)),
        max_num_batched_tokens=fixed.batch_tokens,
    )


def uses_cards(hardware: Hardware, kv_memory_bytes: int | None) -> bool:
    """Whether the server runs on cards: on those that are there, or, of a cache that is given, on some card."""
    no_card_said = not hardware.gpus and hardware.gpu_detail == GIVEN
    return bool(hardware.gpus) or (kv_memory_bytes is not None and not no_card_said)


def device(hardware: Hardware, *, on_card: bool) -> str:
    """The backend: cuda, rocm, xpu or cpu."""
    if not on_card:
        return "cpu"
    return _DEVICES.get(hardware.gpus[0].vendor, "cuda") if hardware.gpus else "cuda"


def takes_own_pool(hardware: Hardware, version: Version | None, fixed: Fixed) -> bool:
    """Whether the server runs without cards and takes a fixed size or share for its cache, whatever its flags say."""
    on_card = uses_cards(hardware, fixed.kv_memory_bytes)
    return device(hardware, on_card=on_card) == "cpu" and CPU_POOL.at(version)[0] != "utilization"


def own_cache_type(model: ModelSpec, version: Version | None) -> str:
    """The type of the cache where none is given: what the checkpoint asks for, else that of the model's values."""
    asked = (model.quantization_method or "").startswith("modelopt") and AUTO_CACHE_FOLLOWS_CHECKPOINT.at(version)
    if asked and "fp8" in (model.cache_data_type or ""):
        return "fp8"
    return "f16" if model.data_type == "float16" else "bf16"


def startable_utilization(hardware: Hardware, version: Version | None) -> float:
    """The version's own share of each card, else of the host, or less where so much is not free.

    The server refuses to start then: request_memory of vllm/v1/worker/utils.py, cpu_worker.py. Without cards the share
    is the worker's alone: the other processes need room beside it.
    """
    share = UTILIZATION.at(version)
    memory = hardware.memory
    rooms = [(gpu.usable_bytes, gpu.total_bytes, OPENING_BYTES) for gpu in hardware.gpus]
    for usable, total, kept in rooms or [(memory.usable_bytes, memory.total_bytes, _beside_worker(memory))]:
        if total and usable is not None:
            free = max(0, usable - kept) / total
            share = min(share, max(0.01, int(free * 100) / 100))
    return share


def _beside_worker(memory: Memory) -> int:
    """What a server without cards takes beside the share of its worker, and what the host keeps for itself."""
    return SERVER_BYTES[1] + host_reserve_bytes(memory)
