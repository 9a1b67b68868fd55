"""What decides the memory of a vLLM server: its settings, and what the engine takes for those that are not given."""

from __future__ import annotations

from dataclasses import dataclass, replace

from llmops.core.version import Version


@dataclass(frozen=True)
class SeenPool:
    """Blocks of the pool of a server that runs, and its limits, the only settings in which it may be another one."""

    blocks: int
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int


@dataclass(frozen=True)
class VllmSettings:
    """The settings of one vLLM server; None is a setting that is not given, for which that version's default counts.

    `device` is cuda, rocm, xpu or cpu. `max_model_len` and `max_num_batched_tokens` count tokens, `block_size` too.
    `kv_memory_bytes` is `--kv-cache-memory-bytes`, for each card; `cache_dtype` is `--kv-cache-dtype`,
    `mamba_state_dtype` is `--mamba-ssm-cache-dtype`. `draft_layers` counts attention layers of a speculative drafter
    like the model's own largest one, `draft_tokens` what it guesses in a step. `weights_rank_bytes` and
    `available_cache_bytes` are what a first boot printed for a card: `Model loading took` and `Available KV cache
    memory`; they take the place of what is computed. `async_scheduling` None is the version's own choice.
    `adapters` is whether LoRA adapters are served. `hybrid_cache` False is `--disable-hybrid-kv-cache-manager`.
    `seen` is the pool of a server that runs here: it narrows the range.
    `nodes` are machines like this one that share the ranks. `data_parallel` engines each have a copy of the model but
    for its experts, a pool and `max_num_seqs` of their own; `layer_partition` is VLLM_PP_LAYER_PARTITION.
    """

    version: Version | None = None
    device: str = "cuda"
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    data_parallel: int = 1
    expert_parallel: bool = False
    layer_partition: tuple[int, ...] = ()
    nodes: int = 1
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    gpu_memory_utilization: float | None = None
    kv_memory_bytes: int | None = None
    cache_dtype: str = "auto"
    dtype: str | None = None
    block_size: int | None = None
    enforce_eager: bool = False
    prefix_caching: bool | None = None
    async_scheduling: bool | None = None
    hybrid_cache: bool = True
    adapters: bool = False
    draft_layers: int = 0
    draft_tokens: int = 0
    mamba_state_dtype: str | None = None
    weights_rank_bytes: int | None = None
    available_cache_bytes: int | None = None
    seen: SeenPool | None = None

    def with_limits_of(self, seen: SeenPool) -> VllmSettings:
        """The settings of the server that was seen."""
        return replace(
            self,
            max_model_len=seen.max_model_len,
            max_num_seqs=seen.max_num_seqs,
            max_num_batched_tokens=seen.max_num_batched_tokens,
            seen=None,
        )

    @property
    def world(self) -> int:
        """Ranks of one engine: `world_size` of vllm/config/parallel.py."""
        return self.tensor_parallel * self.pipeline_parallel

    @property
    def ranks(self) -> int:
        """Ranks of all engines, one after the other: `world_size_across_dp`."""
        return self.world * self.data_parallel

    @property
    def expert_ranks(self) -> int:
        """Ranks that share the experts of a layer: those of one stage over all engines (fused_moe/config.py)."""
        return self.tensor_parallel * self.data_parallel

    def stage(self, rank: int) -> int:
        """The pipeline stage of a rank."""
        return rank % self.world // self.tensor_parallel

    def expert_rank(self, rank: int) -> int:
        """The place of a rank among those that share the experts of its stage."""
        return rank // self.world * self.tensor_parallel + rank % self.tensor_parallel
