"""--front and --listen on the command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from llmops.actions.apply import Applied
from llmops.cli.fronting import front_text
from llmops.front import Address, FrontServer, FrontSpec
from tests.unit.cli.conftest import Run
from tests.unit.cli.machine import Machine

VERSION = ("--engine-version", "11434")


def test_render_prints_exactly_the_configuration(run: Run, machine: Machine, model: str) -> None:
    ran = run("render", "--front", "haproxy", "--model", model, *VERSION, "--slots", "2", "--queue", "3")
    assert ran.exit_code == 0, ran.stderr
    assert ran.stdout.startswith("# Managed by llmops.")
    assert "    bind 127.0.0.1:8000 proto h1\n" in ran.stdout
    assert "    server engine 127.0.0.1:8080 maxconn 2 check" in ran.stdout
    assert "{ queue(generation) ge 3 }" in ran.stdout


def test_render_writes_the_unit_too_where_it_is_asked_for_files(
    run: Run, machine: Machine, model: str, tmp_path: Path
) -> None:
    words = ("render", "--front", "haproxy", "--listen", "0.0.0.0:80", "--model", model, *VERSION)
    ran = run(*words, "--directory", "/out", "--output", "json")
    assert ran.envelope["status"] == "changed"
    paths = [file["path"] for file in ran.envelope["data"]["files"]]
    assert paths == ["/etc/llmops/front.cfg", "/etc/systemd/system/llmops-front.service"]
    assert {f"/out{path}" for path in paths} <= set(machine.files)
    assert "bind 0.0.0.0:80" in machine.files["/out/etc/llmops/front.cfg"].text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("render", "--listen", "127.0.0.1:8000"), "--listen is for the front only"),
        (("render", "--front", "haproxy", "--listen", "127.0.0.1:8080"), "itself listens"),
        (("render", "--front", "haproxy", "--listen", "8000"), "no address and port"),
        (("apply", "--front", "haproxy"), "needs --listen"),
        (("apply", "--front", "haproxy", "--listen", "127.0.0.1:8000", "--take-over"), "--take-over"),
        (("apply", "--front", "nginx", "--listen", "127.0.0.1:8000"), "nginx"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(
    run: Run, machine: Machine, model: str, words: tuple[str, ...], said: str
) -> None:
    ran = run(*words, "--model", model, *VERSION, "--output", "json")
    assert ran.exit_code == 2
    assert said in ran.envelope["errors"][0]["message"]
    assert machine.changes_made == 0


def test_a_front_before_nothing_is_refused(run: Run, machine: Machine, model: str) -> None:
    ran = run(
        "apply", "--front", "haproxy", "--listen", "127.0.0.1:8000", "--model", model, *VERSION, "--output", "json"
    )
    assert ran.exit_code == 11
    assert "nothing would answer behind the front" in ran.envelope["errors"][0]["message"]
    assert machine.changes_made == 0


def test_the_result_says_who_listens_where() -> None:
    spec = FrontSpec("ollama", (FrontServer(Address("127.0.0.1", 11434), 4),), Address("127.0.0.1", 8000), 9, 60.0)
    applied = Applied(changed=True, unit="llmops-front.service", checkpoint=3)
    text = " ".join(front_text(spec, applied, (), verbose=False).split())
    assert "listens at 127.0.0.1:8000, for this machine only; ollama stays at 127.0.0.1:11434" in text
    assert "4 are served at once, 9 may wait 60 s" in text
    assert "llmops rollback" in text
    opened = replace(spec, listen=Address("0.0.0.0", 8000))
    text = front_text(opened, applied, ("no password",), verbose=False)
    assert "for other machines too" in " ".join(text.split())
    assert "no password" in text
