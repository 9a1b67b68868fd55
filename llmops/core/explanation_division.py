"""Why a model lies on the cards as it does: divided, copied, in stages, with whole experts; what that costs."""

from __future__ import annotations

from llmops.core.card_links import FAST, LINK_NAMES, exchange_bytes, kind_among, links_among, slowest_rate
from llmops.core.hardware import Gpu
from llmops.core.plan import NOT_COMPUTED, Plan, Reason
from llmops.core.problem import Problem
from llmops.core.units import format_bytes, format_rate


def division_reasons(problem: Problem, plan: Plan) -> tuple[Reason, ...]:
    """The division itself, then copies, exchanges, stages and experts where there are any."""
    return (
        _division_reason(problem, plan),
        *_copies_reason(problem, plan),
        *_exchange_reason(problem, plan),
        *_stages_reason(plan),
        *_experts_reason(problem, plan),
    )


def _division_reason(problem: Problem, plan: Plan) -> Reason:
    given = problem.fixed.tensor_parallel is not None
    gpus = problem.hardware.gpus
    return Reason(
        "tensor_parallel",
        f"{plan.tensor_parallel} for each layer, {plan.pipeline_parallel} after each other",
        NOT_COMPUTED if given else _order(problem, plan),
        (
            ("cards", str(len(gpus))),
            ("machines", str(plan.nodes)),
            ("links", _kind(problem, gpus) if len(gpus) > 1 else "none"),
            ("attention heads", str(plan.model.attention_heads)),
            ("tried", ", ".join(str(one) for one in problem.choices.tried or problem.choices.splits)),
        ),
        "the user, or the version's default" if given else "model configuration, links and memory budget",
    )


def _order(problem: Problem, plan: Plan) -> str:
    order = "the fewest cards on which it fits; heads must divide evenly"
    if len(problem.hardware.gpus) < 2 or plan.nodes > 1:
        return order
    if kind_among(problem.hardware, problem.hardware.gpus) in FAST:
        return f"{order}; of as many cards first those that share each layer, for their links are fast"
    return f"{order}; of as many cards first copies side by side, which exchange nothing"


def _copies_reason(problem: Problem, plan: Plan) -> tuple[Reason, ...]:
    if plan.data_parallel == 1:
        return ()
    given = problem.fixed.data_parallel is not None
    each = plan.shape.slots_of_each
    return (
        Reason(
            "data_parallel",
            str(plan.data_parallel),
            NOT_COMPUTED if given else "slots = copies x slots of each: one copy has room for too few",
            (
                ("copies", str(plan.data_parallel)),
                ("slots of each", str(each)),
                ("slots", str(plan.slots)),
                ("cards of each", str(plan.tensor_parallel * plan.pipeline_parallel)),
            ),
            "the user" if given else "memory budget of each copy; the engine's limit of requests is one for each",
        ),
    )


def _exchange_reason(problem: Problem, plan: Plan) -> tuple[Reason, ...]:
    """What sharing each layer costs on the links, whoever chose it."""
    ranks = plan.tensor_parallel
    if ranks == 1 or plan.gpu_layers is None:
        return ()
    gpus = problem.hardware.gpus[:ranks]
    rate, size = slowest_rate(problem.hardware, gpus), exchange_bytes(plan.model, ranks)
    value = f"{format_bytes(size)} for each token"
    if rate is not None:
        value += f", {size / rate * 1e6:.3g} us; {plan.batch_tokens * size / rate * 1e3:.3g} ms for a full step"
    through = any(link.peer_access is False for link in links_among(problem.hardware, gpus))
    return (
        Reason(
            "exchange between cards",
            value,
            "2 exchanges x layers x width x 2 bytes x 2 (n - 1) / n, a ring; time at the peak of the slowest link,"
            " at least" + (": without peer access it goes through the host's memory" if through else ""),
            (
                ("n", str(ranks)),
                ("layers", str(plan.model.layers)),
                ("width", str(plan.model.embedding_length)),
                ("links", _kind(problem, gpus)),
                ("slowest", "not known" if rate is None else format_rate(rate)),
            ),
            _source(problem),
        ),
    )


def _kind(problem: Problem, gpus: tuple[Gpu, ...]) -> str:
    return LINK_NAMES.get(kind_among(problem.hardware, gpus) or "", "not known")


def _source(problem: Problem) -> str:
    for row in problem.hardware.observations:
        if row.quantity == "links" or row.quantity.startswith("links[0].bytes"):
            return row.source
    return "the links are not known"


def _stages_reason(plan: Plan) -> tuple[Reason, ...]:
    if not plan.layer_partition:
        return ()
    layers = ", ".join(str(count) for count in plan.layer_partition)
    return (
        Reason(
            "layer_partition",
            layers,
            "layers move from the card with room for the fewest blocks of the cache as long as the fewest grow",
            tuple((row.device, format_bytes(row.total_bytes)) for row in plan.budgets if row.device != "host"),
            "memory budget of each card; cards are of different sizes",
        ),
    )


def _experts_reason(problem: Problem, plan: Plan) -> tuple[Reason, ...]:
    if not plan.expert_parallel:
        return ()
    cards = plan.tensor_parallel * plan.data_parallel
    given = problem.fixed.expert_parallel is not None
    return (
        Reason(
            "expert_parallel",
            f"about {plan.model.experts / cards:.3g} of {plan.model.experts} whole experts of a layer on each card",
            NOT_COMPUTED if given else "parts of experts cannot be divided evenly among the cards, whole ones can",
            (
                ("experts", str(plan.model.experts)),
                ("inner values of one", str(plan.model.expert_feed_forward_length)),
                ("cards that share them", str(cards)),
            ),
            "the user" if given else "model configuration",
        ),
    )
