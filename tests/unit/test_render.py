"""What is rendered is what systemd reads back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from llmops import systemd
from llmops.core.errors import UsageError
from llmops.render import render, systemd_bind, systemd_exec_word, systemd_quote, systemd_specifiers, systemd_written
from llmops.systemd.syntax import literal

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
NAME = st.from_regex(r"[A-Z_][A-Z0-9_]{0,12}", fullmatch=True)
UNIT = "llama-server.service"


def drop_in(words: list[str], environment: list[tuple[str, str]] | None = None) -> systemd.UnitFile:
    text = render(
        "llama-server/drop-in.conf.j2",
        exec_start=("/usr/bin/llama-server", *map(literal, words)),
        prefix="",
        environment=tuple(environment or ()),
        environment_files=(),
    )
    return systemd.UnitFile("/etc/systemd/system/llama-server.service.d/zz-llmops.conf", text)


@given(st.lists(TEXT, max_size=6))
def test_every_argument_comes_back_as_it_was(words: list[str]) -> None:
    ((_, value),) = systemd.values([drop_in(words)], "Service", "ExecStart")
    assert systemd.command(value, UNIT, {}).words == ("/usr/bin/llama-server", *words)


@given(st.lists(TEXT, max_size=6))
def test_what_a_person_wrote_comes_back_as_it_is_written(words: list[str]) -> None:
    text = " ".join(["/usr/bin/llama-server", *map(systemd_written, words)])
    assert systemd.command(text, UNIT).written == ("/usr/bin/llama-server", *words)


@given(st.lists(st.tuples(NAME, TEXT), max_size=4))
def test_every_variable_comes_back_as_it_was(pairs: list[tuple[str, str]]) -> None:
    values = systemd.values([drop_in([], pairs)], "Service", "Environment")
    assert [pair for _, value in values for pair in systemd.environment_pairs(value, UNIT)] == pairs


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30))
def test_a_bound_path_comes_back_as_it_was(path: str) -> None:
    quoted = systemd_bind(f"/{path}")
    if quoted.startswith('"'):
        body = quoted[1:-1]
        assert body.replace('\\"', "\0").count('"') == 0
        quoted = body.replace("\\\\", "\0").replace('\\"', '"').replace("\0", "\\")
    assert quoted.replace("%%", "%") == f"/{path}"


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("plain-8192", "plain-8192"),
        ("", '""'),
        ("two words", '"two words"'),
        ('say "hi"', '"say \\"hi\\""'),
        ("back\\slash", '"back\\\\slash"'),
        ("100%", "100%%"),
        ("tab\there", '"tab\\there"'),
        ("bell\x07", '"bell\\x07"'),
    ],
)
def test_words_are_quoted_only_where_they_need_it(word: str, written: str) -> None:
    assert systemd_quote(word) == written


def test_a_dollar_is_doubled_in_commands_only() -> None:
    assert systemd_exec_word("$HOME") == "$$HOME"
    assert systemd_quote("$HOME") == "$HOME"


@pytest.mark.parametrize("write", [systemd_quote, systemd_exec_word, systemd_specifiers])
def test_what_no_unit_file_can_hold_is_refused(write: object) -> None:
    assert callable(write)
    with pytest.raises(UsageError):
        write("zero\0byte")


def test_a_path_with_a_line_break_cannot_be_a_plain_value() -> None:
    with pytest.raises(UsageError):
        systemd_specifiers("/etc/two\nlines")
    with pytest.raises(UsageError):
        systemd_bind("/etc/two\nlines")


def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        render("llama-server/drop-in.conf.j2", exec_start=("/bin/true",))


def test_the_drop_in_is_exactly_this() -> None:
    assert drop_in(["--model", "/m/a b.gguf", "--parallel", "5"]).text == (
        "# Managed by llmops. `llmops tune --apply` writes this file and `llmops rollback` takes it back.\n"
        "# Own settings belong in another drop-in beside it.\n"
        "[Service]\n"
        "ExecStart=\n"
        "ExecStart=/usr/bin/llama-server \\\n"
        '    --model "/m/a b.gguf" \\\n'
        "    --parallel 5\n"
    )


def unit(*, gpu: bool, user: str | None = None) -> dict[str, list[str]]:
    text = render(
        "llama-server/unit.service.j2",
        exec_start=("/usr/bin/llama-server", "--parallel", "5"),
        environment=(("A", "b c"),),
        environment_files=("/etc/llmops/secret.env",),
        description="llama-server, 100% configured",
        model_paths=("/home/ann/my model.gguf", "/srv/part-2.gguf"),
        gpu=gpu,
        user=user,
        clients=(),
    )
    found: dict[str, list[str]] = {}
    for assignment in systemd.assignments(text):
        found.setdefault(assignment.key, []).append(assignment.value)
    return found


def test_a_unit_without_a_card_is_closed() -> None:
    settings = unit(gpu=False)
    assert settings["PrivateDevices"] == settings["ProtectClock"] == settings["MemoryDenyWriteExecute"] == ["yes"]
    assert settings["DynamicUser"] == settings["NoNewPrivileges"] == ["yes"]
    assert settings["BindReadOnlyPaths"] == ['"/home/ann/my model.gguf"', "/srv/part-2.gguf"]
    assert settings["Restart"] == ["always"]
    assert settings["Description"] == ["llama-server, 100%% configured"]
    assert "ExecStartPre" not in settings


def test_a_unit_with_a_card_keeps_its_devices() -> None:
    settings = unit(gpu=True, user="llama")
    closed = {"PrivateDevices", "ProtectClock", "MemoryDenyWriteExecute", "DeviceAllow", "DevicePolicy", "PrivateUsers"}
    assert not closed & set(settings)
    assert settings["ExecStartPre"] == ["+-/usr/bin/nvidia-modprobe -u -c=0"]
    assert any("nvidia-persistenced.service" in value for value in settings["After"])
    assert settings["User"] == ["llama"]
    assert "DynamicUser" not in settings


def test_a_stream_is_not_cut_when_the_unit_stops() -> None:
    ping_interval_seconds = 30
    assert int(unit(gpu=False)["TimeoutStopSec"][0]) > ping_interval_seconds
