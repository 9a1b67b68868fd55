"""Given divisions that the server would end at its start with, or that would not use the machines as asked."""

from __future__ import annotations

from dataclasses import replace

from llmops.core.errors import UsageError
from llmops.core.problem import Split
from llmops.engines.vllm.divisible import refused_split
from llmops.engines.vllm.division import Division, splits_of_machines


def require_division(asked: Division) -> None:
    """Raise UsageError where the server would end at its start for how the model is divided."""
    fixed, model = asked.fixed, asked.model
    split = Split(fixed.tensor_parallel or 1, fixed.pipeline_parallel or 1, fixed.data_parallel or 1)
    _require_experts(asked, split)
    refused = _refused(asked, split)
    if refused is not None:
        raise UsageError(refused, hint=_fitting(asked, split))
    _require_cards(asked, split)
    if split.data_parallel > 1 and fixed.slots and fixed.slots % split.data_parallel:
        raise UsageError(
            f"--slots {fixed.slots} cannot be shared out evenly among --data-parallel {split.data_parallel}",
            hint=f"ask for a multiple of {split.data_parallel}: every part of {model.reference} takes as many requests",
        )
    if (fixed.nodes or 1) > 1:
        _require_whole_machines(asked, split)


def _require_experts(asked: Division, split: Split) -> None:
    if asked.fixed.expert_parallel and not asked.model.experts:
        raise UsageError(
            f"--expert-parallel needs experts, and {asked.model.reference} has none (vLLM: Number of experts in the"
            " model must be greater than 0 when expert parallelism is enabled)",
            hint="leave --expert-parallel out",
        )
    if split.data_parallel > 1 and (asked.fixed.nodes or 1) > 1:
        raise UsageError(
            f"--data-parallel {split.data_parallel} is planned for on one machine, not with --nodes"
            f" {asked.fixed.nodes}",
            hint="plan one machine: the plan says how many such servers the users need behind a proxy",
        )


def _refused(asked: Division, split: Split) -> str | None:
    """Why the division as fixed is refused; whole experts are taken by itself where their parts cannot be."""
    wanted = asked.fixed.expert_parallel
    refused = refused_split(asked.model, replace(split, expert_parallel=bool(wanted)), asked.version)
    if refused is None or wanted is False or not asked.model.experts:
        return refused
    return refused_split(asked.model, replace(split, expert_parallel=True), asked.version)


def _fitting(asked: Division, split: Split) -> str:
    if split.pipeline_parallel > asked.model.layers:
        return "ask for at most one stage per layer"
    if _refused(asked, replace(split, pipeline_parallel=1)) is None:
        return "--pipeline-parallel 1 is possible"
    sizes = [size for size in range(1, 17) if _refused(asked, replace(split, tensor_parallel=size)) is None]
    if not sizes:
        return "leave --no-expert-parallel out, or take fewer cards"
    return f"--tensor-parallel can be {', '.join(str(size) for size in sizes)}"


def _require_cards(asked: Division, split: Split) -> None:
    cards = len(asked.hardware.gpus) * (asked.fixed.nodes or 1)
    if not cards or split.cards <= cards:
        return
    there_are = "one card there is" if cards == 1 else f"{cards} cards there are"
    said = f"--tensor-parallel {split.tensor_parallel} times --pipeline-parallel {split.pipeline_parallel}"
    if split.data_parallel > 1:
        said += f" times --data-parallel {split.data_parallel}"
    raise UsageError(
        f"{said} is more than the {there_are}",
        hint="lower one of them, name more cards (--gpu, once for each), or say --nodes",
    )


def _require_whole_machines(asked: Division, split: Split) -> None:
    """Every machine gives as many cards as the others: all that it has, where they are known."""
    fixed, nodes, each = asked.fixed, asked.fixed.nodes or 1, len(asked.hardware.gpus)
    if not each and fixed.tensor_parallel is not None and fixed.pipeline_parallel is not None:
        if split.cards % nodes:
            raise UsageError(
                f"--tensor-parallel {fixed.tensor_parallel} times --pipeline-parallel {fixed.pipeline_parallel} cards"
                f" cannot be divided evenly among --nodes {nodes}",
                hint="give every machine as many cards as the others",
            )
        return
    if any(asked.is_possible(one) for one in splits_of_machines(asked)):
        return
    free = replace(asked, fixed=replace(fixed, tensor_parallel=None, pipeline_parallel=None))
    fitting = ", ".join(str(one) for one in splits_of_machines(free))
    said = (("--tensor-parallel", fixed.tensor_parallel), ("--pipeline-parallel", fixed.pipeline_parallel))
    given = " ".join(f"{name} {value}" for name, value in said if value is not None)
    raise UsageError(
        f"{nodes} machines with {asked.cards} cards each are {asked.cards * nodes} cards, and"
        f" {given or 'no division of the model'} would not use all of them evenly",
        hint=f"--tensor-parallel x --pipeline-parallel can be {fitting}" if fitting else "take fewer machines",
    )
