"""What a vLLM really serves: unit, processes, listener, --config file, metrics and its own word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llmops import systemd
from llmops.core.errors import LlmopsError
from llmops.engines.found import InForce, Installation
from llmops.engines.seeing import Unseen, ask_json, descendants, owner_of, process_part, text, unit_part, whole
from llmops.engines.vllm.command import configured, endpoint, url_of
from llmops.engines.vllm.metrics import VllmMetrics, ask_metrics
from llmops.engines.vllm.package import program_directories
from llmops.engines.vllm.printed import CACHE_WORDS, printed_cache_tokens
from llmops.engines.vllm.words import Argument, amount, config_path, find, model_of, program_length, read_words
from llmops.host import Host, ProcessInfo


@dataclass(frozen=True)
class VllmInForce(InForce):
    """What is in force of a vLLM.

    `options` are those of the running process, the --config file's first. `version` is the word of /version,
    `served_names` those by which requests name the model, `longest_request_tokens` its max_model_len.
    `program_directories` are what must be readable to start it, `logged_cache_tokens` the tokens of the cache by the
    unit's log where /metrics does not tell them (before 0.24.0).
    """

    options: tuple[Argument, ...] | None = None
    metrics: VllmMetrics | None = None
    version: str | None = None
    served_names: tuple[str, ...] = ()
    longest_request_tokens: int | None = None
    program_directories: tuple[str, ...] = ()
    logged_cache_tokens: int | None = None

    @property
    def told_of_itself(self) -> bool:
        """Whether it named its version."""
        return self.version is not None


def observe(host: Host, installation: Installation) -> VllmInForce:
    """Everything that can be seen of one installation; nothing is changed."""
    unseen = Unseen()
    needed = program_directories(host, installation.command)
    seen = VllmInForce(**vars(unit_part(host, installation, unseen)), program_directories=needed)
    processes = host.processes()
    process = _process_of(processes, installation, seen, unseen)
    if process is not None:
        # The last one first: the workers that hold the model are children of the engine core.
        workers = [one.pid for one in reversed(descendants(process.pid, processes))]
        seen = process_part(host, process, workers, seen, unseen)
    words = seen.arguments or seen.configured_arguments or ()
    seen = replace(seen, config_files=_config_files(host, words, unseen))
    arguments, config = read_words(words[program_length(words) or len(words) :]), configured_in(words, seen)
    seen = replace(seen, options=(*config, *arguments) if seen.arguments else None, model_path=model_of(words, config))
    seen = _listener_part(host, seen, arguments, config, unseen)
    if seen.url is not None and seen.pid is not None:
        seen = _own_word(host, seen, unseen)
        seen = replace(seen, logged_cache_tokens=_logged_tokens(host, seen, installation.unit))
    return replace(seen, unseen=tuple(unseen.reasons.items()))


def configured_in(words: Sequence[str], seen: InForce) -> tuple[Argument, ...]:
    """The options of the --config file that these whole words name."""
    return configured(words[program_length(words) or len(words) :], seen)


def _process_of(
    processes: Sequence[ProcessInfo], installation: Installation, seen: InForce, unseen: Unseen
) -> ProcessInfo | None:
    """The server itself: the unit's main process, or the child that a script in the unit started."""
    by_pid = {process.pid: process for process in processes}
    for pid in (seen.pid, installation.pid):
        process = by_pid.get(pid or 0)
        if process is not None and program_length(process.argv) is not None:
            return process
    main = by_pid.get(seen.pid or 0)
    if main is None:
        unseen.note("arguments", "the server is not running")
        return None
    if main.control_group:
        for process in processes:
            if process.control_group == main.control_group and program_length(process.argv) is not None:
                return process
    unseen.note("arguments", f"process {main.pid} is not a vllm server")
    return None


def _config_files(host: Host, words: Sequence[str], unseen: Unseen) -> tuple[tuple[str, str], ...]:
    path = config_path(words)
    if path is None:
        return ()
    if not path.startswith("/"):
        unseen.note("config_file", f"{path} is relative to a directory that is not known")
        return ()
    try:
        return ((path, host.read_text(path)),)
    except OSError as problem:
        unseen.note("config_file", f"{path}: {problem.strerror or problem}")
        return ()


def _listener_part(
    host: Host, seen: VllmInForce, arguments: Sequence[Argument], config: Sequence[Argument], unseen: Unseen
) -> VllmInForce:
    if find((*config, *arguments), "--uds") is not None:
        unseen.note("url", "the server listens on a socket in the file system only")
        return seen
    address, port = endpoint(arguments, config, seen)
    scheme_is_tls = find((*config, *arguments), "--ssl-certfile") is not None
    if scheme_is_tls:
        unseen.note("url", "the server speaks TLS itself, and its certificate does not hold for loopback")
        return seen
    seen = replace(seen, url=url_of(address, port))
    listeners = [one for one in host.listening_sockets() if str(one.port) == port]
    owner = owner_of(listeners, seen.pid)
    if not listeners:
        unseen.note("listener_pid", f"nobody listens on port {port}")
    elif owner is None:
        unseen.note("listener_pid", f"who listens on port {port} may be seen by root only")
    # With several API servers the port is theirs: children of the process that was started.
    return replace(seen, listener_pid=seen.pid if owner in seen.worker_pids else owner)


def _own_word(host: Host, seen: VllmInForce, unseen: Unseen) -> VllmInForce:
    said = ask_json(host, f"{seen.url}/version", "version", unseen)
    version = text(said.get("version")) if isinstance(said, Mapping) else None
    if version is None:
        unseen.note("props", f"{seen.url}/version names no version: this is not vLLM")
        return seen
    try:
        metrics: VllmMetrics | None = ask_metrics(host, seen.url or "")
    except LlmopsError as problem:
        unseen.note("metrics", problem.message)
        metrics = None
    names, longest = _models(ask_json(host, f"{seen.url}/v1/models", "models", unseen), unseen)
    return replace(
        seen,
        version=version,
        build=version,
        metrics=metrics,
        served_names=names,
        longest_request_tokens=longest,
        slots=_slots(seen.options or ()),
        context_tokens_per_slot=longest,
        processing=None if metrics is None or metrics.running is None else metrics.running + (metrics.waiting or 0),
    )


def _models(answer: Any, unseen: Unseen) -> tuple[tuple[str, ...], int | None]:
    """The names of the models and the longest request of the first."""
    rows = answer.get("data") if isinstance(answer, Mapping) else None
    rows = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    if not rows:
        unseen.note("models", "/v1/models names no model")
        return (), None
    names = tuple(name for row in rows if (name := text(row.get("id"))) is not None)
    return names, whole(rows[0].get("max_model_len"))


def _logged_tokens(host: Host, seen: VllmInForce, unit: str | None) -> int | None:
    """Only where it is needed: a journal is slow to search."""
    told = seen.metrics is None or seen.metrics.cache is None or seen.metrics.cache.size_tokens is not None
    if unit is None or told:
        return None
    try:
        start = systemd.state(host, unit).invocation_id
    except LlmopsError:
        return None
    lines = systemd.journal_tail(host, unit, lines=8, invocation_id=start, matching=CACHE_WORDS)
    return printed_cache_tokens("\n".join(lines))


def _slots(options: Sequence[Argument]) -> int | None:
    """How many run at once over all engines, by the words of the process; its own default is 128 or more for each."""
    said, engines = find(options, "--max-num-seqs"), find(options, "--data-parallel-size")
    each = amount(said.value) if said is not None else None
    return None if each is None else each * (amount(engines.value) or 1 if engines is not None else 1)
