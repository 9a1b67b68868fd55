"""What every engine on a machine serves now: its slots above all, and why a value is missing."""

from __future__ import annotations

import json
from dataclasses import replace

import click
import pytest

from llmops.actions.serving_now import ServingNow, serving_documents, serving_notices, serving_now
from llmops.cli.text.layout import WIDTH
from llmops.cli.text.serving import serving_text
from llmops.host import Host, ListeningSocket, Response
from tests.unit.engines.llama_host import MODEL, SERVER, LookedAt, process, props
from tests.unit.engines.ollama_host import BLOB, a_host, child
from tests.unit.engines.vllm_host import MODEL as CHECKPOINT
from tests.unit.engines.vllm_host import VllmHost

URL = "http://127.0.0.1:8080"
WORDS = (SERVER, "-m", MODEL, "-np", "1")


def answering(slots: int = 1, busy: int = 1) -> LookedAt:
    """A llama-server that somebody started by hand."""
    host = LookedAt()
    host.install(SERVER)
    host.running = (process(7, *WORDS),)
    host.listeners = (ListeningSocket("127.0.0.1", 8080, 7),)
    states = [{"n_ctx": 4096, "is_processing": number < busy} for number in range(slots)]
    host.answers = {
        f"{URL}/props": Response(200, json.dumps(props(slots, 4096))),
        f"{URL}/slots": Response(200, json.dumps(states)),
    }
    return host


def only(host: Host) -> ServingNow:
    (row,) = serving_now(host)
    return row


def text_of(*rows: ServingNow) -> str:
    text = click.unstyle(serving_text(rows))
    assert max(len(line) for line in text.splitlines()) <= WIDTH
    return text


def test_a_running_server_with_all_it_tells() -> None:
    row = only(answering(slots=4, busy=3))
    assert (row.engine, row.version, row.managed_by, row.pid, row.running) == (
        "llama-server",
        "9265 (abc1234)",
        "process",
        7,
        True,
    )
    assert (row.models, row.slots, row.context_tokens_per_slot) == ((MODEL,), 4, 4096)
    assert (row.url, row.requests_in_flight, row.unseen) == (URL, 3, ())
    assert serving_notices((row,)) == ()
    assert text_of(row).splitlines() == [
        "Serving",
        "  llama-server 9265 (abc1234), process 7, in no unit of systemd",
        f"    model      {MODEL}",
        "    slots      4",
        "    context    4,096 tokens per slot",
        f"    address    {URL}",
        "    in flight  3 requests",
    ]


def test_one_slot_is_a_queue_and_not_a_fault() -> None:
    row = only(answering())
    (notice,) = serving_notices((row,))
    assert (notice.code, notice.severity, dict(notice.values)) == (
        "one-slot",
        "info",
        {"slots": 1, "requests_in_flight": 1},
    )
    assert "llama-server (process 7) has 1 slot: of five users who ask at once four wait in line" in notice.message
    assert "1 request\n" in text_of(row) + "\n"


def test_a_unit_gives_its_name() -> None:
    host = answering()
    host.unit("chat.service", f"[Service]\nExecStart={' '.join(WORDS)}\n", main_pid=7)
    host.named_in("/etc/systemd/system/chat.service")
    host.running = (process(7, *WORDS, group="/system.slice/chat.service"),)
    row = only(host)
    assert (row.managed_by, row.unit, row.slots) == ("unit", "chat.service", 1)
    (notice,) = serving_notices((row,))
    assert "(chat.service)" in notice.message
    assert "unit chat.service, process 7" in text_of(row)


def test_a_server_that_does_not_answer_has_a_reason_for_every_value() -> None:
    host = answering()
    host.answers = {f"{URL}/props": Response(401, "{}")}
    row = only(host)
    unseen = dict(row.unseen)
    assert (row.slots, row.context_tokens_per_slot, row.requests_in_flight) == (None, None, None)
    assert set(unseen) == {"slots", "context_tokens_per_slot", "requests_in_flight"}
    assert "wants an API key" in unseen["slots"]
    assert serving_notices((row,)) == ()
    assert "not observed: http://127.0.0.1:8080/props wants an API key" in text_of(row)


def test_answers_of_another_server_at_the_same_address_are_not_its_own() -> None:
    host = answering()
    host.running = (process(7, *WORDS), process(9, SERVER, "-m", "/srv/models/other.gguf"))
    first, second = serving_now(host)
    assert (first.pid, first.slots) == (7, 1)
    assert (second.pid, second.slots, second.models) == (9, None, None)
    assert dict(second.unseen)["slots"] == f"process 7 listens at {URL}, not this server"


@pytest.mark.parametrize(("listener", "slots"), [(7, 1), (30, 1), (9, None)])
def test_a_container_is_reached_through_its_manager_but_not_through_another_engine(
    listener: int, slots: int | None
) -> None:
    host = answering()
    other = process(9, SERVER, "-m", "/srv/models/other.gguf", "--port", "8081")
    host.running = (process(7, *WORDS, group=f"/docker/{'a' * 64}"), other)
    host.listeners = (ListeningSocket("127.0.0.1", 8080, listener),)
    row = next(row for row in serving_now(host) if row.managed_by == "docker")
    assert (row.running, row.version, row.slots) == (True, None, slots)
    assert dict(row.unseen)["version"] == "nothing names it"
    assert "version    not observed: nothing names it" in text_of(row)


def test_a_program_that_only_lies_on_the_disk_is_not_running() -> None:
    host = LookedAt()
    host.install(SERVER)
    row = only(host)
    assert (row.managed_by, row.running, row.slots, row.url) == ("binary", False, None, None)
    assert dict(row.unseen) == {"serving": "it is not running"}
    assert text_of(row).splitlines()[1:] == [f"  llama-server 9265 (abc1234), binary: {SERVER}: it is not running"]


def test_a_program_that_does_not_run_says_why_it_has_no_version() -> None:
    host = LookedAt()
    host.install(SERVER)
    host.says((SERVER, "--help"), "", stderr="libgomp.so.1: cannot open shared object file", exit_code=127)
    row = only(host)
    assert row.version is None
    assert "libgomp.so.1" in dict(row.unseen)["version"]
    assert "libgomp.so.1" in text_of(row)


def test_an_ollama_with_nothing_loaded_has_no_slots_yet() -> None:
    row = only(a_host())
    assert (row.engine, row.managed_by, row.models, row.slots) == ("ollama", "unit", (), None)
    assert dict(row.unseen)["slots"] == "no model is loaded"
    assert "model      none is loaded" in text_of(row)


def test_an_ollama_names_its_models_and_the_slots_of_the_last() -> None:
    host = a_host()
    words = ("/usr/local/lib/ollama/llama-server", "--model", BLOB, "--port", "40001", "-c", "16384", "-np", "4")
    host.running = (*host.running, child(60, *words))
    host.files["/proc/60/status"] = "VmRSS:\t 1000 kB\nRssAnon:\t 1000 kB\n"
    host.answers["http://127.0.0.1:11434/api/ps"] = Response(200, '{"models":[{"name":"qwen3:8b"}]}')
    slots = [{"id": number, "is_processing": number == 0} for number in range(4)]
    host.answers["http://127.0.0.1:40001/slots"] = Response(200, json.dumps(slots))
    row = only(host)
    assert (row.models, row.slots, row.context_tokens_per_slot) == (("qwen3:8b",), 4, 4096)
    assert row.requests_in_flight == 1


@pytest.mark.parametrize(("words", "slots"), [(("--max-num-seqs", "1"), 1), ((), None)])
def test_a_vllm_names_its_slots_only_where_it_was_told_them(words: tuple[str, ...], slots: int | None) -> None:
    host = VllmHost()
    host.environment_of("/opt/vllm", "vllm-0.33.0.dist-info")
    host.serves(CHECKPOINT, *words)
    row = only(host)
    assert (row.engine, row.version, row.slots, row.context_tokens_per_slot) == ("vllm", "0.33.0", slots, 8192)
    assert (row.models, row.requests_in_flight) == ((CHECKPOINT,), 3), "running and waiting"
    assert dict(row.unseen) == ({} if slots else {"slots": "the engine does not tell it"})
    assert [notice.code for notice in serving_notices((row,))] == (["one-slot"] if slots else [])


def test_a_vllm_that_is_still_starting_does_not_answer_yet() -> None:
    host = VllmHost()
    host.environment_of("/opt/vllm", "vllm-0.33.0.dist-info")
    host.serves(CHECKPOINT)
    host.answers = {}
    unseen = dict(only(host).unseen)
    assert set(unseen) == {"slots", "context_tokens_per_slot", "requests_in_flight"}
    assert all("/version: refused" in reason for reason in unseen.values())


def test_running_engines_come_first_and_nothing_found_is_said() -> None:
    host = answering()
    host.files["/usr/local/bin/llama-server"] = ""
    host.install("/usr/local/bin/llama-server")
    assert [row.running for row in serving_now(host)] == [True, False]
    assert text_of() == "Serving\n  no engine was found"


def test_the_document_keeps_every_reason() -> None:
    row = replace(only(answering()), slots=None, unseen=(("slots", "because"),))
    (document,) = serving_documents((row,))
    assert (document["slots"], document["unseen"], document["models"]) == (None, {"slots": "because"}, [MODEL])
