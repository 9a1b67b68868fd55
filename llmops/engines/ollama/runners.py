"""The processes that serve Ollama's loaded models, and what their command lines and Ollama's log say of each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from llmops.engines.found import LoadedModel
from llmops.engines.seeing import whole
from llmops.host import ProcessInfo

# Words of llama-server (llm/llama_server.go, from 0.30) and of Ollama's own runner (llm/server.go, to 0.11.4).
_SLOTS = ("-np", "--parallel")
_CONTEXT = ("-c", "--ctx-size")
_PORT, _MODEL = ("--port",), ("--model",)
# From 0.11.5 to 0.24 the command line names neither; the log does: "load request={... Parallel:2 ... KvSize:8192 ...".
_LOAD = re.compile(r"msg=load request=.*?Operation:commit.*?Parallel:(\d+).*?KvSize:(\d+)")
# The settings in effect, printed at every start: msg="server config" env="map[NAME:value NAME:value]".
_CONFIG = re.compile(r"server config\"? env=\"?map\[(.*)\]")
_PAIR = re.compile(r"([A-Za-z][A-Za-z0-9_]*):(.*?)(?= [A-Za-z][A-Za-z0-9_]*:(?!//)|$)")


@dataclass(frozen=True)
class Runner:
    """One child of the server with a model; `port` answers on loopback."""

    model: LoadedModel
    port: int | None


def runners(pid: int, processes: Sequence[ProcessInfo]) -> tuple[Runner, ...]:
    """The children that serve a model, the one that was started last first."""
    children = [process for process in processes if process.parent_pid == pid]
    return tuple(
        runner
        for child in sorted(children, key=lambda process: process.pid, reverse=True)
        for runner in [_runner(child)]
        if runner.model.model_path is not None and _is_runner(child)
    )


def _is_runner(process: ProcessInfo) -> bool:
    names = {PurePosixPath(word).name for word in process.argv[:2]}
    return "llama-server" in names or ("ollama" in names and "runner" in process.argv[:3])


def _runner(process: ProcessInfo) -> Runner:
    words = process.argv
    slots, context = _number(words, _SLOTS), _number(words, _CONTEXT)
    per_slot = context // slots if slots and context else None
    model = LoadedModel(
        pid=process.pid, model_path=_value(words, _MODEL), slots=slots, context_tokens_per_slot=per_slot
    )
    return Runner(model, _number(words, _PORT))


def _value(words: Sequence[str], flags: Sequence[str]) -> str | None:
    """The last word after one of the flags."""
    said = [words[place + 1] for place, word in enumerate(words[:-1]) if word in flags]
    return said[-1] if said else None


def _number(words: Sequence[str], flags: Sequence[str]) -> int | None:
    value = _value(words, flags) or ""
    return int(value) if re.fullmatch(r"\d{1,9}", value) else None


def told_by_log(model: LoadedModel, lines: Sequence[str]) -> LoadedModel:
    """Slots and context of the model that was loaded last, where its command line does not say them."""
    if model.slots is not None:
        return model
    said = [match.groups() for line in lines if (match := _LOAD.search(line))]
    if not said:
        return model
    slots, total = int(said[-1][0]), int(said[-1][1])
    return replace(model, slots=slots, context_tokens_per_slot=total // slots if slots else None)


def server_config(lines: Sequence[str]) -> tuple[tuple[str, str], ...] | None:
    """The settings that the server printed when it last started; None where the log does not hold that line."""
    said = [match.group(1) for line in lines if (match := _CONFIG.search(line))]
    return tuple(_pairs(said[-1])) if said else None


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for name, value in _PAIR.findall(text):
        yield name, value.strip()


def reported(rows: Sequence[Mapping[str, object]]) -> tuple[LoadedModel, ...]:
    """The rows of /api/ps; nothing in them names the process that serves the model."""
    return tuple(_reported(row) for row in rows)


def _reported(report: Mapping[str, object]) -> LoadedModel:
    return LoadedModel(
        name=str(report.get("name") or report.get("model") or ""),
        size_bytes=whole(report.get("size")),
        gpu_bytes=whole(report.get("size_vram")),
        context_tokens=whole(report.get("context_length")),
    )
