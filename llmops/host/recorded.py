"""A machine that is not here, replayed: recorded as absent is absent, and what was never asked fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from llmops.core.hardware import GpuReading
from llmops.core.serialization import encode
from llmops.host import Completed, FileStatus, ListeningSocket, ProcessInfo, Response, StreamTimings, recording
from llmops.host.recording import Question, Recording


class NeverRecorded(AssertionError):
    """The recording holds no answer to this question, so none may be made up: record the machine again."""


class RecordedHost:
    """A Host that answers from a recording, in recorded order; the last answer to a question is repeated.

    Its clock stands still but for `sleep`, so a loop that waits for a time ends at once.
    """

    def __init__(self, answers: Recording) -> None:
        self._answers = answers
        self._asked: dict[Question, int] = {}
        self._slept_seconds = 0.0

    @classmethod
    def load(cls, directory: Path) -> RecordedHost:
        """Replay a directory that RecordingHost.save wrote; raises UnreadableInput."""
        return cls(Recording.load(directory))

    @classmethod
    def holding(
        cls,
        *,
        files: Mapping[str, str] | None = None,
        absent: Iterable[str] = (),
        commands: Mapping[tuple[str, ...], Completed] | None = None,
        responses: Mapping[str, Response] | None = None,
    ) -> RecordedHost:
        """A machine described by hand: texts of files, paths that are absent, commands, answers to GET by URL."""
        answers = Recording()
        for path, text in (files or {}).items():
            answers.add(Question.of("read_text", path), text)
        for path in absent:
            for ask in ("read_text", "status", "list_directory"):
                answers.add_failure(Question.of(ask, path), FileNotFoundError(2, "No such file or directory"))
        for argv, completed in (commands or {}).items():
            answers.add(Question.of("query", argv), encode(completed))
        for url, response in (responses or {}).items():
            answers.add(Question.of("get", url), encode(response))
        return cls(answers)

    def read_text(self, path: PurePath | str) -> str:
        """The recorded text."""
        return str(self._answer("read_text", str(path)))

    def read_bytes(self, path: PurePath | str, offset: int, length: int) -> bytes:
        """The recorded bytes of exactly this range."""
        return recording.decode_bytes(self._answer("read_bytes", str(path), offset, length))

    def status(self, path: PurePath | str) -> FileStatus:
        """The recorded status."""
        return recording.decode_status(self._answer("status", str(path)))

    def list_directory(self, path: PurePath | str) -> tuple[str, ...]:
        """The recorded names."""
        return tuple(self._answer("list_directory", str(path)))

    def resolve(self, path: PurePath | str) -> str:
        """The recorded target."""
        return str(self._answer("resolve", str(path)))

    def query(self, argv: Sequence[str], *, timeout_seconds: float = 20.0) -> Completed:
        """The recorded end of the command."""
        return recording.decode_completed(self._answer("query", tuple(argv)))

    def which(self, program: str) -> str | None:
        """The recorded path."""
        found = self._answer("which", program)
        return None if found is None else str(found)

    def get(self, url: str, *, timeout_seconds: float = 5.0) -> Response:
        """The recorded answer."""
        return recording.decode_response(self._answer("get", url))

    def post(self, url: str, payload: Mapping[str, object], *, timeout_seconds: float = 300.0) -> Response:
        """The recorded answer to exactly this payload."""
        return recording.decode_response(self._answer("post", url, payload))

    def stream_completion(
        self, url: str, payload: Mapping[str, object], *, timeout_seconds: float = 300.0
    ) -> StreamTimings:
        """The recorded stream for exactly this payload."""
        return recording.decode_stream(self._answer("stream_completion", url, payload))

    def gpus(self) -> GpuReading:
        """The recorded cards."""
        return recording.decode_gpus(self._answer("gpus"))

    def affinity_cpus(self) -> int | None:
        """The recorded count."""
        found = self._answer("affinity_cpus")
        return None if found is None else int(found)

    def processes(self) -> tuple[ProcessInfo, ...]:
        """The recorded processes."""
        return tuple(recording.decode_process(process) for process in self._answer("processes"))

    def listening_sockets(self) -> tuple[ListeningSocket, ...]:
        """The recorded sockets."""
        return tuple(recording.decode_listener(one) for one in self._answer("listening_sockets"))

    def memory_read_seconds(self, buffer_bytes: int, threads: int, passes: int) -> tuple[float, ...]:
        """The recorded times."""
        return tuple(float(one) for one in self._answer("memory_read_seconds", buffer_bytes, threads, passes))

    def effective_uid(self) -> int:
        """The recorded user."""
        return int(self._answer("effective_uid"))

    def environment(self) -> Mapping[str, str]:
        """The recorded environment."""
        return dict(self._answer("environment"))

    def now(self) -> float:
        """The recorded time plus what was slept since."""
        return float(self._answer("now")) + self._slept_seconds

    def monotonic(self) -> float:
        """What was slept."""
        return self._slept_seconds

    def sleep(self, seconds: float) -> None:
        """Move the clock; nothing waits."""
        self._slept_seconds += seconds

    def together(self, jobs: Sequence[Callable[[], StreamTimings]]) -> tuple[StreamTimings, ...]:
        """One after the other: their recorded times already overlap."""
        return tuple(job() for job in jobs)

    def _answer(self, ask: str, *arguments: object) -> Any:
        question = Question.of(ask, *arguments)
        answers = self._answers.answers.get(question)
        if not answers:
            raise NeverRecorded(f"{question} was never asked when this machine was recorded")
        position = min(self._asked.get(question, 0), len(answers) - 1)
        self._asked[question] = position + 1
        recording.raise_failure(answers[position])
        return answers[position]["value"]
