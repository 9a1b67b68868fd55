"""What a plan is made from: the machine as the engine uses it, its speeds, and what bounds the search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from llmops.actions.subject import PlanRequest, Subject
from llmops.core.hardware import Gpu, Hardware
from llmops.core.model import ModelSpec
from llmops.core.overrides import GIVEN
from llmops.core.plan import Fixed
from llmops.core.problem import Choices, Problem, Split
from llmops.core.throughput import HostPart, Rates, host_part, predict_rates, rates_from_measured
from llmops.core.version import Version
from llmops.engines.base import Engine
from llmops.host import Host
from llmops.state import Recalled, read_applied_plan, read_rates, subject

# A card that nobody described; its rates are those of any card.
_UNSEEN_CARD = Gpu(0, None, "unknown card", None, None)


def measured_if_needed(host: Host, request: PlanRequest, found: Subject, progress: Callable[[str], None]) -> Subject:
    """Measure memory bandwidth where it was asked for and nothing better is known: no rates, no given bandwidth."""
    hardware = found.hardware
    if not request.bandwidth or request.hardware or hardware.bandwidth or _recalled(host, found).rates:
        return found
    from llmops.probe.bandwidth import read_bandwidth

    progress("measuring memory bandwidth (about 2 s)")
    bandwidth, observations = read_bandwidth(host, hardware.cpu, hardware.memory)
    measured = replace(hardware, bandwidth=bandwidth, observations=(*hardware.observations, *observations))
    return replace(found, hardware=measured)


def problem_of(host: Host, request: PlanRequest, found: Subject) -> tuple[Problem, tuple[str, ...]]:
    """What is to be sized, and what must be said of it."""
    hardware, model, installation = found.hardware, found.model, found.installation
    engine, version = found.engine, found.version
    on_gpu = engine.uses_cards(hardware, installation, request.fixed)
    choices = engine.choices(counted(hardware, on_gpu=on_gpu), model, version, request.fixed)
    split = choices.splits[0] if choices.is_paged else None
    fixed = request.fixed
    part = host_part(model, fixed.gpu_layers, fixed.cpu_expert_layers or 0)
    rates, warnings = rates_of(host, request, found, split, part, on_gpu=on_gpu)
    warnings += (*choices.warnings, *_about_version(request, version), *_about_machine(found, rates, on_gpu=on_gpu))
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
        preferred_context_tokens=_preferred_context(host, request, found),
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


def _about_machine(found: Subject, rates: Rates, *, on_gpu: bool) -> list[str]:
    """What is missing for a better plan, and what of the machine is not used."""
    hardware, problem = found.hardware, found.installation.problem
    warnings = []
    if on_gpu and not hardware.gpus:
        warnings.append("no card is given or found: the cache is sized by --kv-memory alone, and speeds are a guess")
    if not on_gpu and not (hardware.bandwidth and hardware.bandwidth.read_bytes_per_second) and rates.measured is None:
        warnings.append("memory bandwidth is assumed, so speeds are rough: `llmops tune` measures it")
    if problem is not None:
        warnings.append(f"{found.engine.name} cannot be used as it is: {problem}")
    if hardware.gpus and not on_gpu:
        warnings.append("this build of the engine uses no card: the plan is for the processor alone")
    return warnings


def _preferred_context(host: Host, request: PlanRequest, found: Subject) -> int | None:
    """Tokens of a slot that somebody chose for what is served now."""
    if request.replan or not found.serves_the_model or found.served is None:
        return None
    from llmops.actions.keep import chosen_context_tokens

    return chosen_context_tokens(found.served, read_applied_plan(host, found.engine.name).plan)


def _most_slots(engine: Engine, model: ModelSpec, version: Version | None, choices: Choices, fixed: Fixed) -> int:
    """The engine's own limit; of a paged cache every request also takes a token of each step."""
    most = engine.most_slots_of(model, version)
    return min(most, fixed.batch_tokens) if choices.is_paged and fixed.batch_tokens else most


def counted(hardware: Hardware, *, on_gpu: bool) -> Hardware:
    """The machine without the cards that this build cannot use."""
    return hardware if on_gpu else replace(hardware, gpus=(), gpu_detail=GIVEN)


def _about_version(request: PlanRequest, version: Version | None) -> list[str]:
    """Whether the version that was asked for stands for several."""
    asked = request.engine_version
    if asked is None or Version.parse(asked) == version:
        return []
    return [f"version {asked} stands for several releases: the newest of them is planned for"]


def rates_of(
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
        cards = split.tensor_parallel * split.pipeline_parallel  # of one copy: the others are as fast beside it
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
        copies=split.data_parallel if split else 1,
    )


def _recalled(host: Host, found: Subject) -> Recalled:
    return read_rates(host, subject(found.hardware, found.model, found.engine.name, found.installation.version_text))
