"""What identifies a machine or opens a door does not leave it; what explains an engine does."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmops.host import ProcessInfo
from llmops.host.recorded import RecordedHost
from llmops.host.recorder import RecordingHost
from llmops.host.recording import Question, Recording, encode_process
from llmops.host.scrub import REMOVED, Scrubber


@pytest.mark.parametrize(
    ("text", "leaked"),
    [
        ("Environment=HF_TOKEN=hf_0123456789abcdefghij LLAMA_ARG_PORT=1", "hf_0123456789abcdefghij"),
        ('Environment="LLAMA_API_KEY=my secret words" A=1', "my secret words"),
        ("OPENAI_API_KEY='quoted value'", "quoted value"),
        ("ExecStart=/usr/bin/llama-server --api-key abc123 -c 4096", "abc123"),
        ("llama-server --api-key=abc123", "abc123"),
        ('{"api_key": "abc123"}', "abc123"),
        ("Authorization: Bearer abc.def", "abc.def"),
        ("GPU-8f9c1f0e-1234-5678-9abc-def012345678", "8f9c1f0e"),
        ("4c4c4544003857108052b4c04f335731", "4c4c4544003857108052b4c04f335731"),
        ("link/ether 52:54:00:ab:cd:ef", "52:54:00:ab:cd:ef"),
        ("inet 203.0.113.9/24", "203.0.113.9"),
        ("inet6 fe80::5054:ff:feab:cdef", "5054"),
        ("Serial Number: XK-42-77", "XK-42-77"),
        ("Nov 30 node17 llama-server[3]: ready", "node17"),
    ],
)
def test_identifying_text_is_taken_out(text: str, leaked: str) -> None:
    assert leaked not in Scrubber(["node17"]).text(text)


@pytest.mark.parametrize(
    "text",
    [
        "http://127.0.0.1:8080/health",
        "0.0.0.0:8080 and [::1]:8080",
        "n_tokens = 480, tokens per second = 27.7",
        "LLAMA_ARG_CTX_SIZE=8192",
        "llama-server -m /models/a.gguf -np 4 -c 32768 --api-key-file /etc/llmops/key",
        "12:30:45 start",
        "driver 550.54.14",
        "MemTotal:       16384000 kB",
    ],
)
def test_what_explains_an_engine_stays(text: str) -> None:
    assert Scrubber(["node17"]).text(text) == text


def test_equal_values_stay_equal_and_different_ones_different() -> None:
    scrubbed = Scrubber().text("10.0.0.1 10.0.0.2 10.0.0.1").split()
    assert scrubbed[0] == scrubbed[2] != scrubbed[1]


def test_only_listed_variables_keep_their_values() -> None:
    variables = {"PATH": "/bin", "LLAMA_ARG_N_PARALLEL": "4", "LLAMA_API_KEY": "x", "HF_TOKEN": "y", "PROJECT": "z"}
    assert Scrubber().environment(variables) == {
        "PATH": "/bin",
        "LLAMA_ARG_N_PARALLEL": "4",
        "LLAMA_API_KEY": REMOVED,
        "HF_TOKEN": REMOVED,
        "PROJECT": REMOVED,
    }


def test_processes_lose_their_secrets_and_keep_their_settings() -> None:
    argv = ("llama-server", "--api-key", "abc123", "-np", "4")
    process = ProcessInfo(9, 1, "/usr/bin/x", argv, (("HF_TOKEN", "t"), ("LLAMA_ARG_PORT", "8")), 0, None)
    recording = Recording()
    recording.add(Question.of("processes"), [encode_process(process)])
    (found,) = RecordedHost(Scrubber().recording(recording)).processes()
    assert found.argv == ("llama-server", "--api-key", REMOVED, "-np", "4")
    assert found.environment == (("HF_TOKEN", REMOVED), ("LLAMA_ARG_PORT", "8"))


def test_questions_are_scrubbed_like_the_answers_that_name_them() -> None:
    identity = "8f9c1f0e-1234-5678-9abc-def012345678"
    recording = Recording()
    recording.add(Question.of("list_directory", "/dev/disk/by-uuid"), [identity])
    recording.add(Question.of("read_text", f"/dev/disk/by-uuid/{identity}"), "a disk")
    host = RecordedHost(Scrubber().recording(recording))
    (name,) = host.list_directory("/dev/disk/by-uuid")
    assert name != identity
    assert host.read_text(f"/dev/disk/by-uuid/{name}") == "a disk"


def test_files_that_are_only_an_identity_are_emptied(tmp_path: Path) -> None:
    machine = RecordedHost.holding(
        files={"/sys/class/dmi/id/product_serial": "XK4277\n", "/proc/sys/kernel/hostname": "node17\n"}
    )
    recorder = RecordingHost(machine)
    recorder.read_text("/sys/class/dmi/id/product_serial")
    recorder.save(tmp_path)
    assert RecordedHost.load(tmp_path).read_text("/sys/class/dmi/id/product_serial") == REMOVED
