"""Checks that need the machine itself: the child process in /proc, the server's log."""

from __future__ import annotations

import re
from pathlib import Path

from .client import Server, wait_until
from .registry import check, expect, need

ONE_SLOT = "model architecture does not currently support parallel requests"


def _words(process: Path) -> list[str]:
    try:
        return (process / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except OSError:
        return []


def _variables(process: Path) -> dict[str, str] | None:
    try:
        text = (process / "environ").read_bytes().decode(errors="replace")
    except OSError:
        return None
    return dict(pair.partition("=")[::2] for pair in text.split("\0") if "=" in pair)


def _parent(process: Path) -> Path:
    (number,) = re.findall(r"^PPid:\s+(\d+)", (process / "status").read_text(), re.MULTILINE)
    return process.parent / str(number)


def _children(server: Server, model: str | None = None) -> list[Path]:
    """The llama-server processes that serve this model."""
    show = server.post("/api/show", {"model": model or server.model}).document["modelfile"]
    blob = re.findall(r"^FROM (\S+)$", show, re.MULTILINE)[0]
    processes = [path for path in Path("/proc").iterdir() if path.name.isdigit()]
    found = [(path, _words(path)) for path in processes]
    return [path for path, words in found if Path(words[0] if words else "").name == "llama-server" and blob in words]


def _child(server: Server, model: str | None = None) -> Path:
    need(server.loopback, "the server is on another machine")
    need(server.version >= (0, 30, 0), "before 0.30 there is no llama-server")
    server.load(model)
    found = _children(server, model)
    need(bool(found), "no llama-server of this model in /proc: a container, or another user's")
    expect(len(found) == 1, found)
    return found[0]


def _value(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1]


@check
def child_is_given_slots_and_all_their_context(server: Server) -> None:
    """One llama-server for each loaded model, child of the server, with -np slots and -c of num_ctx x slots."""
    child = _child(server)
    words = _words(child)
    slots, context = int(_value(words, "-np")), int(_value(words, "-c"))
    expect(context == slots * (server.loaded() or {})["context_length"], words)
    expect(server.parallel in {None, slots}, words)
    expect(_value(words, "--host") == "127.0.0.1" and int(_value(words, "--port")) > 0, words)
    expect("serve" in _words(_parent(child)), _words(_parent(child)))


@check
def child_inherits_the_environment(server: Server) -> None:
    """Every LLAMA_ARG_ variable of the server reaches llama-server."""
    child = _child(server)
    mine, theirs = _variables(child), _variables(_parent(child))
    need(mine is not None and theirs is not None, "the environment of the processes may not be read")
    given = {name: value for name, value in (theirs or {}).items() if name.startswith(("LLAMA_ARG_", "OLLAMA_"))}
    need(bool(given), "the server has no such variable")
    expect(all((mine or {}).get(name) == value for name, value in given.items()), given)


@check
def unloading_ends_the_child(server: Server) -> None:
    """Unloading a model ends its llama-server."""
    child = _child(server)
    server.unload()
    expect(wait_until(lambda: not child.exists(), 60), _words(child))


def _log(server: Server) -> str:
    need(server.log, "give --log")
    return server.log_text()


@check
def log_begins_with_the_settings(server: Server) -> None:
    """A line msg="server config" env="map[...]" has the effective settings, then a line says address and version."""
    text = _log(server)
    lines = [line for line in text.splitlines() if 'msg="server config"' in line]
    expect(lines, text[:500])
    settings = dict(re.findall(r"\b(OLLAMA_\w+):(\S*)", lines[-1]))
    wanted = {"OLLAMA_NUM_PARALLEL", "OLLAMA_CONTEXT_LENGTH", "OLLAMA_KEEP_ALIVE", "OLLAMA_MAX_QUEUE"}
    expect(wanted | {"OLLAMA_MAX_LOADED_MODELS", "OLLAMA_KV_CACHE_TYPE"} <= set(settings), settings)
    expect(server.parallel is None or settings["OLLAMA_NUM_PARALLEL"] == str(server.parallel), settings)
    expect(re.search(r"Listening on \S+ \(version \S+\)", text), "no line that says where it listens")


@check
def log_says_how_long_a_load_took(server: Server) -> None:
    """Each load leaves a line "started in X seconds"."""
    before = len(re.findall(r"started in [\d.]+ seconds", _log(server)))
    server.unload()
    server.load()
    expect(len(re.findall(r"started in [\d.]+ seconds", _log(server))) == before + 1)


@check
def log_has_a_line_for_each_request(server: Server) -> None:
    """Each request leaves an access line with its status, client, method and path."""
    server.get("/api/version")
    pattern = r'\[GIN\] [\d/]+ - [\d:]+ \|\s+200 \|\s+\S+ \|\s+\S+ \| GET\s+"/api/version"'
    expect(wait_until(lambda: re.search(pattern, _log(server)), 60))


@check
def log_says_that_a_prompt_was_cut(server: Server) -> None:
    """A prompt that is cut leaves a warning with the numbers of tokens before and after."""
    _log(server)
    answer = server.write(2, words=1500, context=512)
    need(answer.status == 200, "this model's prompts are refused, not cut")
    expect(re.search(r'msg="truncating input prompt" limit=\d+ prompt=\d+ keep=\d+ new=\d+', _log(server)))


@check
def some_families_have_one_slot(server: Server) -> None:
    """Some families get one slot whatever is asked: a warning in the log, and -np 1."""
    need(server.one_slot_model, "give --one-slot-model")
    need(server.parallel is not None and server.parallel > 1, "give --parallel above 1")
    try:
        child = _child(server, server.one_slot_model)
        expect(_value(_words(child), "-np") == "1", _words(child))
        expect(server.log is None or ONE_SLOT in _log(server))
    finally:
        server.unload(server.one_slot_model)
