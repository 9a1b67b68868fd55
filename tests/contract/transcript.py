"""Runs the commands of a shell transcript on a machine in memory; `python -m tests.contract.transcript` rewrites it."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from click.testing import CliRunner

from llmops.cli import hosts
from llmops.cli.application import application
from tests.doubles import gguf_files
from tests.unit.cli.machine import Machine

PAGE = Path(__file__).parents[2] / "examples/worked-example.md"
MODEL = "qwen3-8b-f16.gguf"
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def eight_billion_model(directory: Path) -> Path:
    """36 layers with 8 KV heads of 128 in 16 bits, as the article's example has it; the weights are a hole."""
    shape = {"layers": 36, "embedding": 4096, "feed_forward": 12_288, "vocabulary": 151_936}
    lengths = {"attention__key_length": 128, "attention__value_length": 128}
    metadata = gguf_files.model_metadata("qwen3", heads=32, kv_heads=8, context=40_960, **shape, **lengths)
    tensors = gguf_files.model_tensors(
        layers=36, embedding=4096, kv_width=1024, feed_forward=12_288, vocabulary=151_936
    )
    return gguf_files.write(directory / MODEL, metadata, tensors)


@contextlib.contextmanager
def on_a_machine(directory: Path) -> Iterator[Machine]:
    """The command line sees a machine in memory and the files of the directory, nothing of this machine."""
    machine = Machine(disk=directory)
    with (
        mock.patch.object(hosts, "build_host", lambda *_, **__: machine),
        mock.patch.object(hosts, "build_mutable_host", lambda **__: machine),
        mock.patch("llmops.cli.settings.configuration_places", tuple),
    ):
        yield machine


def answer(command: str, directory: Path) -> str:
    """What one line prints; `| jq .a.b[0]` at its end picks a value of the JSON."""
    line, pipe, path = command.replace("\\\n", " ").partition(" | jq ")
    words = shlex.split(line)
    assert words[0] == "llmops", command
    # A name in the current directory is one in the directory of the transcript.
    own = [str(directory / word) if word == MODEL else word for word in words[1:]]
    result = CliRunner().invoke(application, own)
    output = result.stdout + (result.stderr if result.exit_code else "")
    if pipe:
        return json.dumps(_picked(json.loads(output), path.strip().strip("'"))) + "\n"
    return output.replace(f"{directory}/", "")


def _picked(document: object, path: str) -> object:
    for name, place in re.findall(r"\.([a-z_]+)|\[(\d+)\]", path):
        document = document[name] if name else document[int(place)]  # type: ignore[index]
    return document


def renewed(text: str) -> str:
    """The page with every answer as the program gives it today."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        eight_billion_model(directory)
        with on_a_machine(directory):
            return BLOCK.sub(lambda block: f"```console\n{_session(block.group(1), directory)}```", text)


def _session(block: str, directory: Path) -> str:
    commands = re.findall(r"^\$ ((?:.*\\\n)*.*)$", block, re.MULTILINE)
    return "\n".join(f"$ {command}\n{answer(command, directory)}" for command in commands)


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text("utf-8")), "utf-8")
