"""The embedded server's command line: what it takes, what it refuses, what its help looks like."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmops.embedded.command_line import RefusedArgument, read_command_line
from llmops.embedded.help import help_text
from llmops.embedded.options import OPTIONS
from llmops.embedded.values import EnumMember


def test_values_become_settings() -> None:
    line = "-m a.gguf -np 4 -c 8192 -ctk q8_0 -fa on -ngl all -lm mmap+mlock -fit off --port 9000"
    assert read_command_line(line.split()).settings == {
        "model.path": "a.gguf",
        "n_parallel": 4,
        "n_ctx": 8192,
        "cache_type_k": EnumMember("ggml_type", "GGML_TYPE_Q8_0"),
        "flash_attn_type": EnumMember("llama_flash_attn_type", "LLAMA_FLASH_ATTN_TYPE_ENABLED"),
        "n_gpu_layers": -2,
        "load_mode": EnumMember("llama_load_mode", "LLAMA_LOAD_MODE_MMAP_MLOCK"),
        "fit_params": False,
        "port": 9000,
    }


@pytest.mark.parametrize(
    ("word", "attribute", "value"),
    [
        ("-kvu", "kv_unified", True),
        ("--no-kv-unified", "kv_unified", False),
        ("-nr", "@repack", False),
        ("--repack", "@repack", True),
        ("--no-warmup", "warmup", False),
        ("--no-slots", "endpoint_slots", False),
        ("--swa-full", "swa_full", True),
        ("--swa_full", "swa_full", True),
        ("--help", "@help", True),
    ],
)
def test_switches(word: str, attribute: str, value: bool) -> None:
    assert read_command_line([word]).settings == {attribute: value}


def test_last_of_several_wins_and_is_said() -> None:
    command_line = read_command_line(["-np", "2", "--parallel", "8"])
    assert command_line.settings == {"n_parallel": 8}
    assert command_line.repeated == ("--parallel",)


@pytest.mark.parametrize("word", ["--no-mmap", "--mlock", "--parallel=2", "-kv_unified", "word", "", "--no-metrics"])
def test_unknown_words_are_refused_in_the_words_of_the_binary(word: str) -> None:
    with pytest.raises(RefusedArgument, match=r"^error: invalid argument: ") as refusal:
        read_command_line([word])
    assert str(refusal.value) == f"error: invalid argument: {word}"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["-np"], "expected value for argument"),
        (["-np", "0"], "0 slots cannot serve"),
        (["-c", "8k"], "'8k' is not a whole number"),
        (["-c", "-1"], "-1 is not in 0 .. 2147483647"),
        (["--port", "65536"], "65536 is not in 0 .. 65535"),
        (["-ctv", "q3_0"], "'q3_0' is not one of f32, f16"),
        (["-fa", "yes"], "'yes' is not one of on, off, auto"),
        (["--host", ","], "at least one name is needed"),
        (["--api-key-file", "/no/such/file"], "/no/such/file: No such file or directory"),
    ],
)
def test_impossible_values_name_the_flag_and_show_its_help(words: list[str], why: str) -> None:
    with pytest.raises(RefusedArgument) as refusal:
        read_command_line(words)
    text = str(refusal.value)
    assert text.startswith(f'error while handling argument "{words[0]}": {why}')
    assert "\nusage:\n" in text
    assert words[0] in text.partition("usage:")[2]


def test_any_negative_slot_count_is_automatic() -> None:
    assert read_command_line(["-np", "-7"]).settings == {"n_parallel": -1}


def test_api_keys_are_read_from_their_file(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("# people\nfirst\n\n second \n")
    assert read_command_line(["--api-key-file", str(keys)]).settings == {"api_keys": ("first", "second")}


def test_no_spelling_belongs_to_two_options() -> None:
    spellings = [name for option in OPTIONS for name in (*option.names, *option.off)]
    assert len(spellings) == len(set(spellings))


def test_help_explains_every_spelling_beside_or_below_it() -> None:
    lines = help_text().splitlines()
    for option in OPTIONS:
        position = next(n for n, line in enumerate(lines) if line.startswith(option.names[0]))
        header = lines[position]
        assert all(name in header for name in (*option.names, *option.off))
        explained = header if len(header) > 40 and header[39] == " " else lines[position + 1]
        assert explained[40:].split()[0] == option.description.split()[0]
