"""Making a plan for a machine: find the engine, read model and hardware, recall what was measured, size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from llmops.actions.subject import (
    ABSENT,
    EMBEDDED,
    PlanRequest,
    Subject,
    absent,
    find_engine,
    find_subject,
    is_described,
)
from llmops.actions.together import load_more, with_reason
from llmops.core.fitting import short_by_bytes
from llmops.core.hardware import Gpu, Hardware
from llmops.core.model import ModelSpec
from llmops.core.overrides import GIVEN
from llmops.core.plan import Fixed, Plan
from llmops.core.problem import Choices, Problem, Split, require_possible
from llmops.core.sizing import fits, fits_at_the_start, size, size_explicit
from llmops.core.throughput import HostPart, Rates, host_part, predict_rates, rates_from_measured
from llmops.core.units import format_bytes
from llmops.core.version import Version
from llmops.engines.base import Engine, InForce, Installation
from llmops.host import Host
from llmops.state import Recalled, read_applied_plan, read_rates, subject

if TYPE_CHECKING:
    from llmops.actions.keep import Kept

__all__ = [
    "ABSENT",
    "EMBEDDED",
    "PlanRequest",
    "Planned",
    "Subject",
    "absent",
    "find_engine",
    "find_subject",
    "make_plan",
    "size_one",
]


# A card that nobody described; its rates are those of any card.
_UNSEEN_CARD = Gpu(0, None, "unknown card", None, None)


@dataclass(frozen=True)
class Planned:
    """A plan and everything it was made from; `kept` says why what is in force stays, None for new numbers.

    `changes_nothing` is True where the user's own configuration breaks no limit, so that no file is rendered.
    `served_slots` are those of this model's server here; None where it is another machine or model, or not known.
    """

    engine: Engine
    installation: Installation
    in_force: InForce
    hardware: Hardware
    model: ModelSpec
    plan: Plan
    kept: str | None = None
    changes_nothing: bool = False
    served_slots: int | None = None


def make_plan(host: Host, request: PlanRequest, *, progress: Callable[[str], None]) -> Planned:
    """The plan for this machine; raise what reading its parts raises, and DoesNotFit."""
    found = _measured_if_needed(host, request, find_subject(host, request), progress)
    problem, warnings = _problem(host, request, found)
    require_possible(problem)
    kept = None if request.replan else _keep(host, request, found, problem)
    now = _served_slots(request, found)
    if kept is None:
        plan = load_more(problem, _sized(host, request, found, problem), found.models, found.memory)
        return replace(_planned(found, plan, (*warnings, *_shorter_requests(found, plan))), served_slots=now)
    planned = _planned(found, with_reason(kept.plan, found.models), warnings)
    return replace(planned, kept=kept.reason, changes_nothing=kept.is_users_own, served_slots=now)


def _served_slots(request: PlanRequest, found: Subject) -> int | None:
    if found.served is None or not found.serves_the_model or is_described(request, found.hardware):
        return None
    return found.served.values.slots


def _sized(host: Host, request: PlanRequest, found: Subject, problem: Problem) -> Plan:
    """The plan, with the rates of the division that was found: more cards for each layer are faster."""
    plan = size(problem)
    split, splits = Split(plan.tensor_parallel, plan.pipeline_parallel), problem.choices.splits
    if split == splits[0]:
        return plan
    rates, _ = _rates(host, request, found, split, on_gpu=problem.on_gpu)
    rest = splits[splits.index(split) :]
    return size(replace(problem, rates=rates, choices=replace(problem.choices, splits=rest)))


def size_one(host: Host, request: PlanRequest, *, progress: Callable[[str], None]) -> Planned:
    """The memory and capacity of one explicit configuration; engine defaults for what is not given."""
    found = _measured_if_needed(host, request, find_subject(host, request), progress)
    problem, warnings = _problem(host, request, found)
    hardware = _counted(found.hardware, on_gpu=problem.on_gpu)
    complete = found.engine.with_defaults(request.fixed, found.model, found.installation, hardware)
    choices = found.engine.choices(hardware, found.model, found.version, complete)
    problem = replace(problem, fixed=complete, choices=choices)
    require_possible(problem)
    plan = size_explicit(problem)
    if request.fixed.context_tokens is None:
        warnings = (*warnings, _by_itself(plan, is_paged=problem.choices.is_paged))
    if problem.choices.is_paged and request.fixed.slots is None:
        plan, said = _as_it_starts(plan)
        warnings = (*warnings, *said)
    return _planned(found, plan, (*warnings, *_outgrows(plan)))


def _by_itself(plan: Plan, *, is_paged: bool) -> str:
    """Which context the engine takes where none is given."""
    whole = plan.context_tokens_per_slot * (plan.slots if plan.kv_unified else 1)
    if whole < plan.model.context_tokens_trained:
        pool = f", {whole:,} in one pool" if plan.kv_unified else ""
        return f"without --context this version takes {plan.context_tokens_per_slot:,} tokens for each slot{pool}"
    or_less = "" if is_paged else ", or what fits"
    trained = f"{plan.model.context_tokens_trained:,} tokens"
    return f"without --context the engine takes {trained}, all that the model was trained on{or_less}"


def _as_it_starts(plan: Plan) -> tuple[Plan, tuple[str, ...]]:
    """The plan with what a server needs to start that runs as many requests as it likes: room for the longest one."""
    budgets = tuple(replace(budget, needed_cache_bytes=budget.request_cache_bytes) for budget in plan.budgets)
    held = min((budget.max_concurrency for budget in budgets if budget.max_concurrency is not None), default=0.0)
    plan = replace(plan, budgets=budgets)
    if held >= plan.slots or held < 1.0:  # with less than one it does not start, and that is said
        return plan, ()
    return plan, (
        f"by itself it runs up to {plan.slots} requests at once, and the cache holds {held:.2f} of"
        f" {plan.context_tokens_per_slot:,} tokens each: long ones are interrupted and computed again; --slots bounds"
        " them",
    )


def _outgrows(plan: Plan) -> tuple[str, ...]:
    """What starts and serves, and ends in swap once enough prompts are saved."""
    safety = plan.policy.safety_factor
    if any(budget.needed_cache_bytes is not None for budget in plan.budgets):
        return ()
    if fits(plan.budgets, safety) or not fits_at_the_start(plan.budgets, safety):
        return ()
    saved = max(budget.prompt_cache_bytes for budget in plan.budgets)
    short = short_by_bytes(plan.budgets, safety)
    return (
        f"saved prompts may grow to {format_bytes(saved)}, {format_bytes(short)} more than there is room for:"
        " bound them with --cache-ram and --ctx-checkpoints",
    )


def _shorter_requests(found: Subject, plan: Plan) -> tuple[str, ...]:
    """Requests that work now and will be refused; where memory was the reason, the plan itself says so."""
    served = found.served
    longest = served.request_context_tokens if served and served.context_was_chosen else None
    now, same = plan.context_tokens_per_slot, found.serves_the_model
    if not same or longest is None or longest <= now or any("served until now" in line for line in plan.warnings):
        return ()
    return (f"requests may have {now} tokens instead of the {longest} now; --context {longest} keeps them",)


def _planned(found: Subject, plan: Plan, warnings: tuple[str, ...]) -> Planned:
    told = replace(plan, warnings=(*plan.warnings, *warnings))
    return Planned(found.engine, found.installation, found.in_force, found.hardware, found.model, told)


def _measured_if_needed(host: Host, request: PlanRequest, found: Subject, progress: Callable[[str], None]) -> Subject:
    """Measure memory bandwidth where it was asked for and nothing better is known: no rates, no given bandwidth."""
    hardware = found.hardware
    if not request.bandwidth or request.hardware or hardware.bandwidth or _recalled(host, found).rates:
        return found
    from llmops.probe.bandwidth import read_bandwidth

    progress("measuring memory bandwidth (about 2 s)")
    bandwidth, observations = read_bandwidth(host, hardware.cpu, hardware.memory)
    measured = replace(hardware, bandwidth=bandwidth, observations=(*hardware.observations, *observations))
    return replace(found, hardware=measured)


def _problem(host: Host, request: PlanRequest, found: Subject) -> tuple[Problem, tuple[str, ...]]:
    hardware, model, installation = found.hardware, found.model, found.installation
    engine, version = found.engine, found.version
    on_gpu = engine.uses_cards(hardware, installation, request.fixed)
    choices = engine.choices(_counted(hardware, on_gpu=on_gpu), model, version, request.fixed)
    split = choices.splits[0] if choices.is_paged else None
    fixed = request.fixed
    part = host_part(model, fixed.gpu_layers, fixed.cpu_expert_layers or 0)
    rates, warnings = _rates(host, request, found, split, part, on_gpu=on_gpu)
    warnings += (*choices.warnings, *_about_version(request, version))
    if on_gpu and not hardware.gpus:
        warnings.append("no card is given or found: the cache is sized by --kv-memory alone, and speeds are a guess")
    if not on_gpu and not (hardware.bandwidth and hardware.bandwidth.read_bytes_per_second) and rates.measured is None:
        warnings.append("memory bandwidth is assumed, so speeds are rough: `llmops tune` measures it")
    if installation.problem is not None:
        warnings.append(f"{found.engine.name} cannot be used as it is: {installation.problem}")
    if hardware.gpus and not on_gpu:
        warnings.append("this build of the engine uses no card: the plan is for the processor alone")
    preferred = None
    if not request.replan and found.serves_the_model and found.served is not None:
        from llmops.actions.keep import chosen_context_tokens

        preferred = chosen_context_tokens(found.served, read_applied_plan(host, found.engine.name).plan)
    problem = Problem(
        engine=found.engine.name,
        engine_version=installation.version_text,
        hardware=hardware,
        model=model,
        workload=request.workload,
        policy=request.policy,
        fixed=request.fixed,
        rates=rates,
        memory=found.memory(1),
        on_gpu=on_gpu,
        most_slots=_most_slots(engine, model, version, choices, request.fixed),
        preferred_context_tokens=preferred,
        shaped=lambda shape: engine.shaped(shape, model, version),
        choices=choices,
        draft=found.models.draft,
        memory_with_cards=lambda count: engine.memory_model(
            replace(hardware, gpus=hardware.gpus[:1] * count), model, version, found.models.draft
        ),
        split_rates=lambda shape: _predicted(
            request, found, split, host_part(model, shape.gpu_layers, shape.cpu_expert_layers), on_gpu=on_gpu
        ),
    )
    return problem, (*found.models.warnings, *warnings)


def _most_slots(engine: Engine, model: ModelSpec, version: Version | None, choices: Choices, fixed: Fixed) -> int:
    """The engine's own limit; of a paged cache every request also takes a token of each step."""
    most = engine.most_slots_of(model, version)
    return min(most, fixed.batch_tokens) if choices.is_paged and fixed.batch_tokens else most


def _counted(hardware: Hardware, *, on_gpu: bool) -> Hardware:
    """The machine without the cards that this build cannot use."""
    return hardware if on_gpu else replace(hardware, gpus=(), gpu_detail=GIVEN)


def _about_version(request: PlanRequest, version: Version | None) -> list[str]:
    """Whether the version that was asked for stands for several."""
    asked = request.engine_version
    if asked is None or Version.parse(asked) == version:
        return []
    return [f"version {asked} stands for several releases: the newest of them is planned for"]


def _rates(
    host: Host,
    request: PlanRequest,
    found: Subject,
    split: Split | None,
    part: HostPart | None = None,
    *,
    on_gpu: bool,
) -> tuple[Rates, list[str]]:
    """Predicted rates, replaced by those that an earlier verification measured on this machine.

    `split` None: layers are shared out over every card; `part` of the model stays with the processor.
    """
    predicted = _predicted(request, found, split, part, on_gpu=on_gpu)
    recalled = _recalled(host, found)
    warnings = [recalled.warning] if recalled.warning else []
    if recalled.rates is None:
        return predicted, warnings
    return rates_from_measured(recalled.rates, predicted), warnings


def _predicted(
    request: PlanRequest, found: Subject, split: Split | None, part: HostPart | None, *, on_gpu: bool
) -> Rates:
    hardware = found.hardware
    if split is not None:
        cards = split.tensor_parallel * split.pipeline_parallel
        hardware = replace(hardware, gpus=hardware.gpus[:cards] or (_UNSEEN_CARD,) * cards * on_gpu)
    return predict_rates(
        hardware,
        found.model,
        request.workload,
        on_gpu=on_gpu,
        engine=found.engine.name,
        tensor_parallel=split.tensor_parallel if split else 1,
        eager=request.fixed.enforce_eager,
        part=part,
    )


def _recalled(host: Host, found: Subject) -> Recalled:
    return read_rates(host, subject(found.hardware, found.model, found.engine.name, found.installation.version_text))


def _keep(host: Host, request: PlanRequest, found: Subject, problem: Problem) -> Kept | None:
    if found.installation.managed_by == ABSENT:
        return None
    from llmops.actions.keep import keep_applied, keep_served

    described = is_described(request, found.hardware)
    applied = read_applied_plan(host, found.engine.name).plan
    if applied is not None:
        count = applied.loaded_models
        with_all = replace(problem, memory=found.memory(count), loaded_models=count)
        return keep_applied(applied, request.fixed, with_all, described=described)
    if found.served is None or described or not found.serves_the_model:
        return None
    return keep_served(found.served, request.fixed, problem)
