"""One machine, one model and one plan that the tests of the command line share."""

from __future__ import annotations

from llmops.core.hardware import Bandwidth, Cpu, Gpu, Hardware, Memory, Observation, Swap
from llmops.core.memory.budget import MemoryBudget
from llmops.core.model import AttentionLayer, ModelSpec, TensorGroup
from llmops.core.plan import Plan, Policy, Reason, Speed, SpeedRange
from llmops.core.units import GIB, MIB
from llmops.core.workload import DEFAULTS, WorkloadKind

HARDWARE = Hardware(
    cpu=Cpu(
        model="Example 8-Core Processor",
        architecture="x86_64",
        physical_cores=4,
        logical_cpus=8,
        threads_per_core=2,
        numa_nodes=1,
        flags=("avx2", "fma"),
        affinity_cpus=8,
        quota_cores=3.5,
        usable_threads=3,
    ),
    memory=Memory(
        total_bytes=8 * GIB,
        available_bytes=6 * GIB,
        limit_bytes=7 * GIB,
        limit_available_bytes=5 * GIB,
        limit_source="/sys/fs/cgroup/memory.max",
        held_by_engine_bytes=512 * MIB,
    ),
    swap=Swap(total_bytes=2 * GIB, used_bytes=0, kind="file"),
    gpus=(
        Gpu(0, "GPU-0", "Example RTX", 24 * GIB, 23 * GIB, (8, 6), 936_000_000_000),
        Gpu(1, None, "Example unified", None, None, unified=True),
    ),
    gpu_outcome="ok",
    gpu_detail="2 cards",
    driver_version="550.54",
    bandwidth=Bandwidth(20_000_000_000, 0.05, 256 * MIB, 3, 5, reliable=True, reason=None),
    observations=(
        Observation("memory.total_bytes", "/proc/meminfo"),
        Observation("cpu.model", "/proc/cpuinfo", "absent"),
    ),
)

MODEL = ModelSpec(
    reference="/models/example-8b-q4_k_m.gguf",
    format="gguf",
    architecture="llama",
    name="Example 8B",
    layers=2,
    attention_layers=(AttentionLayer(8, 128, 128), AttentionLayer(8, 128, 128, 1024)),
    embedding_length=4096,
    feed_forward_length=14_336,
    attention_heads=32,
    vocabulary_size=128_256,
    context_tokens_trained=32_768,
    parameters=8_030_000_000,
    active_parameters=8_030_000_000,
    weights_bytes=4_900_000_000,
    active_weights_bytes=4_600_000_000,
    file_bytes=4_910_000_000,
    quantization="Q4_K_M",
    tensors=(TensorGroup("repeating", "q4_K", 10, 1000, 562, 500),),
    has_chat_template=True,
    source_paths=("/models/example-8b-q4_k_m.gguf",),
)

PLAN = Plan(
    engine="llama-server",
    engine_version="11434",
    model=MODEL,
    workload=DEFAULTS[WorkloadKind.CHAT],
    policy=Policy(),
    slots=4,
    context_tokens_per_slot=8_192,
    cache_type_k="f16",
    cache_type_v="f16",
    kv_unified=False,
    batch_tokens=512,
    ubatch_tokens=256,
    threads=3,
    batch_threads=3,
    gpu_layers=None,
    prompt_cache_bytes=512 * MIB,
    context_checkpoints=4,
    memory_mapped=True,
    repack=True,
    flash_attention="auto",
    swa_full=False,
    queue_requests=6,
    in_flight=2.7,
    wait_probability=0.08,
    wait_seconds_mean=0.7,
    binding_constraint="wait_probability",
    budgets=(
        MemoryBudget(
            "host",
            8 * GIB,
            5 * GIB,
            weights_bytes=2 * GIB,
            cache_bytes=1 * GIB,
            compute_bytes=300 * MIB,
            prompt_cache_bytes=512 * MIB,
            reserve_bytes=256 * MIB,
            ranges=(("compute_bytes", 200 * MIB, 300 * MIB, "depends on the backend"),),
        ),
    ),
    speeds=(
        Speed(1, SpeedRange(8.0, 10.0, 12.0), 10.0, 90.0, 16.7, "predicted"),
        Speed(2, SpeedRange(6.0, 7.0, 8.0), 14.0, 90.0, 17.0, "predicted"),
        Speed(5, SpeedRange(3.0, 4.0, 5.0), 20.0, 90.0, 20.0, "predicted"),
        Speed(20, SpeedRange(3.0, 4.0, 5.0), 20.0, 90.0, 60.0, "predicted"),
    ),
    reasons=(
        Reason(
            "in_flight", "2.7", "users x generation / turn", (("users", "20"), ("generation", "12 s")), "queue model"
        ),
        Reason(
            "slots", "4", "fewest with a wait chance of 0.10 or less", (("k 3", "0.2"), ("k 4", "0.08")), "M/M/k//N"
        ),
    ),
    warnings=("swap is in use on this machine",),
)
