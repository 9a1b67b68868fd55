"""llmops.yaml: what is read, and how precisely what is wrong is named."""

from __future__ import annotations

import pytest

from llmops.cli.option_table import CONFIGURABLE
from llmops.configuration import OptionSpec, ValueKind, read_configuration, read_value
from llmops.core.errors import UnreadableInput, UsageError


def read(text: str) -> dict[str, object]:
    return {name: value.value for name, value in read_configuration(text, "llmops.yaml", CONFIGURABLE).items()}


def test_every_kind_of_value_is_read_in_base_units() -> None:
    text = """\
# who uses it
users: 12
workload: rag
turn-seconds: 45
wait-probability: 0.2
ram: 8GiB
bandwidth: 20GB/s
model: /models/a.gguf
gpu: [A:24GiB, B:12GiB]
kv-unified: false
flash-attn: on
engine-version: "11434"
"""
    assert read(text) == {
        "users": 12,
        "workload": "rag",
        "turn-seconds": 45.0,
        "wait-probability": 0.2,
        "ram": 8 * 1024**3,
        "bandwidth": 20_000_000_000,
        "model": ("/models/a.gguf",),
        "gpu": ("A:24GiB", "B:12GiB"),
        "kv-unified": False,
        "flash-attn": "on",
        "engine-version": "11434",
    }


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n"])
def test_an_empty_file_gives_nothing(text: str) -> None:
    assert read(text) == {}


def test_a_value_knows_its_place() -> None:
    found = read_configuration("# first\nusers: 3\n", "f", CONFIGURABLE)["users"]
    assert (found.line, found.column) == (2, 1)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("users: 3\nuser: 4\n", "llmops.yaml:2:1", "unknown key 'user'"),
        ("users: many\n", "llmops.yaml:1:1", "users: expected a whole number, found 'many'"),
        ("users: 2.5\n", "llmops.yaml:1:1", "expected a whole number, found 2.5"),
        ("users: true\n", "llmops.yaml:1:1", "expected a whole number, found True"),
        ("users: 0\n", "llmops.yaml:1:1", "0 is too small: the least is 1"),
        ("users:\n", "llmops.yaml:1:1", "found nothing"),
        ("users: 1,5\n", "llmops.yaml:1:1", "expected a whole number, found '1,5'"),
        ("gpu:\n  - a:24GiB\n  - RTX\n", "llmops.yaml:1:1", "gpu: 'RTX' is not NAME:TOTAL"),
        ("turn-seconds: .inf\n", "llmops.yaml:1:1", "expected a number"),
        ("turn-seconds: -1\n", "llmops.yaml:1:1", "more than 0"),
        ("wait-probability: 1\n", "llmops.yaml:1:1", "less than 1"),
        ("workload: party\n", "llmops.yaml:1:1", "'party' is not one of chat, rag, agent, batch"),
        ("workload: [chat]\n", "llmops.yaml:1:1", "is not one of"),
        ("ram: 8 parsecs\n", "llmops.yaml:1:1", "'8 parsecs' is not a size"),
        ("ram: [1]\n", "llmops.yaml:1:1", "expected a size"),
        ("bandwidth: 20\n", "llmops.yaml:1:1", "expected a rate"),
        ("bandwidth: 20GB\n", "llmops.yaml:1:1", "is not a rate"),
        ("no-gpu: 1\n", "llmops.yaml:1:1", "expected true or false, found 1"),
        ("engine-version: 0.30\n", "llmops.yaml:1:1", "expected a text"),
        ("model: ''\n", "llmops.yaml:1:1", "found nothing"),
        ("model: [a, {b: c}]\n", "llmops.yaml:1:1", "expected a text"),
        ("users: 3\nusers: 4\n", "llmops.yaml:2:1", "the same key stands twice"),
        ("users: [3\n", "llmops.yaml:2:1", "not valid YAML"),
        ("users: 3\n\tworkload: chat\n", "llmops.yaml:2:1", "not valid YAML"),
        ("- users\n", "llmops.yaml:1:1", "expected lines of the form"),
        ("just words\n", "llmops.yaml:1:1", "expected lines of the form"),
        ("1: 2\n", "llmops.yaml:1:1", "unknown key 1"),
        ("users: !!python/object:os.system x\n", "llmops.yaml:1:1", "expected a whole number"),
        ("a: \x00\n", "llmops.yaml", "not valid YAML"),
        ("users: 3\n---\nusers: 4\n", "llmops.yaml:", "not valid YAML"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, place: str, words: str) -> None:
    with pytest.raises(UnreadableInput) as caught:
        read(text)
    assert caught.value.message.startswith(place)
    assert words in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(("key", "meant"), [("user", "users"), ("cache_type", "cache-type")])
def test_a_misspelled_key_gets_a_suggestion(key: str, meant: str) -> None:
    with pytest.raises(UnreadableInput) as caught:
        read(f"{key}: 1\n")
    assert caught.value.hint == f"did you mean {meant!r}?"


def test_deep_nesting_is_an_error_and_no_crash() -> None:
    with pytest.raises(UnreadableInput):
        read("users: " + "[" * 5000)


@pytest.mark.parametrize(("raw", "value"), [("8192", 8192), ("8,192", 8192), ("1,048,576", 1_048_576)])
def test_thousands_may_be_separated(raw: str, value: int) -> None:
    assert read_value(OptionSpec("context", ValueKind.INTEGER, ""), raw) == value


def test_a_text_of_the_command_line_is_checked_like_a_value_of_the_file() -> None:
    with pytest.raises(UsageError, match="the least is 1"):
        read_value(CONFIGURABLE["users"], "-4")
