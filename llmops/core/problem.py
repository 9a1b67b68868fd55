"""What a plan is made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llmops.core.errors import UsageError
from llmops.core.hardware import Hardware
from llmops.core.model import CACHE_TYPE_BLOCKS, ModelSpec
from llmops.core.plan import Fixed, MemoryModel, Policy, Shape
from llmops.core.processors import MOST_BATCH_TOKENS
from llmops.core.throughput import Rates
from llmops.core.workload import Workload


def _as_wanted(shape: Shape) -> Shape:
    return shape


@dataclass(frozen=True)
class Split:
    """How a model lies on several cards: each layer cut into `tensor_parallel`, the layers into `pipeline_parallel`.

    `data_parallel` such groups serve side by side; with `expert_parallel` each card keeps whole experts instead of a
    part of every one. `layer_partition`: the layers of each stage, where they are not shared out evenly.
    """

    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    data_parallel: int = 1
    expert_parallel: bool = False
    layer_partition: tuple[int, ...] = ()

    @property
    def cards(self) -> int:
        """All cards that it takes."""
        return self.tensor_parallel * self.pipeline_parallel * self.data_parallel

    def __str__(self) -> str:
        """`2 x 1`: cards for each layer, then stages; copies and experts only where there are any."""
        text = f"{self.tensor_parallel} x {self.pipeline_parallel}"
        if self.layer_partition:
            text += f" ({'+'.join(str(count) for count in self.layer_partition)} layers)"
        if self.data_parallel > 1:
            text = f"{self.data_parallel} times {text}"
        return f"{text} with whole experts" if self.expert_parallel else text


@dataclass(frozen=True)
class Choices:
    """What a search may choose from with one engine, model and machine; what differs between engines is data here.

    `cache_types` are those to try, in order (None: the policy's), `splits` too, the fewest cards first; `tried` is what
    `splits` were chosen from, `larger_splits` need more cards than there are. `most_batch_tokens` is the engine's own
    large batch, `least_batch_tokens` what a step must hold for the server to start, `gpu_memory_utilization` the share
    of each card that an engine takes which always takes one, and `first_shares` where it takes only the first card, the
    first two and so on. `is_paged`: all requests take blocks of one pool that is there from the start; more of them
    than it holds are interrupted, not refused.
    `splits_with_host`: it can be told which layers or experts stay with the processor; `spills_by_itself`: it leaves
    layers to the processor without being told; `fits_by_itself`: it fits context and layers that it is not told to the
    free memory. `warnings` say what is chosen otherwise than the engine would.
    """

    cache_types: tuple[str, ...] | None = None
    most_batch_tokens: int = MOST_BATCH_TOKENS
    least_batch_tokens: int = 1
    gpu_memory_utilization: float | None = None
    first_shares: tuple[float, ...] = ()
    splits: tuple[Split, ...] = (Split(),)
    tried: tuple[Split, ...] = ()
    larger_splits: tuple[Split, ...] = ()
    is_paged: bool = False
    splits_with_host: bool = False
    spills_by_itself: bool = False
    fits_by_itself: bool = False
    warnings: tuple[str, ...] = ()

    def share_of(self, split: Split) -> float | None:
        """The share of each card that this division takes: more where those that are left alone are crowded."""
        taken = split.cards
        return self.first_shares[taken - 1] if taken <= len(self.first_shares) else self.gpu_memory_utilization

    @property
    def batch_limits(self) -> tuple[int, int]:
        """Least and most tokens of a step."""
        return self.least_batch_tokens, self.most_batch_tokens


@dataclass(frozen=True)
class Problem:
    """Everything that a plan is made from.

    `memory` answers what a shape takes on this machine; `preferred_context_tokens` is what the user serves today and
    keeps where it fits; `most_slots` is the engine's own limit. `shaped` is what the engine makes of a shape where it
    decides parts of it by itself; `loaded_models` are in memory at once, and `memory` counts all of them and `draft`,
    a small model that guesses tokens. `memory_with_cards` answers for so many cards like the first, `split_rates` how
    fast a shape is of which the processor keeps a part.
    """

    engine: str
    engine_version: str | None
    hardware: Hardware
    model: ModelSpec
    workload: Workload
    policy: Policy
    fixed: Fixed
    rates: Rates
    memory: MemoryModel
    on_gpu: bool
    most_slots: int = 256
    preferred_context_tokens: int | None = None
    shaped: Callable[[Shape], Shape] = _as_wanted
    loaded_models: int = 1
    choices: Choices = Choices()
    draft: ModelSpec | None = None
    memory_with_cards: Callable[[int], MemoryModel] | None = None
    split_rates: Callable[[Shape], Rates] | None = None

    @property
    def layers_to_place(self) -> int:
        """All that a card can be told to hold: every layer, those that guess tokens too, and the output."""
        return self.model.layers + self.model.draft_layers + 1

    def splits_with_host(self, shape: Shape) -> bool:
        """Whether the processor keeps a part of a model that runs on cards."""
        return shape.gpu_layers is not None and (shape.gpu_layers < self.layers_to_place or shape.cpu_expert_layers > 0)

    def rates_of(self, shape: Shape) -> Rates:
        """How fast a shape is: the rates of the problem, but for one of which the processor keeps a part."""
        fixed = self.fixed
        as_given = fixed.gpu_layers is not None or fixed.cpu_expert_layers is not None
        if as_given or self.split_rates is None or not self.splits_with_host(shape):
            return self.rates
        return self.split_rates(shape)

    @property
    def batch_is_free(self) -> bool:
        """Whether the engine takes another batch when it is told one."""
        small = Shape(slots=1, context_tokens_per_slot=4096, batch_tokens=64, ubatch_tokens=64)
        return self.shaped(small).batch_tokens == small.batch_tokens

    @property
    def cache_types(self) -> tuple[str, ...]:
        """The cache types of this engine that the policy allows, the first choice first."""
        return self.choices.cache_types or self.policy.cache_types_allowed

    @property
    def fallback_cache_types(self) -> tuple[str, ...]:
        """Cache types that a search may use; none where the user fixed them or a head does not fill a block of 32."""
        fixed = self.fixed
        if self.choices.cache_types is not None:
            return () if fixed.cache_type_k is not None else self.choices.cache_types
        if fixed.cache_type_k is not None or fixed.cache_type_v is not None or fixed.flash_attention == "off":
            return ()
        layers = self.model.attention_layers
        blocks_filled = all(layer.key_length % 32 == 0 and layer.value_length % 32 == 0 for layer in layers)
        return tuple(name for name in self.policy.cache_types_allowed if blocks_filled or name in {"f16", "bf16"})


def require_possible(problem: Problem) -> None:
    """Raise UsageError for values that the engine refuses at its start, whatever the memory."""
    slots, fixed = problem.fixed.slots, problem.fixed
    if slots is not None and slots > problem.most_slots:
        raise UsageError(
            f"{problem.engine} serves at most {problem.most_slots} requests at once, not {slots}",
            hint=f"ask for at most --slots {problem.most_slots}",
        )
    layers = problem.model.attention_layers
    heads = (
        (fixed.cache_type_k, {layer.key_length for layer in layers}),
        (fixed.cache_type_v, {layer.value_length for layer in layers}),
    )
    for cache_type, lengths in heads:
        block = CACHE_TYPE_BLOCKS[cache_type][1] if cache_type else 1
        cut = [length for length in sorted(lengths) if length % block]
        if cut:
            raise UsageError(
                f"{cache_type} stores {block} values in a block, and the heads of {problem.model.reference} have"
                f" {cut[0]}",
                hint="keep the cache in f16, or take a model whose heads fill whole blocks",
            )
