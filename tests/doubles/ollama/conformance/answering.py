"""Checks of replies: streams, durations, caches, prompts that are too long."""

from __future__ import annotations

import json

from .client import Answer, Server, fresh_prompt
from .registry import check, expect, need, timed_check

REFUSALS = ("longer than the context", "exceeds the available context", "exceeds the context")
TOKENS = 12


def _chat(server: Server, words: int = 5, **more: object) -> dict[str, object]:
    message = {"role": "user", "content": f"Tell me about rivers. {fresh_prompt(words)}"}
    return {"model": server.model, "messages": [message], **more}


@check
def generate_streams_lines_of_json(server: Server) -> None:
    """/api/generate streams application/x-ndjson: a line for each piece, "done" true in the last one only."""
    answer = server.write(TOKENS)
    expect(answer.kind.startswith("application/x-ndjson"), answer.kind)
    expect(len(answer.lines) > 2 and [line["done"] for line in answer.lines].count(True) == 1, answer.text[-500:])
    expect(answer.final["done"] is True and answer.final["done_reason"] in {"stop", "length"}, answer.final)


@timed_check
def durations_are_nanoseconds_that_add_up(server: Server) -> None:
    """total_duration is the request's time in nanoseconds; loading, reading and writing are parts of it."""
    server.load()
    answer = server.write(TOKENS, words=100)
    expect(answer.duration("total") <= answer.seconds + 0.05, answer.seconds, answer.final)
    expect(answer.seconds - answer.duration("total") < 1, answer.seconds, answer.final)
    expect(-0.05 <= answer.queued_seconds < 1, answer.queued_seconds, answer.final)
    expect(answer.duration("prompt_eval") > 0 and answer.duration("eval") > 0, answer.final)


@check
def tokens_are_counted(server: Server) -> None:
    """eval_count is num_predict where done_reason is "length"; prompt_eval_count grows with the prompt."""
    short, long = server.write(TOKENS), server.write(TOKENS, words=200)
    for final in (short.final, long.final):
        expect(
            final["eval_count"] == TOKENS if final["done_reason"] == "length" else final["eval_count"] < TOKENS, final
        )
    expect(long.final["prompt_eval_count"] >= short.final["prompt_eval_count"] + 150, short.final, long.final)


@timed_check
def cached_prompt_is_counted_but_takes_no_time(server: Server) -> None:
    """The same prompt again: as many prompt tokens, in a fraction of the time (0.30.1 and later, and before 0.30)."""
    need(server.version[:3] != (0, 30, 0), "0.30.0 counts only what is not cached")
    prompt = fresh_prompt(300)
    first, second = server.write(2, prompt=prompt), server.write(2, prompt=prompt)
    expect(first.final["prompt_eval_count"] == second.final["prompt_eval_count"], first.final, second.final)
    seen = f"{first.duration('prompt_eval'):.3f} s, then {second.duration('prompt_eval'):.3f} s"
    expect(second.duration("prompt_eval") < 0.5 * first.duration("prompt_eval"), seen)


@check
def chat_streams_and_joins(server: Server) -> None:
    """/api/chat streams message.content; with stream false it is one document with the same durations."""
    options = {"num_predict": TOKENS}
    stream = server.post("/api/chat", _chat(server, options=options))
    whole = server.post("/api/chat", _chat(server, options=options, stream=False))
    expect(all(line["message"]["role"] == "assistant" for line in stream.lines), stream.text[:500])
    for final in (stream.final, whole.document):
        expect(final["done"] is True and final["total_duration"] > 0 and final["eval_count"] > 0, final)


@check
def openai_chat_streams_events(server: Server) -> None:
    """/v1/chat/completions streams events up to [DONE]; usage comes where it is asked for."""
    body = _chat(server, max_tokens=TOKENS, stream=True, stream_options={"include_usage": True})
    answer = server.post("/v1/chat/completions", body)
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    events = [json.loads(line) for line in lines if line != "[DONE]"]
    expect(answer.kind.startswith("text/event-stream") and lines[-1] == "[DONE]", answer.kind, lines[-1:])
    expect(any(event["choices"] and event["choices"][0]["delta"].get("content") for event in events), events)
    usage = [event["usage"] for event in events if event.get("usage")]
    expect(usage and 0 < usage[-1]["completion_tokens"] <= TOKENS, events[-1:])


@check
def unknown_options_are_ignored(server: Server) -> None:
    """What Ollama does not know, such as ignore_eos, is no error and changes nothing."""
    body = _chat(server, max_tokens=2, ignore_eos=True)
    expect(server.post("/v1/chat/completions", body).status == 200)


def _is_cut_or_refused(answer: Answer, context: int) -> bool:
    if answer.status == 400:
        return any(words in answer.text for words in REFUSALS)
    return answer.status == 200 and answer.final["prompt_eval_count"] <= context


@check
def too_long_prompt_is_cut_or_refused(server: Server) -> None:
    """A prompt above num_ctx: 200 with at most num_ctx prompt tokens (cut without a word), or 400 that says so."""
    for name in filter(None, (server.model, server.rendered_model)):
        answer = server.write(2, model=name, words=1500, context=512)
        expect(_is_cut_or_refused(answer, 512), name, answer.status, answer.text[-500:])
        chat = server.post("/api/chat", {**_chat(server, 1500), "model": name, "options": {"num_ctx": 512}})
        expect(_is_cut_or_refused(chat, 512), name, chat.status, chat.text[-500:])


@check
def about_half_of_a_cut_prompt_stays(server: Server) -> None:
    """From 0.30.11 a cut prompt keeps num_ctx - (num_ctx - num_keep) / 2 tokens; before, the whole num_ctx."""
    answer = server.write(2, words=1500, context=512)
    need(answer.status == 200, "this model's prompts are refused, not cut")
    version, stays = server.version, answer.final["prompt_eval_count"]
    expected = (258,) if version >= (0, 30, 11) else (510, 511, 512)
    expect(any(abs(stays - value) <= 2 for value in expected), f"{stays} tokens stay; expected about {expected}")
