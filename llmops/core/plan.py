"""A plan: the few numbers that decide how an engine serves, each with its reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

from llmops.core.memory.budget import MemoryBudget
from llmops.core.model import ModelSpec
from llmops.core.workload import Workload


@dataclass(frozen=True)
class Reason:
    """Where one number of a plan comes from."""

    quantity: str
    value: str
    formula: str
    inputs: tuple[tuple[str, str], ...]
    source: str


# The formula of a number that nobody computed.
NOT_COMPUTED = "not computed: given, or the engine's own choice"


@dataclass(frozen=True)
class Policy:
    """What the operator is willing to accept. Defaults and their reasons: docs/reference/policy.md."""

    wait_probability: float = 0.10
    patience_seconds: float = 60.0
    max_gap_seconds: float = 2.0
    safety_factor: float = 0.95
    minimum_tokens_per_second: float = 5.0
    protect: str = "itl"
    cache_types_allowed: tuple[str, ...] = ("f16", "q8_0")


@dataclass(frozen=True)
class Fixed:
    """Values that the user sets instead of letting them be computed; None means computed."""

    slots: int | None = None
    context_tokens: int | None = None
    cache_type_k: str | None = None
    cache_type_v: str | None = None
    queue_requests: int | None = None
    batch_tokens: int | None = None
    ubatch_tokens: int | None = None
    kv_unified: bool | None = None
    swa_full: bool = False
    flash_attention: str | None = None
    repack: bool | None = None
    prompt_cache_bytes: int | None = None
    context_checkpoints: int | None = None
    gpu_memory_utilization: float | None = None
    kv_memory_bytes: int | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    data_parallel: int | None = None
    expert_parallel: bool | None = None
    nodes: int | None = None
    prefix_caching: bool | None = None
    enforce_eager: bool = False
    gpu_layers: int | None = None
    cpu_expert_layers: int | None = None
    tensor_split: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Shape:
    """The values of a plan that decide how much memory it takes.

    `gpu_layers` None means that no card is used; the model's layers + 1 puts everything on the cards. The values from
    `gpu_memory_utilization` on are vLLM's: there `context_tokens_per_slot` is the longest request, `slots` the most
    that run at once and `batch_tokens` the tokens of one step; `kv_memory_bytes` is the cache of one card. Each of
    `data_parallel` parts holds the whole model but for its experts and has its even share of the slots;
    `layer_partition` are the layers of each pipeline stage where they are not shared out evenly.
    `cpu_expert_layers`: so many layers, the first ones, keep their experts on the host though they run on a card;
    `tensor_split`: the shares of the cards in the layers, by their free memory where empty.
    """

    slots: int
    context_tokens_per_slot: int
    cache_type_k: str = "f16"
    cache_type_v: str = "f16"
    kv_unified: bool = False
    swa_full: bool = False
    batch_tokens: int = 2048
    ubatch_tokens: int = 512
    flash_attention: str = "auto"
    prompt_cache_bytes: int = 0
    context_checkpoints: int = 0
    memory_mapped: bool = True
    repack: bool = True
    gpu_layers: int | None = None
    cpu_expert_layers: int = 0
    tensor_split: tuple[float, ...] = ()
    gpu_memory_utilization: float | None = None
    kv_memory_bytes: int | None = None
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    data_parallel: int = 1
    expert_parallel: bool = False
    layer_partition: tuple[int, ...] = ()
    nodes: int = 1
    prefix_caching: bool | None = None
    enforce_eager: bool = False

    @property
    def cards(self) -> int:
        """All ranks, each on a card of its own where there are cards."""
        return self.tensor_parallel * self.pipeline_parallel * self.data_parallel

    @property
    def slots_of_each(self) -> int:
        """Slots of each of the equal parts that hold the whole model: they are shared out evenly."""
        return -(-self.slots // self.data_parallel)


MemoryModel = Callable[[Shape], tuple[MemoryBudget, ...]]


@dataclass(frozen=True)
class SpeedRange:
    """Tokens per second: low, likely, high; all three equal when measured."""

    low: float
    likely: float
    high: float


@dataclass(frozen=True)
class Speed:
    """Rates with this many streams at once; `basis` is measured or predicted."""

    streams: int
    decode_tokens_per_second_per_stream: SpeedRange
    decode_tokens_per_second_total: float
    prefill_tokens_per_second: float
    ttft_seconds: float
    basis: str


@dataclass(frozen=True)
class MeasuredRates:
    """What this host did with this model and engine, from an earlier verification.

    `decode_tokens_per_second` maps streams at once to the rate of one stream; at least one stream is there.
    """

    decode_tokens_per_second: tuple[tuple[int, float], ...]
    prefill_tokens_per_second: float


@dataclass(frozen=True)
class Plan:
    """How an engine should serve one model; engine-neutral.

    `gpu_layers` None: no card is used and no flag is needed. `queue_requests` is what patience allows; whether the
    engine can bound its queue is the engine's business. `loaded_models`: how many models may be in memory at once, of
    an engine that serves several; the budgets hold for them, and for the draft model of `draft_reference`. `replicas`
    are equal servers, this one among them, that the users need together; None where this one is enough.
    """

    engine: str
    engine_version: str | None
    model: ModelSpec
    workload: Workload
    policy: Policy
    slots: int
    context_tokens_per_slot: int
    cache_type_k: str
    cache_type_v: str
    kv_unified: bool
    batch_tokens: int
    ubatch_tokens: int
    threads: int | None
    batch_threads: int | None
    gpu_layers: int | None
    prompt_cache_bytes: int
    context_checkpoints: int
    memory_mapped: bool
    repack: bool
    flash_attention: str
    swa_full: bool
    queue_requests: int
    in_flight: float
    wait_probability: float
    wait_seconds_mean: float
    binding_constraint: str
    budgets: tuple[MemoryBudget, ...]
    speeds: tuple[Speed, ...]
    reasons: tuple[Reason, ...]
    warnings: tuple[str, ...] = ()
    passive_waiting: bool = False
    loaded_models: int = 1
    cpu_expert_layers: int = 0
    tensor_split: tuple[float, ...] = ()
    gpu_memory_utilization: float | None = None
    kv_memory_bytes: int | None = None
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    data_parallel: int = 1
    expert_parallel: bool = False
    layer_partition: tuple[int, ...] = ()
    nodes: int = 1
    prefix_caching: bool | None = None
    enforce_eager: bool = False
    draft_reference: str | None = None
    replicas: int | None = None

    @property
    def shape(self) -> Shape:
        """The part of the plan that decides its memory."""
        return Shape(**{field.name: getattr(self, field.name) for field in fields(Shape)})

    @property
    def cache_tokens(self) -> int:
        """Tokens of context over all slots."""
        return self.slots * self.context_tokens_per_slot
