"""How a model may be divided among the cards of one machine, or of several that are alike."""

from __future__ import annotations

from llmops.core.errors import UsageError
from llmops.core.hardware import Hardware
from llmops.core.model import ModelSpec
from llmops.core.plan import Fixed
from llmops.core.problem import Split

_MOST_TENSOR_PARALLEL = 64
# Cards of one machine, at most.
_MOST_CARDS_NAMED = 16


def refused_split(model: ModelSpec, tensor_parallel: int) -> str | None:
    """Why a model cannot be cut into so many parts; None where it can (vllm/config/model.py, models/llama.py)."""
    heads = model.attention_heads
    if heads and heads % tensor_parallel:
        return (
            f"the {heads} attention heads of {model.reference} cannot be divided among --tensor-parallel"
            f" {tensor_parallel}"
        )
    for layer in model.attention_layers:
        few, many = sorted((layer.kv_heads, tensor_parallel))
        if not layer.is_latent and few and many % few:
            return (
                f"the {layer.kv_heads} key and value heads of {model.reference} can neither be divided among nor"
                f" repeated on --tensor-parallel {tensor_parallel}"
            )
    return None


def require_division(hardware: Hardware, model: ModelSpec, fixed: Fixed) -> None:
    """Raise UsageError where the server would end at its start for how the model is divided."""
    tensor, pipeline, nodes = fixed.tensor_parallel or 1, fixed.pipeline_parallel or 1, fixed.nodes or 1
    refused = refused_split(model, tensor)
    if refused is not None:
        fitting = ", ".join(str(size) for size in range(1, 17) if refused_split(model, size) is None)
        raise UsageError(refused, hint=f"--tensor-parallel can be {fitting}")
    if pipeline > model.layers:
        raise UsageError(
            f"{model.reference} has {model.layers} layers, fewer than --pipeline-parallel {pipeline}",
            hint="ask for at most one stage per layer",
        )
    cards = len(hardware.gpus) * nodes
    if cards and tensor * pipeline > cards:
        there_are = "one card there is" if cards == 1 else f"{cards} cards there are"
        raise UsageError(
            f"--tensor-parallel {tensor} times --pipeline-parallel {pipeline} is more than the {there_are}",
            hint="lower one of them, name more cards (--gpu, once for each), or say --nodes",
        )
    if nodes > 1:
        _require_whole_machines(hardware, model, fixed, nodes)


def _require_whole_machines(hardware: Hardware, model: ModelSpec, fixed: Fixed, nodes: int) -> None:
    """Every machine gives as many cards as the others: all that it has, where they are known."""
    tensor, pipeline, each = fixed.tensor_parallel, fixed.pipeline_parallel, len(hardware.gpus)
    given = tensor is not None and pipeline is not None
    if given and not each:
        if (tensor or 1) * (pipeline or 1) % nodes:
            raise UsageError(
                f"--tensor-parallel {tensor} times --pipeline-parallel {pipeline} cards cannot be divided evenly among"
                f" --nodes {nodes}",
                hint="give every machine as many cards as the others",
            )
        return
    if not _of_machines(model, fixed, max(1, each), nodes):
        fitting = ", ".join(
            f"{one.tensor_parallel} x {one.pipeline_parallel}"
            for one in _of_machines(model, Fixed(), max(1, each), nodes)
        )
        asked = " ".join(
            f"{name} {value}"
            for name, value in (("--tensor-parallel", tensor), ("--pipeline-parallel", pipeline))
            if value is not None
        )
        raise UsageError(
            f"{nodes} machines with {max(1, each)} cards each are {max(1, each) * nodes} cards, and"
            f" {asked or 'no division of the model'} would not use all of them evenly",
            hint=f"--tensor-parallel x --pipeline-parallel can be {fitting}" if fitting else "take fewer machines",
        )


def splits(hardware: Hardware, model: ModelSpec, fixed: Fixed) -> tuple[Split, ...]:
    """How the model may be cut, fewest cards first; as fixed where anything is. Several machines give all cards."""
    nodes, pipeline = fixed.nodes or 1, fixed.pipeline_parallel or 1
    cards = max(1, len(hardware.gpus))
    if fixed.tensor_parallel is not None and (nodes == 1 or fixed.pipeline_parallel is not None):
        return (Split(fixed.tensor_parallel, pipeline),)
    if nodes > 1:
        return _of_machines(model, fixed, cards, nodes)
    most = min(cards // pipeline, _MOST_TENSOR_PARALLEL) if fixed.pipeline_parallel else cards
    sizes = [size for size in range(1, max(1, most) + 1) if refused_split(model, size) is None]
    found = [Split(size, pipeline) for size in sizes]
    if fixed.pipeline_parallel is None:
        # Cards that the heads cannot be divided among take whole layers.
        found += [Split(size, cards // size) for size in reversed(sizes) if cards // size > 1]
    return tuple(split for split in dict.fromkeys(found) if split.pipeline_parallel <= model.layers) or (Split(),)


def _of_machines(model: ModelSpec, fixed: Fixed, cards: int, nodes: int) -> tuple[Split, ...]:
    """Divisions over all cards of machines that are alike: layers divided within each machine where that can be.

    Ranks are counted through machine by machine (vllm/v1/executor/multiproc_executor.py), so a group of cards that
    share their layers lies within one machine if its size divides the cards of one.
    """
    every = cards * nodes
    within = [size for size in range(cards, 0, -1) if cards % size == 0]
    across = [cards * times for times in range(2, nodes + 1) if nodes % times == 0]
    wanted, stages = fixed.tensor_parallel, fixed.pipeline_parallel
    return tuple(
        Split(size, every // size)
        for size in (*within, *across)
        if wanted in (None, size)
        and stages in (None, every // size)
        and every // size <= model.layers
        and refused_split(model, size) is None
    )


def larger_splits(hardware: Hardware, model: ModelSpec, fixed: Fixed) -> tuple[Split, ...]:
    """Divisions that need more cards of the same kind; none where the user fixed one, or the cards differ."""
    alike = len({(gpu.name, gpu.total_bytes) for gpu in hardware.gpus}) == 1
    if not alike or any((fixed.tensor_parallel, fixed.pipeline_parallel, fixed.nodes)):
        return ()
    sizes = range(len(hardware.gpus) + 1, _MOST_CARDS_NAMED + 1)
    return tuple(Split(size) for size in sizes if refused_split(model, size) is None)
