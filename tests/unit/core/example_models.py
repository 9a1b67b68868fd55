"""Models and machines that several tests plan for."""

from __future__ import annotations

from llmops.core.hardware import Bandwidth, Cpu, Gpu, Hardware, Memory, Swap
from llmops.core.memory.budget import MemoryBudget
from llmops.core.model import AttentionLayer, ModelSpec, TensorGroup
from llmops.core.plan import Fixed, MeasuredRates, MemoryModel, Policy, Shape
from llmops.core.problem import Problem
from llmops.core.throughput import predict_rates, rates_from_measured
from llmops.core.workload import DEFAULTS, Workload, WorkloadKind
from llmops.engines.llama_server.memory import memory_model

GIB = 1024**3
CHAT = DEFAULTS[WorkloadKind.CHAT]


def eight_billion_16_bit() -> ModelSpec:
    """36 layers of 8 KV heads of 128: the worked example of 147,456 bytes per token, 8.19e9 parameters in 16 bits."""
    parameters = 8_190_735_360
    embedding = 151_936 * 4_096
    return ModelSpec(
        reference="/models/qwen3-8b-f16.gguf",
        format="gguf",
        architecture="qwen3",
        name="Qwen3 8B",
        layers=36,
        attention_layers=(AttentionLayer(8, 128, 128),) * 36,
        embedding_length=4_096,
        feed_forward_length=12_288,
        attention_heads=32,
        vocabulary_size=151_936,
        context_tokens_trained=40_960,
        parameters=parameters,
        active_parameters=parameters,
        weights_bytes=2 * parameters,
        active_weights_bytes=2 * (parameters - embedding),
        file_bytes=2 * parameters + 6_000_000,
        quantization="F16",
        tensors=(
            TensorGroup("input", "F16", 1, embedding, 2 * embedding, 2 * embedding),
            TensorGroup("output", "F16", 1, embedding, 2 * embedding, 2 * embedding),
            TensorGroup(
                "repeating",
                "F16",
                396,
                parameters - 2 * embedding,
                2 * (parameters - 2 * embedding),
                2 * (parameters - 2 * embedding),
            ),
        ),
    )


def cpu_host(memory_bytes: int = 8 * GIB, *, cores: int = 4, bandwidth: int | None = 20_000_000_000) -> Hardware:
    """A virtual server without a card."""
    measured = Bandwidth(bandwidth, 0.05, 2 * GIB, cores, 5, reliable=True, reason=None) if bandwidth else None
    return Hardware(
        cpu=Cpu(physical_cores=cores, logical_cpus=cores, usable_threads=cores, flags=("avx2",)),
        memory=Memory(total_bytes=memory_bytes, available_bytes=memory_bytes),
        swap=Swap(0, 0, "none"),
        bandwidth=measured,
    )


def one_card(total_bytes: int = 24_000_000_000) -> Hardware:
    """A 64 GiB host with one card of 936 GB/s."""
    host = cpu_host(64 * GIB, cores=16)
    card = Gpu(0, "GPU-0", "RTX 3090", total_bytes, total_bytes, (8, 6), 936_000_000_000)
    return Hardware(cpu=host.cpu, memory=host.memory, swap=host.swap, gpus=(card,), bandwidth=host.bandwidth)


def plain_memory(
    available_bytes: int, weights_bytes: int, bytes_per_token: int, *, per_slot_bytes: int = 0
) -> MemoryModel:
    """A memory model with nothing but weights, cache and a constant per slot, halved by an 8-bit cache."""

    def budgets(shape: Shape) -> tuple[MemoryBudget, ...]:
        cache = shape.slots * shape.context_tokens_per_slot * bytes_per_token
        if shape.cache_type_k == "q8_0":
            cache = cache * 17 // 32
        return (
            MemoryBudget(
                "host",
                available_bytes,
                available_bytes,
                weights_bytes=weights_bytes,
                cache_bytes=cache,
                state_bytes=shape.slots * per_slot_bytes,
                prompt_cache_bytes=shape.prompt_cache_bytes + shape.context_checkpoints * shape.slots * per_slot_bytes,
            ),
        )

    return budgets


def problem(
    hardware: Hardware,
    workload: Workload = CHAT,
    *,
    fixed: Fixed | None = None,
    policy: Policy | None = None,
    measured: MeasuredRates | None = None,
    preferred_context_tokens: int | None = None,
) -> Problem:
    """The 8B model on this machine, as the plan action would put it together."""
    model = eight_billion_16_bit()
    on_gpu = bool(hardware.gpus)
    rates = predict_rates(hardware, model, workload, on_gpu=on_gpu)
    if measured is not None:
        rates = rates_from_measured(measured, rates)
    return Problem(
        engine="llama-server",
        engine_version=None,
        hardware=hardware,
        model=model,
        workload=workload,
        policy=policy or Policy(),
        fixed=fixed or Fixed(),
        rates=rates,
        memory=memory_model(hardware, model, None),
        on_gpu=on_gpu,
        preferred_context_tokens=preferred_context_tokens,
    )
