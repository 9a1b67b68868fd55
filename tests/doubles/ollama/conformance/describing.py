"""Checks of what the API says about itself and its models."""

from __future__ import annotations

import re
from typing import Any

from .client import Server
from .registry import check, expect, need

ARCHITECTURE_KEYS = ("block_count", "context_length", "embedding_length", "attention.head_count")


def _show(server: Server, *, verbose: bool = False) -> Any:
    return server.post("/api/show", {"model": server.model, "verbose": verbose}).document


@check
def root_says_that_it_runs(server: Server) -> None:
    """GET / answers 200 with the text "Ollama is running"."""
    answer = server.get("/")
    expect((answer.status, answer.text) == (200, "Ollama is running"), answer.status, answer.text)


@check
def version_is_three_numbers(server: Server) -> None:
    """GET /api/version answers {"version": "X.Y.Z..."}."""
    document = server.get("/api/version").document
    expect(re.match(r"\d+\.\d+\.\d+", document["version"]), document)


@check
def tags_list_the_installed_models(server: Server) -> None:
    """Every row of /api/tags has name, size in bytes, digest of 64 hex digits, format, family and quantization."""
    rows = server.get("/api/tags").document["models"]
    expect(server.model in {name for row in rows for name in (row["name"], row["name"].removesuffix(":latest"))}, rows)
    for row in rows:
        expect(row["size"] > 0 and re.fullmatch(r"[0-9a-f]{64}", row["digest"]), row)
        expect({"format", "family", "parameter_size", "quantization_level"} <= set(row["details"]), row)


@check
def show_has_the_facts_of_the_model(server: Server) -> None:
    """model_info of /api/show has the architecture, its layers, lengths and heads, and the number of parameters."""
    info = _show(server)["model_info"]
    wanted = [f"{info['general.architecture']}.{key}" for key in ARCHITECTURE_KEYS]
    expect(all(key in info for key in wanted), sorted(info))
    expect(info["general.parameter_count"] > 0, info["general.parameter_count"])


@check
def show_hides_arrays_unless_verbose(server: Server) -> None:
    """Without verbose every array of model_info is null or empty; with verbose it has its values."""
    full, short = _show(server, verbose=True)["model_info"], _show(server)["model_info"]
    arrays = [key for key, value in full.items() if isinstance(value, list) and value]
    expect(arrays, "no array in the verbose answer")
    expect(all(not short.get(key) for key in arrays), {key: short.get(key) for key in arrays})


@check
def show_lists_tensors(server: Server) -> None:
    """/api/show lists name, type and shape of every tensor, also when not verbose."""
    tensors = _show(server)["tensors"]
    expect(tensors and {"name", "type", "shape"} <= set(tensors[0]), tensors[:1])


@check
def modelfile_names_the_blob(server: Server) -> None:
    """The line FROM of the modelfile is the path of the GGUF file in the store."""
    text = _show(server)["modelfile"]
    expect(re.search(r"^FROM /.*/blobs/sha256-[0-9a-f]{64}$", text, re.MULTILINE), text[:300])


@check
def unknown_model_is_404(server: Server) -> None:
    """A model that is not installed: 404 with {"error": text} on /api/show, /api/generate and /api/chat."""
    bodies: dict[str, dict[str, object]] = {
        "/api/show": {},
        "/api/generate": {"prompt": "x"},
        "/api/chat": {"messages": []},
    }
    for path, body in bodies.items():
        answer = server.post(path, {"model": "no-such-model-here", **body})
        expect(answer.status == 404 and isinstance(answer.document["error"], str), path, answer.status, answer.text)


@check
def openai_error_has_its_own_form(server: Server) -> None:
    """On /v1 an error is {"error": {"message": text, "type": text, ...}}."""
    body = {"model": "no-such-model-here", "messages": [{"role": "user", "content": "x"}]}
    answer = server.post("/v1/chat/completions", body)
    error = answer.document["error"]
    expect(answer.status == 404 and isinstance(error["message"], str) and isinstance(error["type"], str), answer.text)


@check
def foreign_host_header_is_refused_on_loopback(server: Server) -> None:
    """A server on loopback answers 403 to a Host header of another machine, and 200 to localhost."""
    need(server.loopback, "the server is not reached by loopback")
    foreign = server.get("/api/version", {"Host": "llm.example.com"})
    own = server.get("/api/version", {"Host": "localhost"})
    expect((foreign.status, own.status) == (403, 200), foreign.status, own.status)
