"""From machine, model and users to a plan; the only place where the parts of a plan are put together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any, TypeVar

from llmops.core.cautions import cautions
from llmops.core.demand import Demand, queue_requests, read_demand, slots_fast_enough, waiting_with
from llmops.core.explanation import reasons
from llmops.core.fitting import CONTEXT_STEP_TOKENS, Fitted, conversations_bytes, fit, short_by_bytes, spend_rest
from llmops.core.memory.budget import MemoryBudget
from llmops.core.plan import Plan, Shape
from llmops.core.problem import Problem, Split
from llmops.core.processors import batch_tokens, decode_threads, prefill_threads, waits_passively
from llmops.core.replicas import replicas_needed
from llmops.core.throughput import speeds

# Slots for several users, however seldom they meet: one slot serves strictly one after the other.
LEAST_SLOTS = 2

T = TypeVar("T")


def size(problem: Problem) -> Plan:
    """The plan that carries the workload; raise DoesNotFit, naming the smallest change that would fit."""
    demand, start, floor, binding = _wanted(problem)
    fitted = _fewest_cards(problem, demand, start, floor)
    if fitted is None:
        from llmops.core.refusal import does_not_fit

        raise does_not_fit(problem, replace(_on_all_cards(problem, start), context_tokens_per_slot=floor))
    if fitted.shape.slots < start.slots:
        binding = "memory"
    shape = _with_prompt_cache(problem, fitted.shape)
    plan = _plan(problem, shape, binding)
    return replace(plan, warnings=cautions(problem, plan, demand, fitted.levers))


def fitted_alone(problem: Problem) -> Fitted | None:
    """What fits with the first division alone; None where the model does not."""
    demand, start, floor, _ = _wanted(problem)
    return _fit(problem, demand, _divided(problem, start, problem.choices.splits[0]), floor)


def _wanted(problem: Problem) -> tuple[Demand, Shape, int, str]:
    """The load, the shape that would carry it, the fewest tokens of a request, and what bounds the slots."""
    demand = read_demand(problem.workload, problem.policy, problem.rates, most_slots=problem.most_slots)
    slots, binding = _wanted_slots(problem, demand)
    start = _shape(problem, slots, _wanted_context(problem))
    return demand, start, min(needed_context(problem), start.context_tokens_per_slot), binding


def _fewest_cards(problem: Problem, demand: Demand, start: Shape, floor: int) -> Fitted | None:
    """On the fewest cards where nothing is given up; else on those with most slots, of equal ones the fewest."""
    fits = (_fit(problem, demand, _divided(problem, start, split), floor) for split in problem.choices.splits)
    return best_of((fitted, fitted) for fitted in fits)


def best_of(fits: Iterable[tuple[T, Fitted | None]]) -> T | None:
    """The first that gives nothing up; else the one with most slots, of equal ones the first with fewest levers.

    None where nothing fits.
    """
    worth: list[tuple[tuple[int, int], T]] = []
    for one, fitted in fits:
        if fitted is not None and not fitted.levers:
            return one
        if fitted is not None:
            worth.append(((fitted.shape.slots, -len(fitted.levers)), one))
    return max(worth, key=lambda row: row[0])[1] if worth else None


def _fit(problem: Problem, demand: Demand, start: Shape, floor: int) -> Fitted | None:
    fitted = _pair(problem, demand, start)
    if fitted is None:
        fitted = fit(start, floor, problem.fallback_cache_types, problem.memory, problem.policy.safety_factor)
    too_few = fitted is not None and problem.fixed.slots and fitted.shape.slots < problem.fixed.slots
    return None if too_few else fitted


def _divided(problem: Problem, shape: Shape, split: Split) -> Shape:
    share = problem.fixed.gpu_memory_utilization or problem.choices.share_of(split)
    return replace(shape, gpu_memory_utilization=share, **{row.name: getattr(split, row.name) for row in fields(Split)})


def _on_all_cards(problem: Problem, shape: Shape) -> Shape:
    """What an error is told of: the division that uses most cards for one copy of the model."""
    whole = [split for split in problem.choices.splits if split.data_parallel == 1] or problem.choices.splits
    return _divided(problem, shape, max(whole, key=lambda split: split.cards))


def size_explicit(problem: Problem) -> Plan:
    """The plan of one explicit configuration, without a search; it may not fit: see `fits`."""
    demand = read_demand(problem.workload, problem.policy, problem.rates, most_slots=problem.most_slots)
    slots = problem.fixed.slots or demand.slots_wanted
    context = problem.fixed.context_tokens or _wanted_context(problem)
    if not problem.choices.is_paged:
        context = _padded(context)
    plan = _plan(problem, _shape(problem, slots, context), "given")
    return replace(plan, warnings=cautions(problem, plan, demand, ()))


def as_it_is_now(problem: Problem, plan: Plan) -> Plan:
    """The same numbers, with all that follows from them on this machine today: memory, waiting, speeds, reasons."""
    problem = replace(problem, rates=problem.rates_of(plan.shape))
    demand = read_demand(problem.workload, problem.policy, problem.rates, most_slots=problem.most_slots)
    met = waiting_with(demand, problem.workload, problem.rates, plan.slots)
    now = replace(
        plan,
        engine_version=problem.engine_version,
        model=problem.model,
        in_flight=demand.in_flight,
        wait_probability=met.probability,
        wait_seconds_mean=met.seconds_mean,
        budgets=problem.memory(plan.shape),
        speeds=speeds(problem.rates, problem.workload),
    )
    now = replace(now, replicas=replicas_needed(problem, now))
    now = replace(now, reasons=reasons(problem, now, demand))
    return replace(now, warnings=cautions(problem, now, demand, ()))


def fits(budgets: tuple[MemoryBudget, ...], safety_factor: float) -> bool:
    """True when every device has room, with the margin for a full cache."""
    return short_by_bytes(budgets, safety_factor) <= 0


def fits_at_the_start(budgets: tuple[MemoryBudget, ...], safety_factor: float) -> bool:
    """True when every device has room while no prompt is saved yet; saved prompts grow with traffic.

    A pool of pages is allocated as a whole at the start and needs no margin.
    """
    is_paged = any(budget.needed_cache_bytes is not None for budget in budgets)
    bare = tuple(replace(budget, prompt_cache_bytes=0) for budget in budgets)
    return fits(bare, 1.0 if is_paged else safety_factor)


def _wanted_slots(problem: Problem, demand: Demand) -> tuple[int, str]:
    if problem.fixed.slots is not None:
        return problem.fixed.slots, "given"
    fast_enough = slots_fast_enough(problem.rates, problem.policy, demand.slots_wanted)
    if fast_enough < demand.slots_wanted:
        return max(1, fast_enough), "speed"
    return demand.slots_wanted, "users"


def _pair(problem: Problem, demand: Demand, start: Shape) -> Fitted | None:
    """Two slots where one would do, if room and speed for both are there and nothing is given up for the second."""
    pair = min(LEAST_SLOTS, problem.workload.users, problem.most_slots)
    if problem.fixed.slots is not None or demand.slots_wanted >= pair or start.slots >= pair:
        return None
    fast_enough = slots_fast_enough(problem.rates, problem.policy, pair) >= pair
    fitted = fit(
        replace(start, slots=pair), start.context_tokens_per_slot, (), problem.memory, problem.policy.safety_factor
    )
    return fitted if fast_enough and fitted is not None and not fitted.levers else None


def needed_context(problem: Problem) -> int:
    """Tokens that one request must find: the floor, or its prompt and reply; at most what the model was trained on."""
    workload = problem.workload
    floor = problem.fixed.context_tokens or workload.context_floor_tokens
    needed = max(floor, workload.prompt_tokens + workload.reply_tokens)
    return _allocated(problem, min(needed, problem.model.context_tokens_trained))


def _allocated(problem: Problem, tokens: int) -> int:
    """In whole steps; an engine with one pool of pages refuses what is beyond the trained context."""
    padded = _padded(tokens)
    return min(padded, problem.model.context_tokens_trained) if problem.choices.is_paged else padded


def _wanted_context(problem: Problem) -> int:
    preferred = problem.preferred_context_tokens or 0
    if problem.fixed.context_tokens is not None:
        preferred = 0
    return max(needed_context(problem), _allocated(problem, min(preferred, problem.model.context_tokens_trained)))


def _padded(tokens: int) -> int:
    return max(1, -(-tokens // CONTEXT_STEP_TOKENS)) * CONTEXT_STEP_TOKENS


def _shape(problem: Problem, slots: int, context_tokens: int) -> Shape:
    fixed, policy, choices = problem.fixed, problem.policy, problem.choices
    prefill = problem.rates.likely.prefill_tokens_per_second
    batch, ubatch = batch_tokens(prefill, policy, fixed, slots, choices.batch_limits)
    cache_type = problem.cache_types[0]
    return Shape(
        slots=slots,
        context_tokens_per_slot=context_tokens,
        cache_type_k=fixed.cache_type_k or cache_type,
        cache_type_v=fixed.cache_type_v or cache_type,
        kv_unified=bool(fixed.kv_unified),
        swa_full=fixed.swa_full,
        batch_tokens=batch,
        ubatch_tokens=batch if choices.is_paged else ubatch,
        flash_attention=fixed.flash_attention or "auto",
        repack=fixed.repack is not False,
        prompt_cache_bytes=fixed.prompt_cache_bytes or 0,
        context_checkpoints=fixed.context_checkpoints or 0,
        **_placed(problem),
        gpu_memory_utilization=fixed.gpu_memory_utilization or choices.gpu_memory_utilization,
        kv_memory_bytes=fixed.kv_memory_bytes,
        tensor_parallel=fixed.tensor_parallel or 1,
        pipeline_parallel=fixed.pipeline_parallel or 1,
        data_parallel=fixed.data_parallel or 1,
        expert_parallel=bool(fixed.expert_parallel),
        nodes=fixed.nodes or 1,
        prefix_caching=fixed.prefix_caching,
        enforce_eager=fixed.enforce_eager,
    )


def _placed(problem: Problem) -> dict[str, Any]:
    """Everything on the cards, where there are any, but for what the user wants with the processor."""
    fixed, whole = problem.fixed, problem.layers_to_place
    if not problem.on_gpu:
        return {"gpu_layers": None}
    return {
        "gpu_layers": whole if fixed.gpu_layers is None else min(fixed.gpu_layers, whole),
        "cpu_expert_layers": min(fixed.cpu_expert_layers or 0, problem.model.layers),
        "tensor_split": fixed.tensor_split or (),
    }


def _with_prompt_cache(problem: Problem, shape: Shape) -> Shape:
    """Spend what is left on the host; what the user fixed is in the shape already and stays.

    An engine with one pool of pages keeps earlier prompts in its free pages.
    """
    if problem.choices.is_paged:
        return shape
    spent = spend_rest(
        shape,
        problem.memory,
        problem.policy.safety_factor,
        conversations_bytes=conversations_bytes(problem.model, problem.workload.users, shape),
        loaded_models=problem.loaded_models,
    )
    fixed = problem.fixed
    return replace(
        spent,
        prompt_cache_bytes=spent.prompt_cache_bytes if fixed.prompt_cache_bytes is None else fixed.prompt_cache_bytes,
        context_checkpoints=spent.context_checkpoints
        if fixed.context_checkpoints is None
        else fixed.context_checkpoints,
    )


def _queue(problem: Problem, slots: int) -> int:
    given = problem.fixed.queue_requests
    if given is not None:
        return given
    return queue_requests(problem.workload, problem.rates, problem.policy, slots)


def _plan(problem: Problem, shape: Shape, binding: str) -> Plan:
    shape = problem.shaped(shape)
    cpu = problem.hardware.cpu
    own_threads = problem.choices.is_paged
    plan = Plan(
        engine=problem.engine,
        engine_version=problem.engine_version,
        model=problem.model,
        workload=problem.workload,
        policy=problem.policy,
        **{row.name: getattr(shape, row.name) for row in fields(Shape)},
        threads=None if own_threads else decode_threads(cpu),
        batch_threads=None if own_threads else prefill_threads(cpu),
        queue_requests=_queue(problem, shape.slots),
        in_flight=0.0,
        wait_probability=0.0,
        wait_seconds_mean=0.0,
        binding_constraint=binding,
        budgets=(),
        speeds=(),
        reasons=(),
        passive_waiting=not (problem.on_gpu or own_threads)
        and waits_passively(cpu, decode_threads(cpu), problem.model.layers, problem.rates.likely.step_seconds(1)),
        loaded_models=problem.loaded_models,
        draft_reference=problem.draft.reference if problem.draft else None,
    )
    return as_it_is_now(problem, plan)
