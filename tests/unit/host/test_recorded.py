"""Recording a machine, saving it, loading it and asking again gives the same answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from llmops.core.errors import UnreadableInput
from llmops.core.hardware import Gpu, GpuProcess, GpuReading
from llmops.host import Completed, Host, ListeningSocket, ProcessInfo, Response, StreamTimings
from llmops.host.local import LocalHost
from llmops.host.recorded import NeverRecorded, RecordedHost
from llmops.host.recorder import RecordingHost

STREAM = StreamTimings(5.0, 200, 0.1, ((0.2, '{"choices": []}'), (0.3, "{}")), 0.4, None)
CARD = Gpu(0, None, "a card", 24, 20, (8, 6), processes=(GpuProcess(7, None),))


class Machine(LocalHost):
    """This machine's files, and invented answers to everything that a unit test may not really do."""

    polls = 0

    def query(self, argv: object, *, timeout_seconds: float = 20.0) -> Completed:
        if argv == ("absent",):
            raise FileNotFoundError(2, "No such file or directory", "absent")
        if argv == ("slow",):
            raise TimeoutError("slow did not end within 20 s")
        return Completed(("uname", "-r"), 3, "6.1\n", "warning\n")

    def get(self, url: str, *, timeout_seconds: float = 5.0) -> Response:
        self.polls += 1
        if url.endswith(":1/"):
            raise ConnectionRefusedError(f"{url}: Connection refused")
        return Response(503 if self.polls < 3 else 200, "{}", {"Server": "llama.cpp"})

    def post(self, url: str, payload: object, *, timeout_seconds: float = 300.0) -> Response:
        return Response(200, json.dumps(payload), {})

    def stream_completion(self, url: str, payload: object, *, timeout_seconds: float = 300.0) -> StreamTimings:
        return STREAM

    def together(self, jobs: object) -> tuple[StreamTimings, ...]:
        return tuple(job() for job in jobs)  # type: ignore[attr-defined]

    def gpus(self) -> GpuReading:
        return GpuReading("ok", "one card", (CARD,), "550.1")

    def processes(self) -> tuple[ProcessInfo, ...]:
        return (ProcessInfo(9, 1, "/usr/bin/x", ("x", "-np", "2"), (("LLAMA_ARG_CTX_SIZE", "8"),), 0, "/init.scope"),)

    def listening_sockets(self) -> tuple[ListeningSocket, ...]:
        return (ListeningSocket("127.0.0.1", 8080, None),)

    def environment(self) -> dict[str, str]:
        return {"PATH": "/usr/bin", "HF_TOKEN": "hf_abcdefghijklmnopqrstu"}

    def memory_read_seconds(self, buffer_bytes: int, threads: int, passes: int) -> tuple[float, ...]:
        return (0.5, 0.25)


def ask_everything(host: Host, directory: Path) -> list[object]:
    """Every question that a Host can be asked, failures included."""

    def failure(ask: Callable[[], object]) -> object:
        with pytest.raises(OSError) as found:
            ask()
        return type(found.value), found.value.errno

    text, absent = directory / "text.conf", directory / "absent"
    return [
        host.read_text(str(text)),
        host.read_bytes(str(text), 2, 5),
        host.status(str(text)),
        host.list_directory(str(directory)),
        host.resolve(str(directory / "link")),
        failure(lambda: host.read_text(str(absent))),
        failure(lambda: host.status(str(absent))),
        failure(lambda: host.list_directory(str(text))),
        host.query(("uname", "-r")),
        failure(lambda: host.query(("absent",))),
        failure(lambda: host.query(("slow",))),
        host.which("no-such-program-anywhere"),
        [host.get("http://127.0.0.1:8080/health").status for _ in range(4)],
        failure(lambda: host.get("http://127.0.0.1:1/")),
        host.post("http://127.0.0.1:8080/tokenize", {"content": "a b"}),
        host.together([lambda: host.stream_completion("http://127.0.0.1:8080/x", {"n": 1})] * 2),
        host.gpus(),
        host.affinity_cpus(),
        host.processes(),
        host.listening_sockets(),
        host.memory_read_seconds(10, 2, 2),
        host.effective_uid(),
        host.environment()["PATH"],
        host.now(),
    ]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with one text file, one link and nothing called absent."""
    inside = tmp_path / "machine"
    inside.mkdir()
    (inside / "text.conf").write_text("one\r\ntwo ümlaut\n", newline="")
    (inside / "link").symlink_to(inside / "text.conf")
    return inside


def test_a_saved_and_loaded_recording_gives_the_same_answers(directory: Path, tmp_path: Path) -> None:
    recorder = RecordingHost(Machine())
    live = ask_everything(recorder, directory)
    recorder.save(tmp_path / "recording")
    replayed = ask_everything(RecordedHost.load(tmp_path / "recording"), directory)
    assert replayed == live
    assert live[12] == [503, 503, 200, 200], "answers that change must be replayed in their order"


def test_a_recording_of_a_replay_is_the_same_recording(directory: Path, tmp_path: Path) -> None:
    recorder = RecordingHost(Machine())
    ask_everything(recorder, directory)
    recorder.save(tmp_path / "one")
    again = RecordingHost(RecordedHost.load(tmp_path / "one"))
    ask_everything(again, directory)
    again._host = Machine()  # save asks the machine for its name, which a replay was never asked
    again.save(tmp_path / "two")
    assert (tmp_path / "one/recording.json").read_text() == (tmp_path / "two/recording.json").read_text()


def test_what_was_never_asked_is_an_assertion_error_and_not_an_absence() -> None:
    host = RecordedHost.holding(files={"/proc/meminfo": "MemTotal: 1 kB\n"}, absent=["/sys/fs/cgroup"])
    assert host.read_text("/proc/meminfo") == "MemTotal: 1 kB\n"
    with pytest.raises(FileNotFoundError):
        host.list_directory("/sys/fs/cgroup")
    with pytest.raises(NeverRecorded, match="/proc/swaps"):
        host.read_text("/proc/swaps")
    assert issubclass(NeverRecorded, AssertionError)


def test_the_clock_of_a_replay_moves_only_by_sleep() -> None:
    host = RecordedHost.holding()
    start = host.monotonic()
    host.sleep(30.0)
    assert host.monotonic() - start == 30.0


def test_recorded_files_can_be_read_by_a_person(directory: Path, tmp_path: Path) -> None:
    recorder = RecordingHost(LocalHost())
    recorder.read_text(directory / "text.conf")
    recorder.save(tmp_path / "recording")
    kept = tmp_path / "recording" / "files" / str(directory / "text.conf").lstrip("/")
    assert kept.read_bytes() == (directory / "text.conf").read_bytes()


def naming(place: str) -> str:
    """A recording whose one answer lies in a file."""
    entry = {"ask": "read_text", "arguments": ["/a"], "answers": [{"file": place}]}
    return json.dumps({"schema": 1, "answers": [entry]})


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("", "is not JSON"),
        ("[]", "is not a recording of schema 1"),
        ('{"schema": 2, "answers": []}', "is not a recording of schema 1"),
        ('{"schema": 1, "answers": {}}', "holds no list of answers"),
        ('{"schema": 1, "answers": [{}]}', "an answer without"),
        (naming("../../etc/passwd"), "outside the recording"),
        (naming("files/gone"), "No such file"),
    ],
)
def test_a_broken_recording_is_unreadable_input(document: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "recording.json").write_text(document)
    with pytest.raises(UnreadableInput, match=words):
        RecordedHost.load(tmp_path)


def test_an_absent_recording_is_unreadable_input(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="No such file"):
        RecordedHost.load(tmp_path / "nowhere")
