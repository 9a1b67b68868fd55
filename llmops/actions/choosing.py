"""Which installed engine a plan is for where nobody named one, and why.

What serves users now comes first: another engine is planned for only where that one cannot serve the model, and an
apply then asks for the name. Of several that are alike, the recommendation decides (actions/plan.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from llmops import engines
from llmops.core.errors import Misconfigured
from llmops.core.plan import Reason
from llmops.engines.base import Engine
from llmops.engines.found import EMBEDDED, Installation
from llmops.host import Host
from llmops.models import form_of

# The quantity of the reason that a plan gives for its engine.
ENGINE_REASON = "engine"
_FORMS = {
    "gguf": "a GGUF file",
    "checkpoint": "a Hugging Face checkpoint as it is",
    "stored": "a model by a name in Ollama's store",
}
_RULE = "what is installed and can serve the model: first what serves now, then what a unit starts"


@dataclass(frozen=True)
class Candidate:
    """An engine that is installed; `serves` is whether it runs now, `refusal` why it cannot serve what was named."""

    engine: Engine
    installation: Installation
    serves: bool
    refusal: str | None = None

    @property
    def name(self) -> str:
        """The engine's name."""
        return self.engine.name

    @property
    def where(self) -> str:
        """The engine with the place where it was found."""
        return f"{self.name} ({self.installation.detail or ' '.join(self.installation.command)})"

    @property
    def standing(self) -> str:
        """What it is here, as a reason for or against it."""
        running = "runs now" if self.serves else "does not run now"
        return running if self.refusal is None else f"{running} and {self.refusal}"

    def is_like(self, other: Candidate) -> bool:
        """Whether nothing but the load speaks for one of the two."""
        return self.refusal is None and other.refusal is None and self.serves is other.serves


@dataclass(frozen=True)
class Choice:
    """The engine that a plan is for, and the others that are installed beside it; none where one was named."""

    taken: Candidate
    others: tuple[Candidate, ...] = ()
    by_load: bool = False

    @property
    def alike(self) -> tuple[Candidate, ...]:
        """The others that the recommendation may choose instead."""
        return tuple(other for other in self.others if other.is_like(self.taken))

    def instead(self, name: str) -> Choice:
        """The choice of another one, because it suits the load."""
        every = (self.taken, *self.others)
        taken = next(one for one in every if one.name == name)
        return replace(self, taken=taken, others=tuple(one for one in every if one is not taken), by_load=True)

    @property
    def sentence(self) -> str | None:
        """The choice for people; None where there was none."""
        if not self.others:
            return None
        why = "suits this load" if self.by_load else self.taken.standing
        others = "; ".join(f"{other.where}, which {other.standing}" for other in self.others)
        return f"Planned for {self.taken.where}, which {why}. Also installed: {others}. --engine plans for another"

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The choice as the reason of a plan."""
        if not self.others:
            return ()
        every = (self.taken, *self.others)
        rule = f"{_RULE}; by the load where those are alike" if self.by_load else _RULE
        rows = tuple((one.name, f"{one.standing} ({one.installation.detail})") for one in every)
        return (Reason(ENGINE_REASON, self.taken.name, rule, rows, "what is installed here"),)

    @property
    def refusal(self) -> Misconfigured | None:
        """Why nothing is to be configured before somebody names the engine; None where it is the one that serves."""
        serving = [other for other in self.others if other.serves and (not self.taken.serves or other.refusal is None)]
        if not serving:
            return None
        names = " and ".join(one.where for one in serving)
        if self.taken.serves:
            message = f"{self.taken.where} runs here and so does {names}: nobody said which is to be configured"
        else:
            message = f"{names} runs here, and this plan is for {self.taken.where}: nobody said to set that up"
        return Misconfigured(
            message, hint=f"llmops changes no engine for another by itself: --engine {self.taken.name}"
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What an apply would ask."""
        return () if self.refusal is None else (f"{self.refusal.message}; an apply wants it named with --engine",)


def choose(host: Host, references: Sequence[str]) -> Choice | None:
    """The best of what is installed for these models; None where nothing is."""
    found = [candidate for engine in engines.ENGINES for candidate in _candidates(host, engine)]
    if not found:
        return None
    found = _worth_naming(found)
    if len(found) > 1:
        forms = [form_of(host, reference) for reference in references]
        found = [replace(one, refusal=_refusal(host, one, forms)) for one in found]
    taken, *others = sorted(found, key=_rank)
    return Choice(taken, tuple(others))


def _candidates(host: Host, engine: Engine) -> tuple[Candidate, ...]:
    installations = engine.detect(host)
    if not installations:
        return ()
    return (Candidate(engine, installations[0], any(one.runs for one in installations)),)


def _worth_naming(found: list[Candidate]) -> list[Candidate]:
    """Without what cannot be configured or used, and without the server that is a part of llmops, where others are."""
    for is_worth in (_is_configurable, _is_usable, _is_a_program):
        found = [one for one in found if is_worth(one)] or found
    return found


def _is_configurable(candidate: Candidate) -> bool:
    return candidate.engine.can_be_configured


def _is_usable(candidate: Candidate) -> bool:
    return candidate.serves or candidate.installation.problem is None


def _is_a_program(candidate: Candidate) -> bool:
    return candidate.installation.managed_by != EMBEDDED


def _refusal(host: Host, candidate: Candidate, forms: list[str | None]) -> str | None:
    engine, installation = candidate.engine, candidate.installation
    foreign = [form for form in forms if form is not None and form not in engine.forms]
    if foreign:
        return f"cannot serve {_FORMS[foreign[0]]}"
    if forms or candidate.serves or "stored" in engine.forms:
        return None
    if installation.unit is not None and engine.in_force(host, installation).model_path is not None:
        return None
    return "has no model, and none is named"


def _rank(candidate: Candidate) -> tuple[bool, bool, bool, bool]:
    """Least first; those that are alike stay in the order of ENGINES."""
    installation = candidate.installation
    return (
        candidate.refusal is not None,
        not candidate.serves,
        installation.problem is not None,
        installation.managed_by != "unit",
    )
