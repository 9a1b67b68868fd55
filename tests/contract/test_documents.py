"""What the documents tell people to type exists: commands, options, make targets, files behind links."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from llmops.cli.application import COMMANDS, application
from llmops.cli.option_table import FIXED, LOAD, MACHINE, POLICY, SUBJECT
from llmops.core import errors
from tools.command_reference import TARGET, reference

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md"), *REPOSITORY.glob("examples/**/*.md")],
    key=str,
)
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")
SPAN = re.compile(r"`([^`\n]+)`")
OPTION = re.compile(r"--?[A-Za-z][\w-]*")
PREFIXES = re.compile(r"^(\$ |# )?(sudo )?")
OF_THE_GROUP = {"--version", "--help", "-h"}


def phrases(text: str) -> Iterator[str]:
    """What stands in a code span, or on a line of a fenced block (continuation lines joined)."""
    fenced = False
    outside: list[str] = []
    block: list[str] = []
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
            if not fenced:
                yield from "\n".join(block).replace("\\\n", " ").splitlines()
                block = []
        else:
            (block if fenced else outside).append(line)
    for line in outside:
        yield from SPAN.findall(line)


def typed(program: str) -> list[tuple[str, list[str]]]:
    """Page and words of everything in the documents that starts this program."""
    found = []
    for page in PAGES:
        for phrase in phrases(page.read_text(encoding="utf-8")):
            words = shlex.split(PREFIXES.sub("", phrase.strip()), comments=True) if program in phrase else []
            if words and words[0] == program:
                found.append((page.name, words[1:]))
    return found


def known_options(name: str) -> set[str]:
    command = application.get_command(click.Context(application), name)
    assert command is not None
    options = {"-h", "--help"}
    for parameter in command.params:
        options.update((*parameter.opts, *parameter.secondary_opts))
    return options


@pytest.mark.parametrize(
    ("page", "words"), typed("llmops"), ids=lambda value: value if isinstance(value, str) else " ".join(value)
)
def test_commands_in_the_documents_exist(page: str, words: list[str]) -> None:
    while words and words[0] in {"--debug", "-v", "--verbose"}:
        words = words[1:]
    verb = words[0] if words else "--help"
    assert verb in COMMANDS or verb in OF_THE_GROUP | {"COMMAND", "NAME"}, f"{page}: llmops {verb}"
    if verb in COMMANDS:
        before_a_pipe = words[1 : words.index("|")] if "|" in words else words[1:]
        given = {word.split("=")[0] for word in before_a_pipe if OPTION.fullmatch(word.split("=")[0])}
        assert given <= known_options(verb), f"{page}: llmops {' '.join(words)}"


@pytest.mark.parametrize(
    ("page", "words"), typed("make"), ids=lambda value: value if isinstance(value, str) else " ".join(value)
)
def test_make_targets_in_the_documents_exist(page: str, words: list[str]) -> None:
    targets = re.findall(r"^([a-z]+):", (REPOSITORY / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    asked = [word for word in words if "=" not in word]
    assert set(asked) <= set(targets), page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_to_files(page: Path) -> None:
    missing = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / link).exists()]
    assert missing == []


def test_readme_names_both_commands_of_the_set_up() -> None:
    targets = {word for page, words in typed("make") if page == "README.md" for word in words}
    assert {"demo", "test", "wheel"} <= targets


def test_command_reference_is_the_help_of_today() -> None:
    # Spaces and line ends are those of the click that is installed, so only the words are compared.
    assert TARGET.read_text(encoding="utf-8").split() == reference().split(), "run `make docs`"


def test_every_key_of_the_configuration_file_is_explained() -> None:
    page = (REPOSITORY / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
    keys = [option.name for option in (*SUBJECT, *LOAD, *FIXED, *POLICY, *MACHINE)]
    assert len(keys) > 20
    assert [key for key in keys if f"`{key}`" not in page] == []


def all_errors(root: type[errors.LlmopsError]) -> Iterator[type[errors.LlmopsError]]:
    yield root
    for child in root.__subclasses__():
        yield from all_errors(child)


def test_every_exit_code_and_its_word_is_explained() -> None:
    page = (REPOSITORY / "docs" / "reference" / "exit-codes.md").read_text(encoding="utf-8")
    for error in all_errors(errors.LlmopsError):
        assert f"`{error.code}`" in page, error
        assert re.search(rf"\b{error.exit_code}\b", page), error
