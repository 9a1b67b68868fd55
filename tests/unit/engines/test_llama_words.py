"""Help texts and command lines of llama-server, in every spelling that people use."""

from __future__ import annotations

import pytest

from llmops.core.version import Version
from llmops.engines.llama_server import options
from llmops.engines.llama_server.arguments import (
    canonical_flag,
    find,
    modernised,
    program_length,
    read_arguments,
    value_of,
    without,
)
from llmops.engines.llama_server.help import read_devices, read_help, read_version
from tests.unit.engines.llama_host import NEW_HELP, OLD_HELP

KNOWN = read_help(NEW_HELP)


def test_every_spelling_of_the_help_is_known() -> None:
    assert {"-hf", "-hfr", "--hf-repo", "-ctxcp", "--swa-checkpoints", "-no-kvu", "--no-repack"} <= KNOWN.flags


def test_removed_options_are_not_known() -> None:
    assert not {"--draft", "--draft-max"} & KNOWN.flags
    assert "--spec-draft-n-max" in KNOWN.flags


def test_values_are_told_from_explanations() -> None:
    assert {"-c", "--ctx-size", "--flash-attn", "--gpu-layers", "-hf", "--ctx-checkpoints"} <= KNOWN.valued
    assert not {"--metrics", "--swa-full", "--version", "--kv-unified", "-cb", "--jinja"} & KNOWN.valued
    assert "--flash-attn" not in read_help(OLD_HELP).valued


def test_a_text_that_is_no_help_knows_nothing() -> None:
    assert read_help("error: cannot open\n  -- nothing\n---- no option\n").flags == frozenset()


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("version: 9265 (abc1234)\nbuilt with GNU", Version((9265,))),
        ("ggml_cuda_init: found 1 device\nversion: 0.6.0-dev (build 11434, commit abc1234)", Version((11434,))),
        ("version: 0.6.0-dev (build 0, commit unknown)", None),
        ("version: 0 (unknown)", None),
    ],
)
def test_both_layouts_of_the_version(text: str, version: Version | None) -> None:
    found, words = read_version(text)
    assert found == version
    assert words is not None
    assert words in text


def test_no_version_in_the_text() -> None:
    assert read_version("llama-server: not found") == (None, None)


def test_devices() -> None:
    assert read_devices("Available devices:\n  (none)\n") == ()
    assert read_devices("Available devices:\n  CUDA0: NVIDIA L4 (22574 MiB, 22000 MiB free)\n") == (
        "CUDA0: NVIDIA L4 (22574 MiB, 22000 MiB free)",
    )
    assert read_devices("error: invalid argument") is None


@pytest.mark.parametrize(
    "words",
    [("-c", "4096"), ("--ctx-size", "4096"), ("--ctx_size", "4096"), ("--ctx-size=4096",), ("--ctx_size=4096",)],
)
def test_one_option_in_every_spelling(words: tuple[str, ...]) -> None:
    arguments = read_arguments(words, KNOWN.flags, KNOWN.valued)
    assert value_of(arguments, options.CONTEXT) == "4096"
    assert without(arguments, [options.CONTEXT]) == ()


def test_the_last_word_wins_and_contradictions_go_together() -> None:
    arguments = read_arguments(("-kvu", "-np", "1", "-np", "4", "--no-kv-unified"), KNOWN.flags, KNOWN.valued)
    assert value_of(arguments, options.SLOTS) == "4"
    unified = find(arguments, options.KV_UNIFIED)
    assert unified is not None
    assert unified.flag == "--no-kv-unified"
    assert without(arguments, [options.SLOTS, options.KV_UNIFIED]) == ()


def test_negative_numbers_and_flags_without_values() -> None:
    words = ("--metrics", "--predict", "-1", "--jinja", "-fa", "--alias", "-odd name", "lone")
    arguments = read_arguments(words, KNOWN.flags, KNOWN.valued)
    assert [(one.flag, one.values) for one in arguments] == [
        ("--metrics", ()), ("--predict", ("-1",)), ("--jinja", ()), ("-fa", ()), ("--alias", ("-odd name",)),
        ("", ("lone",)),
    ]  # fmt: skip
    assert tuple(word for one in arguments for word in one.words) == words


def test_two_words_of_one_option() -> None:
    arguments = read_arguments(("--control-vector-layer-range", "1", "9", "-c", "512"), KNOWN.flags, KNOWN.valued)
    assert arguments[0].values == ("1", "9")
    assert value_of(arguments, options.CONTEXT) == "512"


def test_without_a_help_the_shape_of_the_words_decides() -> None:
    arguments = read_arguments(("--unheard-of", "--alias", "name", "-fa", "-np", "3"))
    assert [one.values for one in arguments] == [(), ("name",), (), ("3",)]


@pytest.mark.parametrize(
    ("words", "length"),
    [
        (("/opt/x/llama-server", "-m", "x"), 1),
        (("taskset", "-c", "0-3", "/usr/bin/llama-server", "-c", "1"), 4),
        (("/usr/bin/env", "A=b", "llama-server"), 3),
        (("/venv/bin/python", "-m", "llmops.embedded", "-m", "x"), 3),
        (("/bin/sh", "-c", "exec llama-server -m x"), None),
        (("/usr/local/bin/start-llama",), None),
        ((), None),
    ],
)
def test_where_the_program_ends(words: tuple[str, ...], length: int | None) -> None:
    assert program_length(words) == length


def test_canonical_flags() -> None:
    assert canonical_flag("--cache_type_k=q8_0") == "--cache-type-k"
    assert canonical_flag("-no_kvu") == "-no_kvu"


def test_removed_words_are_translated_and_unknown_ones_kept() -> None:
    arguments = read_arguments(("--draft-max", "8", "--own-flag", "7", "--alias", "x"), KNOWN.flags, KNOWN.valued)
    kept, warnings = modernised(arguments, KNOWN.flags)
    assert [one.words for one in kept] == [("--spec-draft-n-max", "8"), ("--own-flag", "7"), ("--alias", "x")]
    assert len(warnings) == 2
    assert "--spec-draft-n-max" in warnings[0]
    assert "--own-flag" in warnings[1]
