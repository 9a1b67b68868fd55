"""Expectations compared with what was seen of a vLLM. What was not seen is never a pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llmops.core.verification import Check, CheckStatus, Expectation
from llmops.engines.found import InForce, Installation
from llmops.engines.verdicts import COMMON, Verdict, compared, in_environment, not_evaluated, same_command
from llmops.engines.vllm.expectations import AT_LEAST
from llmops.engines.vllm.observe import VllmInForce
from llmops.engines.vllm.own_words import HIDDEN_CACHE_MEMORY
from llmops.engines.vllm.words import amount, canonical_flag, find, program_length

_Rule = Callable[[Expectation, VllmInForce], Verdict]


def checks(expectations: Sequence[Expectation], installation: Installation, in_force: InForce) -> tuple[Check, ...]:
    """One check for each expectation, in order."""
    seen = in_force if isinstance(in_force, VllmInForce) else VllmInForce(**vars(in_force))
    found = []
    for expectation in expectations:
        status, observed, detail = _rule_of(expectation)(expectation, seen)
        found.append(Check(expectation.name, expectation.value, observed, status, detail))
    return tuple(found)


def _rule_of(expectation: Expectation) -> _Rule:
    if expectation.where == "command_line":
        return _on_command_line
    if expectation.where == "environment" and expectation.name not in _VERDICTS:
        return in_environment
    return COMMON.get((expectation.where, expectation.name)) or _VERDICTS[expectation.name]


def same_value(one: str, other: str) -> bool:
    """Whether two values of an option say the same: `16K` is 16384, `0.90` is 0.9."""
    first, second = amount(one), amount(other)
    if first is not None or second is not None:
        return first == second
    try:
        return float(one) == float(other)
    except ValueError:
        return one == other


def _on_command_line(expectation: Expectation, seen: VllmInForce) -> Verdict:
    if seen.options is None:
        return not_evaluated(seen, "arguments")
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


def _model(expectation: Expectation, seen: VllmInForce) -> Verdict:
    if seen.model_path is None:
        return not_evaluated(seen, "arguments")
    names = ", ".join(seen.served_names)
    return compared(expectation.value, seen.model_path, f"requests name it {names}" if names else "")


def _longest_request(expectation: Expectation, seen: VllmInForce) -> Verdict:
    if seen.longest_request_tokens is None:
        return not_evaluated(seen, "models")
    return compared(expectation.value, str(seen.longest_request_tokens), "max_model_len of /v1/models")


def _version(expectation: Expectation, seen: VllmInForce) -> Verdict:
    if seen.version is None:
        return not_evaluated(seen, "version", "props")
    observed = seen.version.partition("+")[0]  # a local part such as +cpu is no other version
    # A person may have said 0.32 for 0.32.0.
    same = f"{observed}.".startswith(f"{expectation.value}.")
    return (CheckStatus.PASS if same else CheckStatus.FAIL), observed, "what /version says"


def _cache_tokens(expectation: Expectation, seen: VllmInForce) -> Verdict:
    caches = seen.metrics.caches if seen.metrics is not None else ()
    if not caches:
        return not_evaluated(seen, "metrics")
    tokens = [cache.size_tokens for cache in caches if cache.size_tokens is not None]
    if len(tokens) < len(caches) and seen.logged_cache_tokens is not None:
        return tokens_verdict(expectation.value, seen.logged_cache_tokens, "KV cache size, as the engine logged it")
    if len(tokens) < len(caches):
        return CheckStatus.NOT_EVALUATED, None, "this version tells the tokens of its cache in its log only"
    least = f", the least of {len(tokens)} engines" if len(tokens) > 1 else ""
    return tokens_verdict(expectation.value, min(tokens), f"kv_cache_size_tokens of /metrics{least}")


def tokens_verdict(expected: str, tokens: int, detail: str) -> Verdict:
    """Tokens of the cache against what the plan says: exactly so many, or at least so many."""
    planned = int(expected.removeprefix(AT_LEAST).replace(",", ""))
    good = tokens >= planned if expected.startswith(AT_LEAST) else tokens == planned
    return (CheckStatus.PASS if good else CheckStatus.FAIL), f"{tokens:,}", detail


def _hidden_variables(expectation: Expectation, seen: VllmInForce) -> Verdict:
    if seen.environment is None:
        return not_evaluated(seen, "environment")
    value = dict(seen.environment).get(HIDDEN_CACHE_MEMORY)
    observed = f"{HIDDEN_CACHE_MEMORY}={value}" if value else "none"
    return compared(expectation.value, observed, "variables that win over --kv-cache-memory-bytes")


def _running_command(expectation: Expectation, seen: VllmInForce) -> Verdict:
    return same_command(expectation, seen, program_length)


_VERDICTS: dict[str, _Rule] = {
    "model": _model,
    "longest_request": _longest_request,
    "version": _version,
    "cache_tokens": _cache_tokens,
    "hidden_variables": _hidden_variables,
    "running_command": _running_command,
}
