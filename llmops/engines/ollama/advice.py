"""What an operator of Ollama must know before he relies on a plan."""

from __future__ import annotations

from llmops.core.plan import Plan
from llmops.core.version import Version
from llmops.engines.found import InForce
from llmops.engines.ollama.facts import RUNS_LLAMA_SERVER
from llmops.engines.ollama.shape import most_slots_of

_GAP_TOLERANCE = 2.0  # as for a kept plan: rates are estimates


def warnings(plan: Plan, version: Version | None, in_force: InForce | None) -> tuple[str, ...]:
    """One line each, most important first."""
    return (*_slots(plan, version), *_queue(plan), *_batch(plan), *_context(plan), *_old(plan, version))


def _slots(plan: Plan, version: Version | None) -> list[str]:
    if most_slots_of(plan.model, version) > 1:
        return []
    return [
        f"Ollama serves models of the family {plan.model.architecture} one request at a time, whatever"
        " OLLAMA_NUM_PARALLEL says: everybody else waits"
    ]


def _queue(plan: Plan) -> list[str]:
    return [
        f"OLLAMA_MAX_QUEUE={max(1, plan.queue_requests)} only bounds requests that wait while a model is being loaded;"
        " requests to a loaded model wait without limit, which only a proxy in front can bound"
    ]


def _batch(plan: Plan) -> list[str]:
    speed = plan.speeds[0] if plan.speeds else None
    if speed is None or plan.slots < 2 or plan.policy.protect != "itl":
        return []
    gap = plan.batch_tokens / speed.prefill_tokens_per_second
    if gap <= _GAP_TOLERANCE * plan.policy.max_gap_seconds:
        return []
    return [
        f"Ollama reads {plan.batch_tokens} prompt tokens in one step: a new long prompt stops running streams for about"
        f" {gap:.0f} s; only num_batch in a Modelfile or a request changes that"
    ]


def _context(plan: Plan) -> list[str]:
    return [
        f"a conversation longer than {plan.context_tokens_per_slot} tokens loses its oldest messages, or the middle of"
        " a long prompt, and is answered with HTTP 200: Ollama says so in its log only"
    ]


def _old(plan: Plan, version: Version | None) -> list[str]:
    if RUNS_LLAMA_SERVER.at(version):
        return []
    return ["this Ollama keeps no prompts of earlier turns in main memory and takes its number of threads by itself"]
