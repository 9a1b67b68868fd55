"""Expectations compared with what was seen of an Ollama. What was not seen is never a pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llmops.core.units import format_bytes
from llmops.core.verification import Check, CheckStatus, Expectation
from llmops.engines.found import InForce, Installation, LoadedModel
from llmops.engines.verdicts import COMMON, Verdict, compared, in_environment, not_evaluated

# Of the memory of a model on cards, this much may lie on the host (pinned buffers, the token embeddings).
GPU_TOLERANCE = 0.10


def checks(expectations: Sequence[Expectation], installation: Installation, in_force: InForce) -> tuple[Check, ...]:
    """One check for each expectation, in order."""
    wanted = next((one.value for one in expectations if one.name == "runner_model"), None)
    seen = _Seen(in_force, _runner_of(in_force, wanted))
    found = []
    for expectation in expectations:
        status, observed, detail = _verdict(expectation, seen)
        found.append(Check(expectation.name, expectation.value, observed, status, detail))
    return tuple(found)


def _verdict(expectation: Expectation, seen: _Seen) -> Verdict:
    if expectation.where == "variable":
        return in_environment(expectation, seen.in_force)
    key = expectation.where, expectation.name
    common = COMMON.get(key)
    return _VERDICTS[key](expectation, seen) if common is None else common(expectation, seen.in_force)


class _Seen:
    """What was observed, and the process that serves the planned model among it."""

    def __init__(self, in_force: InForce, runner: LoadedModel | None) -> None:
        self.in_force, self.unseen, self.runner = in_force, dict(in_force.unseen), runner

    def not_evaluated(self, *parts: str) -> Verdict:
        """The reason why one of these parts was not seen."""
        return not_evaluated(self.in_force, *parts)

    def row(self, name: str) -> LoadedModel | None:
        """The row of /api/ps for a model."""
        rows = self.in_force.loaded or ()
        return next((row for row in rows if row.name and _same_name(row.name, name)), None)


def _same_name(one: str, other: str) -> bool:
    """Names with and without the tag that is understood."""
    return one in {other, f"{other}:latest"} or f"{one}:latest" == other


def _runner_of(in_force: InForce, path: str | None) -> LoadedModel | None:
    processes = [model for model in in_force.loaded or () if model.pid is not None]
    if path is None:
        return processes[0] if len(processes) == 1 else None
    return next((model for model in processes if model.model_path == path), None)


def _server_config(expectation: Expectation, seen: _Seen) -> Verdict:
    printed = seen.in_force.logged_environment
    if printed is None:
        return seen.not_evaluated("log") if "log" in seen.unseen else _not_in_log()
    values = dict(printed)
    names = [pair.partition("=")[0] for pair in expectation.value.split()]
    observed = " ".join(f"{name}={values.get(name, 'unset')}" for name in names)
    environment = dict(seen.in_force.environment or ())
    obeyed = all(environment.get(name) == value for name, value in _pairs(expectation.value))
    if observed != expectation.value and obeyed:
        why = "the line is of an earlier start: the running process has the planned variables"
        return CheckStatus.NOT_EVALUATED, observed, why
    return compared(expectation.value, observed, 'the last "server config" line of the log')


def _pairs(text: str) -> list[tuple[str, str]]:
    return [(name, value) for name, _, value in (pair.partition("=") for pair in text.split())]


def _not_in_log() -> Verdict:
    return CheckStatus.NOT_EVALUATED, None, 'the part of the log that was read holds no "server config" line'


def _runner_model(expectation: Expectation, seen: _Seen) -> Verdict:
    paths = [model.model_path for model in seen.in_force.loaded or () if model.model_path]
    if not paths:
        return seen.not_evaluated("loaded", "slots")
    observed = expectation.value if expectation.value in paths else " ".join(paths)
    return compared(expectation.value, observed, "--model of the process that serves it")


def _slots(expectation: Expectation, seen: _Seen) -> Verdict:
    runner = seen.runner
    if runner is None or runner.slots is None:
        return seen.not_evaluated("loaded", "slots")
    detail = f"process {runner.pid} that serves the model"
    if runner.slots == 1 and expectation.value != "1":
        detail += "; this Ollama gives the model one slot whatever OLLAMA_NUM_PARALLEL says"
    return compared(expectation.value, str(runner.slots), detail)


def _slot_context(expectation: Expectation, seen: _Seen) -> Verdict:
    runner = seen.runner
    if runner is None or runner.context_tokens_per_slot is None:
        return seen.not_evaluated("loaded", "slots")
    detail = f"process {runner.pid} that serves the model; num_ctx of a request or a Modelfile beats the server's"
    return compared(expectation.value, str(runner.context_tokens_per_slot), detail)


def _loaded_context(expectation: Expectation, seen: _Seen) -> Verdict:
    name = expectation.value.rpartition(" ")[0]
    row = seen.row(name)
    if row is None or row.context_tokens is None:
        return seen.not_evaluated("loaded") if "loaded" in seen.unseen else _not_in_api_ps(name, row)
    detail = "context_length of /api/ps; longer prompts lose their beginning or middle, with HTTP 200 and no error"
    return compared(expectation.value, f"{row.name if row.name == name else name} {row.context_tokens}", detail)


def _not_in_api_ps(name: str, row: LoadedModel | None) -> Verdict:
    why = f"{name} is not in memory" if row is None else "this version does not say it in /api/ps"
    return CheckStatus.NOT_EVALUATED, None, why


def _gpu_share(expectation: Expectation, seen: _Seen) -> Verdict:
    name, _, rest = expectation.value.removesuffix(" %").rpartition(" ")
    row = seen.row(name)
    if row is None or not row.size_bytes or row.gpu_bytes is None:
        return seen.not_evaluated("loaded") if "loaded" in seen.unseen else _not_in_api_ps(name, row)
    share = row.gpu_bytes / row.size_bytes
    observed = f"{name} {share:.0%}".replace("%", " %")
    detail = f"{format_bytes(row.gpu_bytes)} of {format_bytes(row.size_bytes)} on cards, by /api/ps"
    if int(rest) == 0 or share >= 1 - GPU_TOLERANCE:
        return CheckStatus.PASS, observed, detail
    advice = "; the rest runs on the processor: a shorter context (--context) is the first thing to give up"
    return CheckStatus.FAIL, observed, detail + advice


_Rule = Callable[[Expectation, _Seen], Verdict]
_VERDICTS: dict[tuple[str, str], _Rule] = {
    ("log", "server_config"): _server_config,
    ("runner", "runner_model"): _runner_model,
    ("runner", "slots"): _slots,
    ("runner", "slot_context"): _slot_context,
    ("api_ps", "loaded_context"): _loaded_context,
    ("api_ps", "gpu_share"): _gpu_share,
}
