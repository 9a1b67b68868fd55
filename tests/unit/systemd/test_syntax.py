"""Reading unit files the way systemd reads them."""

from __future__ import annotations

import pytest

from llmops.systemd import (
    UnitFile,
    assignments,
    command,
    environment_file_pairs,
    environment_pairs,
    split_words,
    values,
)
from llmops.systemd.syntax import literal, variables_in

UNIT = "llama-server@one.service"


def test_continued_lines_skip_comments_between_them() -> None:
    text = "[Service]\nExecStart=/bin/a \\\n# not part of it\n; nor this\n  --b \\\n  --c\n\nUser=x\n"
    found = [(entry.section, entry.key, split_words(entry.value)) for entry in assignments(text)]
    assert found == [("Service", "ExecStart", ("/bin/a", "--b", "--c")), ("Service", "User", ("x",))]


def test_an_escaped_backslash_at_the_end_continues_nothing() -> None:
    text = "[Service]\nEnvironment=A=x\\\\\nUser=a \\\n b\n"
    assert [(one.key, one.value) for one in assignments(text)] == [("Environment", "A=x\\\\"), ("User", "a  b")]


def test_a_line_that_is_not_utf_8_is_ignored_as_systemd_does() -> None:
    text = "[Service]\nUser=a\nExecStart=/bin/a m\ufffd\nGroup=b\n"
    assert [one.key for one in assignments(text)] == ["User", "Group"]


def test_the_words_of_a_command_as_they_are_written() -> None:
    said = command('-@/bin/a shown "two words" %i $EXTRA x${ONE}y $$', UNIT, {"EXTRA": "", "ONE": "1"})
    assert said.written == ("/bin/a", "two words", "%i", "$EXTRA", "x${ONE}y", "$$")
    assert command(":/bin/a $A", UNIT).written == ("/bin/a", "$$A")
    assert literal("50% of $A") == "50%% of $$A"
    assert variables_in("$A") == {"A"}
    assert variables_in("x${A}$B$${C}${D}") == {"A", "D"}


def test_an_empty_value_resets_what_came_before() -> None:
    files = [
        UnitFile("/a", "[Service]\nEnvironment=A=1\nExecStart=/bin/old\n"),
        UnitFile("/b", "[Service]\nExecStart=\nExecStart=/bin/new\n"),
        UnitFile("/c", "[Unit]\nExecStart=/bin/elsewhere\n[Service]\nEnvironment=B=2\n"),
    ]
    assert values(files, "Service", "ExecStart") == (("/b", "/bin/new"),)
    assert values(files, "Service", "Environment") == (("/a", "A=1"), ("/c", "B=2"))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("a  b\tc", ("a", "b", "c")),
        ("'one word' \"and another\"", ("one word", "and another")),
        ('joined"in one"', ("joinedin one",)),
        (r"\x41\102\u0043\s\n", ("ABC \n",)),
        (r"unknown\q", (r"unknown\q",)),
        ('""', ("",)),
        ("trailing\\", ("trailing\\",)),
    ],
)
def test_quotes_and_escapes(value: str, words: tuple[str, ...]) -> None:
    assert split_words(value) == words


def test_an_open_quote_is_an_error() -> None:
    with pytest.raises(ValueError, match="not closed"):
        split_words('"open')


def test_prefixes_specifiers_and_variables_of_a_command() -> None:
    said = command("-@/usr/bin/llama-server shown --name %i --rate 5%% $EXTRA ${ONE} $$HOME $NONE", UNIT, {
        "EXTRA": "-a 'b c'",
        "ONE": "x y",
    })  # fmt: skip
    assert said.prefix == "-@"
    assert said.words == ("/usr/bin/llama-server", "--name", "one", "--rate", "5%", "-a", "b c", "x y", "$HOME")


def test_a_colon_prefix_keeps_variables_as_they_are_written() -> None:
    assert command(":/bin/echo $A $$", UNIT, {"A": "1"}).words == ("/bin/echo", "$A", "$$")


def test_without_an_environment_variables_stay() -> None:
    assert command("/bin/echo $A ${B}", UNIT).words == ("/bin/echo", "$A", "${B}")


def test_specifiers_that_cannot_be_told_stay() -> None:
    assert command("/bin/echo %H %n", UNIT).words == ("/bin/echo", "%H", UNIT)


def test_environment_settings() -> None:
    assert environment_pairs("A=1 \"B=two words\" 'C=%%' nonsense", UNIT) == (
        ("A", "1"),
        ("B", "two words"),
        ("C", "%"),
    )


def test_environment_files() -> None:
    text = (
        "# comment\n; comment\nA=1\nB=\"two words\"\nC='raw \\n'\nD=one\\\ntwo\n"
        'nonsense\n1-2=x\nA=3\nE=a\\ b\nF="q\\"q\\n"\n'
    )
    assert environment_file_pairs(text) == (
        ("A", "3"),
        ("B", "two words"),
        ("C", "raw \\n"),
        ("D", "onetwo"),
        ("E", "a b"),
        ("F", 'q"q\\n'),
    )
