"""The options of a request: the tier of the machine, then the environment, the Modelfile, the request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import log
from .settings import Settings
from .store import Model

# A model is loaded anew when one of these differs from how it was loaded.
RUNNER_OPTIONS = ("num_ctx", "num_batch", "num_gpu", "main_gpu", "use_mmap", "num_thread")
_SAMPLING = {
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "seed": "seed",
    "stop": "stop",
    "repeat_penalty": "repeat_penalty",
    "repeat_last_n": "repeat_last_n",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}


@dataclass(frozen=True)
class Options:
    """What decides how the model is loaded, and the rest."""

    context: int
    batch: int | None
    threads: int | None
    mmap: bool | None
    shift: bool
    values: Mapping[str, Any]

    @property
    def loading(self) -> tuple[object, ...]:
        """Two requests with equal values can share a loaded model."""
        rest = tuple(self.values.get(name) for name in RUNNER_OPTIONS if name != "num_ctx")
        return (self.context, self.shift, *rest)

    @property
    def keep(self) -> int:
        """Tokens at the start of a prompt that a cut leaves alone."""
        return int(self.values.get("num_keep", 4))

    def sampling(self) -> dict[str, Any]:
        """What llama-server is told; what Ollama does not know never reaches it."""
        told = {theirs: self.values[ours] for ours, theirs in _SAMPLING.items() if ours in self.values}
        wanted = int(self.values.get("num_predict", -1))
        most = 10 * self.context
        told["n_predict"] = most if wanted < 0 else min(wanted, most)
        return told


def merge(settings: Settings, model: Model, request: Mapping[str, Any], total_vram: int) -> Options:
    """The options in force for one request; `request` is its body."""
    values = {**model.parameters, **(request.get("options") or {})}
    fallback = settings.context or settings.traits.default_context(total_vram)
    context = max(int(values.get("num_ctx") or fallback), 4)
    trained = int(model.header.of("context_length") or context)
    if context > trained:
        message = "requested context size too large for model"
        log.say("WARN", "server.go:114", message, num_ctx=context, n_ctx_train=trained)
        context = trained
    return Options(
        context=context,
        batch=values.get("num_batch"),
        threads=values.get("num_thread"),
        mmap=values.get("use_mmap"),
        shift=request.get("shift") is not False,
        values=values,
    )


def slots(settings: Settings, model: Model) -> int:
    """Slots of this model: some families and every embedding model get one."""
    family = str(model.details["family"])
    if not model.can_chat:
        return 1
    if settings.parallel > 1 and settings.traits.has_one_slot(family):
        message = "model architecture does not currently support parallel requests"
        log.say("WARN", "sched.go:507", message, architecture=family)
        return 1
    return settings.parallel
