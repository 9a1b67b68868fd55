"""The command line that makes a plan live: the person's own words, with only the planned options replaced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from llmops.core.errors import Misconfigured, TooOld
from llmops.core.plan import Plan
from llmops.core.version import Since, Timeline, Version
from llmops.engines.addresses import from_here
from llmops.engines.base import Setting, setting_words
from llmops.engines.found import InForce, Installation
from llmops.engines.unit import kept_prefix, literals, require_open
from llmops.engines.vllm.arguments import arguments
from llmops.engines.vllm.as_written import written_words
from llmops.engines.vllm.own_words import require_kept_words, require_told_model, require_undoable
from llmops.engines.vllm.words import (
    MODULE,
    NAME,
    Argument,
    canonical_flag,
    config_path,
    find,
    model_of,
    program_length,
    read_config,
    read_words,
)
from llmops.systemd.syntax import literal

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", "8000"
# How long running requests may still take after SIGTERM; without the flag they are cut off at once.
DRAIN_SECONDS = 30
DRAIN_FLAG = Timeline(
    (
        Since(Version((0,)), value=False, source="vllm 0.17.1: SIGTERM ends running requests"),
        Since(Version((0, 18, 0)), value=True, source="vllm 0.18.0, --shutdown-timeout"),
    )
)
# What a plan decides even where it needs no word for it: the engine's own choice is what was planned with. A person's
# --enforce-eager, --dtype and --enable-prefix-caching stay where the plan is silent: they take no more memory.
DECIDED = (
    "--max-model-len", "--max-num-seqs", "--max-num-batched-tokens", "--gpu-memory-utilization",
    "--kv-cache-memory-bytes", "--tensor-parallel-size", "--pipeline-parallel-size", "--nnodes", "--kv-cache-dtype",
    "--data-parallel-size", "--enable-expert-parallel",
    "--max-num-queued-reqs", "--max-num-active-seqs",
)  # fmt: skip
# Said in a --config file, these are undone only by another word on the command line.
_UNDOING = {
    "--tensor-parallel-size": Setting("--tensor-parallel-size", "1"),
    "--pipeline-parallel-size": Setting("--pipeline-parallel-size", "1"),
    "--data-parallel-size": Setting("--data-parallel-size", "1"),
    "--nnodes": Setting("--nnodes", "1"),
    "--kv-cache-dtype": Setting("--kv-cache-dtype", "auto"),
    "--enable-expert-parallel": Setting("--no-enable-expert-parallel", None),
}


@dataclass(frozen=True)
class CommandLine:
    """The words to start the server with, the settings among them that llmops decided, the model, where it listens.

    `written` are the words for a drop-in of the person's unit: `prefix` stands before them, and `%` and `$` in them
    are systemd's.
    """

    words: tuple[str, ...]
    settings: tuple[Setting, ...]
    model: str
    url: str
    written: tuple[str, ...] = ()
    prefix: str = ""


def build(plan: Plan, installation: Installation, in_force: InForce | None = None) -> CommandLine:
    """Raise TooOld for a vLLM without the flags that a plan needs, Misconfigured for words that cannot be kept."""
    program, present = _present(installation, in_force)
    said = read_words(present)
    config = configured(present, in_force)
    require_told_model(program, present, config, installation)
    require_undoable(plan, config, installation, in_force)
    require_kept_words(plan, (*config, *said))
    decided = planned_settings(plan, installation)
    host, port = endpoint(said, config, in_force)
    address = (Setting("--host", host), Setting("--port", port))
    name = model_name_in((*program, *present), config, plan)
    model = _model_setting(name, program, present, config)
    ours = (*address, *decided, *_undone(config, decided))
    settings = (*model, *ours)
    flags = {canonical_flag(one.name) for one in settings}
    replaced = flags | set(DECIDED) | {"--model"}
    kept = [one for one in said if one.flag and one.flag not in replaced]
    own = (*program, *setting_words(model), *(word for one in kept for word in one.words))
    command, written = None, literals(own)
    if in_force is not None and installation.unit is not None and in_force.user_command is not None:
        command, variables = in_force.user_command, dict(in_force.configured_environment or ())
        same = model_of((*program, *present)) == name and name in {plan.model.reference, *plan.model.source_paths}
        unsaid = set(DECIDED) - flags
        written = written_words(command, variables, setting_words(model), replaced, unsaid, names_the_model=same)
    return CommandLine(
        words=(*own, *setting_words(ours)),
        settings=settings,
        model=name,
        url=url_of(host, port),
        written=(*written, *map(literal, setting_words(ours))),
        prefix=kept_prefix(command),
    )


def _undone(config: Sequence[Argument], decided: Sequence[Setting]) -> Iterator[Setting]:
    """The words against what a --config file says and the plan does not."""
    names = {one.name for one in decided}
    for flag, undoing in _UNDOING.items():
        if flag not in names and find(config, flag) is not None:
            yield undoing


def planned_settings(plan: Plan, installation: Installation) -> tuple[Setting, ...]:
    """The planned options without the model, as this installation spells them; raise TooOld where it lacks one."""
    settings = [one for one in arguments(plan, installation.version) if one.name.startswith("--")]
    if DRAIN_FLAG.at(installation.version) and _knows(installation, "--shutdown-timeout"):
        settings.append(Setting("--shutdown-timeout", str(DRAIN_SECONDS)))
    require_flags(settings, installation)
    return tuple(settings)


def require_flags(settings: Sequence[Setting], installation: Installation) -> None:
    """Raise TooOld where the installed program is known to lack one of these."""
    for one in settings:
        if not _knows(installation, one.name):
            raise TooOld(
                f"vllm {installation.version_text or 'of unknown version'} does not know {one.name}",
                hint="say which version it is with --engine-version, or install a newer one",
            )


def _knows(installation: Installation, flag: str) -> bool:
    return installation.flags is None or flag.replace("--no-", "--") in installation.flags


def model_name_in(words: Sequence[str], config: Sequence[Argument], plan: Plan) -> str:
    """The plan's model as these words already name it, else as the plan does."""
    wanted = {plan.model.reference, *plan.model.source_paths}
    own = model_of(words, config)
    return own if own in wanted and own is not None else plan.model.reference


def _model_setting(
    name: str, program: Sequence[str], present: Sequence[str], config: Sequence[Argument]
) -> tuple[Setting, ...]:
    """The word for the model; none where only the --config file names it, and names the same."""
    if model_of((*program, *present)) is None and model_of((*program, *present), config) == name:
        return ()
    return (Setting("--model", name),) if program[-1] == MODULE else (Setting(name, None),)


def configured(words: Sequence[str], in_force: InForce | None) -> tuple[Argument, ...]:
    """What the --config file that these words name says, as far as it was seen."""
    path = config_path((NAME, "serve", *words))
    texts = dict(in_force.config_files) if in_force is not None else {}
    return read_config(texts[path]) if path in texts and path is not None else ()


def endpoint(said: Sequence[Argument], config: Sequence[Argument], in_force: InForce | None) -> tuple[str, str]:
    """Host and port in the person's own words; loopback and 8000 where nobody says.

    A running server without --host listens on every address: then that is what its owner has, and it stays.
    """
    host, port = find((*config, *said), "--host"), find((*config, *said), "--port")
    own = urlsplit(in_force.url).port if in_force is not None and in_force.url else None
    silent = "0.0.0.0" if in_force is not None and in_force.user_arguments else DEFAULT_HOST  # noqa: S104 - vLLM's own
    return host.value if host else silent, port.value if port else str(own or DEFAULT_PORT)


def url_of(host: str, port: str) -> str:
    """The URL to reach a listener from this machine."""
    return f"http://{from_here(host, port)}"


def serve_words(command: Sequence[str]) -> tuple[str, ...]:
    """The words that start the server, for a program `vllm` or an interpreter with its module."""
    return tuple(command) if command[-1] == MODULE else (*command, "serve")


def _present(installation: Installation, in_force: InForce | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words that start the program, and the person's arguments after them."""
    if installation.unit is None or in_force is None:
        return serve_words(installation.command), ()
    words = in_force.user_arguments
    if words is None:
        require_open(installation.unit, dict(in_force.unseen).get("unit"))
    length = None if words is None else program_length(words)
    if words is None or length is None:
        raise Misconfigured(
            f"{installation.unit} does not start vllm with words that llmops can keep: "
            f"{f'it starts {words[0]}' if words else 'its ExecStart= holds variables that are not known'}",
            hint="write the command itself, `vllm serve MODEL ...`, into ExecStart= of the unit, then run this again",
        )
    return words[:length], words[length:]


def cached_repository(plan: Plan) -> PurePosixPath | None:
    """`.../hub/models--OWNER--NAME` of a model in a Hugging Face cache."""
    for path in plan.model.source_paths[:1]:
        for parent in PurePosixPath(path).parents:
            if parent.name == "snapshots" and parent.parent.name.startswith("models--"):
                return parent.parent
    return None


def require_usable(installation: Installation) -> None:
    """Raise Misconfigured for a program of which it is known that it does not run."""
    if installation.problem is not None:
        raise Misconfigured(
            f"vllm is installed but cannot be used: {installation.problem}",
            hint=f"make this work first: {' '.join(serve_words(installation.command))} --help",
        )
