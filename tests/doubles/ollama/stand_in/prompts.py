"""From a request to what the engine is asked: old messages dropped, long prompts cut or refused."""

from __future__ import annotations

from typing import Any

from . import log
from .options import Options
from .runner import ChildError, Runner

TOO_LONG = (
    "the prompt is longer than the context length currently available to the model; "
    "increase the context length or shorten the prompt"
)
Messages = list[dict[str, Any]]


def _render(runner: Runner, messages: Messages) -> str:
    return str(runner.ask("/apply-template", {"messages": messages})["prompt"])


def tokens(runner: Runner, text: str) -> list[int]:
    """The prompt as tokens, with what the model wants before it."""
    body = {"content": text, "add_special": True, "parse_special": True}
    return list(runner.ask("/tokenize", body)["tokens"])


def fit_messages(runner: Runner, messages: Messages) -> Messages:
    """Drop the oldest messages until the rest fits; the system's and the last one stay. Said only when debugging."""
    system = [message for message in messages if message.get("role") == "system"]
    others = [message for message in messages if message.get("role") != "system"]
    while len(others) > 1 and len(tokens(runner, _render(runner, system + others))) > runner.options.context:
        others = others[1:]
    return system + others


def cut(runner: Runner, options: Options, prompt: list[int]) -> list[int]:
    """The prompt, without its middle where it is too long; ChildError where it is refused."""
    most = options.context - 1 if runner.settings.traits.wraps_llama_server else options.context
    if len(prompt) <= most:
        return prompt
    rule = runner.settings.traits.cut_to(options.context, options.keep, shift=options.shift)
    if rule is None:
        raise ChildError(400, TOO_LONG)
    limit, new = rule
    keep = min(options.keep, new)
    message = "truncating input prompt"
    log.say("WARN", "llama_server.go:279", message, limit=limit, prompt=len(prompt), keep=keep, new=new)
    return prompt[:keep] + prompt[len(prompt) - (new - keep) :]


def engine_request(runner: Runner, options: Options, messages: Messages, raw: str | None) -> tuple[str, dict[str, Any]]:
    """The path and the body for the engine; `raw` is a prompt without a template."""
    if messages:
        messages = fit_messages(runner, messages)
    sampling = options.sampling()
    rendered_here = runner.model.text("template") or not runner.settings.traits.wraps_llama_server
    if raw is None and not rendered_here:
        sampling["max_tokens"] = sampling.pop("n_predict")
        usage = {"include_usage": True}
        return "/v1/chat/completions", {**sampling, "messages": messages, "stream": True, "stream_options": usage}
    text = raw if raw is not None else _render(runner, messages)
    return "/completion", {**sampling, "prompt": cut(runner, options, tokens(runner, text)), "stream": True}
