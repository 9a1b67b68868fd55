"""What a machine answered: every question with its answers in order, as plain JSON values, in a directory on disk."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from llmops.core.errors import UnreadableInput
from llmops.core.hardware import GpuReading
from llmops.core.serialization import decode, encode
from llmops.host import Completed, FileStatus, ListeningSocket, ProcessInfo, Response, StreamTimings

SCHEMA = 1
_AGAIN = "copy the whole directory again, or record the machine again with this llmops: llmops snapshot DIR"
INDEX_NAME = "recording.json"
FILES_NAME = "files"
T = TypeVar("T")
# The failures that callers of a Host tell apart; any other OSError comes back as OSError with its number.
_FAILURES: dict[str, type[OSError]] = {
    kind.__name__: kind
    for kind in (
        FileNotFoundError,
        PermissionError,
        NotADirectoryError,
        IsADirectoryError,
        ProcessLookupError,
        TimeoutError,
        ConnectionRefusedError,
        ConnectionError,
    )
}


@dataclass(frozen=True, order=True)
class Question:
    """A method of Host and its arguments as canonical JSON, time limits left out."""

    ask: str
    arguments: str

    @classmethod
    def of(cls, ask: str, *arguments: object) -> Question:
        """Arguments must be JSON values, tuples or mappings."""
        return cls(ask, json.dumps(encode(arguments), sort_keys=True, ensure_ascii=False))

    def __str__(self) -> str:
        return f"{self.ask}({self.arguments[1:-1]})"


@dataclass
class Recording:
    """Answers by question, in the order in which they were given: {"value": ...} or {"error": ..., ...} each."""

    answers: dict[Question, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, question: Question, value: object) -> None:
        """Keep one answer."""
        self.answers.setdefault(question, []).append({"value": value})

    def add_failure(self, question: Question, failure: OSError) -> None:
        """Keep that the question failed, and how."""
        kind = next((name for name, known in _FAILURES.items() if isinstance(failure, known)), "OSError")
        message = failure.strerror or str(failure)
        entry = {"error": kind, "errno": failure.errno, "message": message}
        self.answers.setdefault(question, []).append(entry)

    def save(self, directory: Path) -> None:
        """Write recording.json, and every text file that was read once under files/ so that a person can read it."""
        directory.mkdir(parents=True, exist_ok=True)
        entries = [_entry_on_disk(directory, *item) for item in sorted(self.answers.items(), key=lambda item: item[0])]
        document = {"schema": SCHEMA, "answers": entries}
        (directory / INDEX_NAME).write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", "utf-8")

    @classmethod
    def load(cls, directory: Path) -> Recording:
        """Read what `save` wrote; raises UnreadableInput for anything else."""
        recording = cls()
        for entry in _entries(directory / INDEX_NAME):
            try:
                question = Question.of(entry["ask"], *entry["arguments"])
                recording.answers[question] = [_from_disk(directory, answer) for answer in _unrolled(entry["answers"])]
            except (KeyError, TypeError, AttributeError) as problem:
                raise UnreadableInput(
                    f"{directory / INDEX_NAME}: an answer without {problem}", hint=_AGAIN
                ) from problem
        return recording


def raise_failure(answer: Mapping[str, Any]) -> None:
    """Raise the error that an answer stands for; nothing for an answer with a value."""
    if "error" in answer:
        kind = _FAILURES.get(answer["error"], OSError)
        message = str(answer.get("message", ""))
        raise kind(message) if answer.get("errno") is None else kind(answer["errno"], message)


def encode_bytes(value: bytes) -> object:
    """Bytes as base64 text."""
    return base64.b64encode(value).decode("ascii")


def decode_bytes(value: object) -> bytes:
    """What `encode_bytes` made; ValueError for anything else."""
    return base64.b64decode(str(value), validate=True)


def encode_environment(environment: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Variables as an object."""
    return dict(environment)


def encode_process(process: ProcessInfo) -> dict[str, Any]:
    """A process with its environment as an object, which scrubbing understands."""
    pairs = process.environment
    return {**encode(process), "environment": None if pairs is None else encode_environment(pairs)}


def decode_process(value: Any) -> ProcessInfo:
    """What `encode_process` made."""
    variables = value["environment"]
    pairs = None if variables is None else [[name, text] for name, text in variables.items()]
    return decode(ProcessInfo, {**value, "environment": pairs}, "process")


def decode_response(value: Any) -> Response:
    """What `encode` made of a Response."""
    return Response(int(value["status"]), str(value["body"]), dict(value.get("headers", {})))


def _decoder(wanted: type[T]) -> Callable[[Any], T]:
    return lambda value: decode(wanted, value, wanted.__name__)


decode_status = _decoder(FileStatus)
decode_completed = _decoder(Completed)
decode_stream = _decoder(StreamTimings)
decode_gpus = _decoder(GpuReading)
decode_listener = _decoder(ListeningSocket)


def _entries(index: Path) -> list[Any]:
    try:
        document = json.loads(index.read_text("utf-8"))
    except OSError as problem:
        raise UnreadableInput(
            f"{index}: {problem.strerror}", hint="`llmops snapshot DIR` makes a recording"
        ) from problem
    except ValueError as problem:
        raise UnreadableInput(f"{index} is not JSON: {problem}", hint=_AGAIN) from problem
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise UnreadableInput(f"{index} is not a recording of schema {SCHEMA}", hint=_AGAIN)
    answers = document.get("answers")
    if not isinstance(answers, list):
        raise UnreadableInput(f"{index} holds no list of answers", hint=_AGAIN)
    return answers


def _entry_on_disk(directory: Path, question: Question, answers: list[dict[str, Any]]) -> dict[str, Any]:
    rolled = _rolled(answers)
    arguments = json.loads(question.arguments)
    if question.ask == "read_text" and len(rolled) == 1 and "value" in rolled[0]:
        place = _place(directory, f"{FILES_NAME}{arguments[0]}")
        if place is not None:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(rolled[0]["value"].encode("utf-8"))
            rolled = [{"file": str(place.relative_to(directory)), "times": rolled[0]["times"]}]
    return {"ask": question.ask, "arguments": arguments, "answers": rolled}


def _from_disk(directory: Path, answer: dict[str, Any]) -> dict[str, Any]:
    if "file" not in answer:
        return answer
    place = _place(directory, answer["file"])
    if place is None:
        raise UnreadableInput(
            f"{directory / INDEX_NAME} names {answer['file']!r}, which is outside the recording", hint=_AGAIN
        )
    try:
        return {"value": place.read_bytes().decode("utf-8", errors="replace")}
    except OSError as problem:
        raise UnreadableInput(f"{place}: {problem.strerror}", hint=_AGAIN) from problem


def _place(directory: Path, name: str) -> Path | None:
    """Where a recorded file lies, or None for a name that would leave the directory."""
    place = directory / name.lstrip("/")
    return place if place.resolve().is_relative_to(directory.resolve()) else None


def _rolled(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Equal answers in a row become one with a count."""
    rolled: list[dict[str, Any]] = []
    for answer in answers:
        if rolled and {**rolled[-1], "times": 1} == {**answer, "times": 1}:
            rolled[-1]["times"] += 1
        else:
            rolled.append({**answer, "times": 1})
    return rolled


def _unrolled(rolled: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    for entry in rolled:
        answer = {name: value for name, value in entry.items() if name != "times"}
        # A hand-edited count must not fill the memory.
        yield from (dict(answer) for _ in range(min(int(entry.get("times", 1)), 100_000)))
