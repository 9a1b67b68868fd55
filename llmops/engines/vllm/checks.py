"""Expectations compared with what was seen of a vLLM. What was not seen is never a pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llmops.core.verification import Check, CheckStatus, Expectation
from llmops.engines.base import InForce, Installation
from llmops.engines.vllm.expectations import AT_LEAST
from llmops.engines.vllm.observe import VllmInForce
from llmops.engines.vllm.own_words import HIDDEN_CACHE_MEMORY
from llmops.engines.vllm.words import amount, canonical_flag, find, program_length

Verdict = tuple[CheckStatus, str | None, str]


def checks(expectations: Sequence[Expectation], installation: Installation, in_force: InForce) -> tuple[Check, ...]:
    """One check for each expectation, in order."""
    seen = in_force if isinstance(in_force, VllmInForce) else VllmInForce(**vars(in_force))
    unseen = dict(seen.unseen)
    found = []
    for expectation in expectations:
        rule = _on_command_line if expectation.where == "command_line" else _VERDICTS[expectation.name]
        status, observed, detail = rule(expectation, seen, unseen)
        found.append(Check(expectation.name, expectation.value, observed, status, detail))
    return tuple(found)


def same_value(one: str, other: str) -> bool:
    """Whether two values of an option say the same: `16K` is 16384, `0.90` is 0.9."""
    first, second = amount(one), amount(other)
    if first is not None or second is not None:
        return first == second
    try:
        return float(one) == float(other)
    except ValueError:
        return one == other


def _on_command_line(expectation: Expectation, seen: VllmInForce, unseen: dict[str, str]) -> Verdict:
    if seen.options is None:
        return _not_evaluated(unseen, "arguments")
    said = find(seen.options, canonical_flag(expectation.name))
    if said is None and expectation.name == "--host" and expectation.value == "0.0.0.0":  # noqa: S104 - compared only
        return CheckStatus.PASS, expectation.value, "without --host vLLM listens on every address"
    if said is None:
        return CheckStatus.FAIL, "absent", "the running process was started without it"
    status = CheckStatus.PASS if same_value(expectation.value, said.value) else CheckStatus.FAIL
    return (
        status,
        said.value,
        "" if status is CheckStatus.PASS else "the running process was started with another value",
    )


def _compared(expected: str, observed: str, detail: str) -> Verdict:
    return (CheckStatus.PASS if observed == expected else CheckStatus.FAIL), observed, detail


def _not_evaluated(unseen: dict[str, str], *parts: str) -> Verdict:
    why = next((unseen[part] for part in (*parts, "unit", "arguments", "url") if part in unseen), "not observed")
    return CheckStatus.NOT_EVALUATED, None, why


def _model(expectation: Expectation, seen: VllmInForce, unseen: dict[str, str]) -> Verdict:
    if seen.model_path is None:
        return _not_evaluated(unseen, "arguments")
    names = ", ".join(seen.served_names)
    return _compared(expectation.value, seen.model_path, f"requests name it {names}" if names else "")


def _longest_request(expectation: Expectation, seen: VllmInForce, unseen: dict[str, str]) -> Verdict:
    if seen.longest_request_tokens is None:
        return _not_evaluated(unseen, "models")
    return _compared(expectation.value, str(seen.longest_request_tokens), "max_model_len of /v1/models")


def _version(expectation: Expectation, seen: VllmInForce, unseen: dict[str, str]) -> Verdict:
    if seen.version is None:
        return _not_evaluated(unseen, "version", "props")
    observed = seen.version.partition("+")[0]  # a local part such as +cpu is no other version
    # A person may have said 0.32 for 0.32.0.
    same = f"{observed}.".startswith(f"{expectation.value}.")
    return (CheckStatus.PASS if same else CheckStatus.FAIL), observed, "what /version says"


def _cache_tokens(expectation: Expectation, seen: VllmInForce, unseen: dict[str, str]) -> Verdict:
    cache = seen.metrics.cache if seen.metrics is not None else None
    if cache is None:
        return _not_evaluated(unseen, "metrics")
    tokens, detail = cache.size_tokens, "kv_cache_size_tokens of /metrics"
    if tokens is None:
        return CheckStatus.NOT_EVALUATED, None, "this version tells the tokens of its cache in its log only"
    return tokens_verdict(expectation.value, tokens, detail)


def tokens_verdict(expected: str, tokens: int, detail: str) -> Verdict:
    """Tokens of the cache against what the plan says: exactly so many, or at least so many."""
    planned = int(expected.removeprefix(AT_LEAST).replace(",", ""))
    good = tokens >= planned if expected.startswith(AT_LEAST) else tokens == planned
    return (CheckStatus.PASS if good else CheckStatus.FAIL), f"{tokens:,}", detail


def _listener(expectation: Expectation, seen: VllmInForce, unseen: dict[str, str]) -> Verdict:
    if seen.pid is None or seen.listener_pid is None:
        return _not_evaluated(unseen, "listener_pid", "url")
    observed = expectation.value if seen.listener_pid == seen.pid else f"process {seen.listener_pid}"
    return _compared(expectation.value, observed, f"who listens at {seen.url}")


def _hidden_variables(expectation: Expectation, seen: VllmInForce, unseen: dict[str, str]) -> Verdict:
    if seen.environment is None:
        return _not_evaluated(unseen, "environment")
    value = dict(seen.environment).get(HIDDEN_CACHE_MEMORY)
    observed = f"{HIDDEN_CACHE_MEMORY}={value}" if value else "none"
    return _compared(expectation.value, observed, "variables that win over --kv-cache-memory-bytes")


def _drop_in(expectation: Expectation, seen: VllmInForce, unseen: dict[str, str]) -> Verdict:
    if seen.need_daemon_reload is None:
        return _not_evaluated(unseen, "unit")
    loaded = seen.drop_ins
    if not loaded or loaded[-1] != expectation.value:
        detail = "it must be the last, so that nothing overrides it" if expectation.value in loaded else "not loaded"
        return CheckStatus.FAIL, " ".join(loaded) or "none", detail
    return CheckStatus.PASS, loaded[-1], "the last of DropInPaths"


def _daemon_reload(expectation: Expectation, seen: VllmInForce, unseen: dict[str, str]) -> Verdict:
    if seen.need_daemon_reload is None:
        return _not_evaluated(unseen, "unit")
    return _compared(expectation.value, "yes" if seen.need_daemon_reload else "no", "NeedDaemonReload")


def _running_command(expectation: Expectation, seen: VllmInForce, unseen: dict[str, str]) -> Verdict:
    running, configured = seen.arguments, seen.configured_arguments
    if running is None or configured is None:
        return _not_evaluated(unseen, "arguments")
    same = running[program_length(running) or 1 :] == configured[program_length(configured) or 1 :]
    observed = expectation.value if same else " ".join(running)
    return _compared(expectation.value, observed, "arguments of ExecStart= and of the running process")


_VERDICTS: dict[str, Callable[[Expectation, VllmInForce, dict[str, str]], Verdict]] = {
    "model": _model,
    "longest_request": _longest_request,
    "version": _version,
    "cache_tokens": _cache_tokens,
    "listener": _listener,
    "hidden_variables": _hidden_variables,
    "drop_in": _drop_in,
    "daemon_reload_needed": _daemon_reload,
    "running_command": _running_command,
}
