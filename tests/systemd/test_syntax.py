"""Our quoting and our reading of unit files, judged by the real systemd."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable

import pytest

from llmops import systemd
from llmops.render import render
from llmops.systemd.syntax import literal
from tests.systemd.machine import Machine

pytestmark = [pytest.mark.systemd, pytest.mark.timeout(1800)]

SHOW = "/usr/local/bin/show-words"
SHOW_TEXT = "#!/usr/bin/python3\nimport json,os,sys\nprint(json.dumps([sys.argv[1:], dict(os.environ)]))\n"
WORDS = (
    "plain", "", "two words", " leading", "tab\tand\nline", 'say "hi"', "it's", "back\\slash", "end\\", "%h %%n 100%",
    "$HOME", "${HOME}", "$$", "a$", ";", "#no comment", "[Service]", "{{ x }}", "ünïcödé", "=", "-", "--x=\"y z\"",
    "\x01\x7f",
)  # fmt: skip


def random_words(seed: int, count: int) -> tuple[str, ...]:
    """Words of the characters that unit files treat specially."""
    source = random.Random(seed)
    alphabet = "\\\"'$%;#{} \t\n:@-=" + string.ascii_letters
    return tuple("".join(source.choices(alphabet, k=source.randrange(12))) for _ in range(count))


def test_every_word_and_variable_arrives_as_it_was_meant(new_machine: Callable[..., Machine]) -> None:
    words = (*WORDS, *random_words(20261129, 200))
    variables = tuple((f"V{number}", word) for number, word in enumerate(words))
    drop_in = render(
        "llama-server/drop-in.conf.j2",
        exec_start=(SHOW, *map(literal, words)),
        prefix="",
        environment=variables,
        environment_files=("/etc/variables",),
    )
    fragment = "[Service]\nType=oneshot\nExecStart=/bin/false\nStandardOutput=file:/var/tmp/words.json\n"
    files_text = 'A=1\nB="two words"\nC=\'raw \\n\'\nD=one\\\ntwo\nE=a\\ b\nF="q\\"q\\n\\$"\n# G=1\nH=x # y\n'
    machine = new_machine(
        {
            "/etc/systemd/system/words.service": fragment,
            "/etc/systemd/system/words.service.d/zz-llmops.conf": drop_in,
            "/etc/variables": files_text,
            SHOW: SHOW_TEXT,
        },
        {SHOW: 0o755},
    )
    started = machine.run("systemctl", "start", "words.service")
    assert started.exit_code == 0, started
    said_words, said_variables = json.loads(machine.path("/var/tmp/words.json").read_text())
    assert tuple(said_words) == words
    assert tuple((name, said_variables[name]) for name, _ in variables) == variables
    read = dict(systemd.environment_file_pairs(files_text))
    assert {name: said_variables[name] for name in read} == read
    assert "G" not in said_variables
