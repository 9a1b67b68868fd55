"""Checks of loading, reloading and unloading."""

from __future__ import annotations

import datetime
import re
import time

from .client import Server, wait_until
from .registry import check, expect, need, timed_check

MANY_YEARS_SECONDS = 100 * 365 * 86400


def _stays(server: Server) -> float:
    """Seconds until the model is unloaded."""
    row = server.loaded()
    expect(row, "the model is not loaded")
    text = re.sub(r"\.\d+", "", (row or {})["expires_at"]).replace("Z", "+00:00")
    moment = datetime.datetime.fromisoformat(text)
    return moment.timestamp() - time.time()


@check
def empty_prompt_only_loads(server: Server) -> None:
    """A request without a prompt loads the model and says done_reason "load"."""
    server.unload()
    answer = server.load()
    expect(answer.final["done"] is True and answer.final["done_reason"] == "load", answer.text)
    expect(server.loaded(), "not in /api/ps")


@check
def ps_shows_what_is_loaded(server: Server) -> None:
    """A row of /api/ps has the digest of /api/tags, size, size_vram of at most size, and expires_at."""
    server.load()
    row = server.loaded() or {}
    tags = {tag["name"]: tag["digest"] for tag in server.get("/api/tags").document["models"]}
    expect(row["digest"] == tags[row["name"]], row)
    expect(row["size"] >= row["size_vram"] >= 0 and row["expires_at"], row)


@check
def ps_shows_the_context_of_one_slot(server: Server) -> None:
    """context_length of /api/ps is the context of one slot, not of all (0.10 and later)."""
    need(server.version >= (0, 10, 0), "before 0.10 it is not shown")
    server.load(context=1024)
    row = server.loaded() or {}
    expect(row["context_length"] == 1024, row["context_length"])


@timed_check
def context_of_a_request_reloads_the_model(server: Server) -> None:
    """A request with another num_ctx makes the model load again, with that context."""
    need(server.version >= (0, 10, 0), "before 0.10 it is not shown")
    server.load(context=768)
    warm, cold = server.load(context=768), server.load(context=512)
    expect((server.loaded() or {})["context_length"] == 512, server.loaded())
    expect(cold.seconds > 3 * warm.seconds, f"{warm.seconds:.3f} s warm, {cold.seconds:.3f} s with another num_ctx")


@timed_check
def equal_options_do_not_reload(server: Server) -> None:
    """A second request with the same options finds the model loaded: load_duration is a small part of a load."""
    server.unload()
    cold, warm = server.write(2), server.write(2)
    seen = f"{cold.duration('load'):.3f} s cold, {warm.duration('load'):.3f} s warm"
    expect(warm.duration("load") < 0.5 * cold.duration("load"), seen)


@check
def keep_alive_sets_the_expiry(server: Server) -> None:
    """keep_alive of a request, in Go's form or in seconds, sets expires_at; -1 is for ever."""
    for asked, seconds in (("3m", 180), (240, 240)):
        server.load(keep_alive=asked)
        expect(abs(_stays(server) - seconds) < 30, asked, _stays(server))
    server.load(keep_alive=-1)
    expect(_stays(server) > MANY_YEARS_SECONDS, _stays(server))
    server.load(keep_alive="5m")


@check
def idle_model_is_unloaded_after_keep_alive(server: Server) -> None:
    """A model that is idle for keep_alive is gone from /api/ps."""
    server.load(keep_alive=1)
    expect(server.loaded(), "not loaded")
    expect(wait_until(lambda: server.loaded() is None, 60), server.loaded())


@check
def keep_alive_zero_unloads(server: Server) -> None:
    """keep_alive 0 without a prompt unloads at once and says done_reason "unload"."""
    server.load(keep_alive="5m")
    answer = server.post("/api/generate", {"model": server.model, "keep_alive": 0})
    expect(answer.final["done_reason"] == "unload", answer.text)
    expect(wait_until(lambda: server.loaded() is None, 60), server.loaded())
