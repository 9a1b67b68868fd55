"""A person's words for vLLM as the unit has them: variables stay variables, so that no secret is copied."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from llmops.core.errors import Misconfigured
from llmops.engines.vllm.words import Argument, program_length, read_words
from llmops.systemd import Command, split_words
from llmops.systemd.syntax import is_variable, literal


def written_words(
    command: Command,
    variables: dict[str, str],
    model: Sequence[str],
    replaced: Collection[str],
    unsaid: Collection[str],
    *,
    names_the_model: bool,
) -> tuple[str, ...]:
    """The program, the words for the model and what is kept of the person's own; `names_the_model` as planned.

    Raise Misconfigured where another model hides in a variable together with other words, or an option that the plan
    decides by leaving it out (`unsaid`).
    """
    length = program_length(command.written) or 0
    first, rest = _model_word(command.written[length:])
    together = first is not None and is_variable(first) and len(split_words(variables.get(first[1:], ""))) != 1
    if not length or (together and not names_the_model):
        raise Misconfigured(
            f"the words that start vllm hide in a variable: {' '.join(command.written)}",
            hint="write `vllm serve MODEL` itself into ExecStart= of the unit, then run this again",
        )
    told = (first,) if together and first is not None else tuple(map(literal, model))
    _require_visible(command, rest, unsaid)
    kept = [
        one
        for one in _divided(read_words(rest))
        if (one.flag not in replaced if one.flag else is_variable(one.values[0]))
    ]
    return (*command.written[:length], *told, *(word for one in kept for word in one.words))


def _require_visible(command: Command, rest: Sequence[str], unsaid: Collection[str]) -> None:
    seen = {one.flag for one in read_words(rest)}
    run = read_words(command.words[program_length(command.words) or 0 :])
    hidden = [one.flag for one in run if one.flag in unsaid and one.flag not in seen]
    if hidden:
        raise Misconfigured(
            f"{hidden[0]} hides in a variable of ExecStart=, and the plan leaves it out",
            hint="take it out of the variable, then run this again",
        )


def _model_word(words: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """The lone word after `serve`, and all that follow."""
    if words and not words[0].startswith("-"):
        return words[0], words[1:]
    return None, words


def _divided(arguments: Sequence[Argument]) -> Iterator[Argument]:
    """Options, and apart from them the variables after their values, which may hold any words."""
    for one in arguments:
        apart = next((place for place, word in enumerate(one.words) if place >= 2 and is_variable(word)), None)
        if not one.flag or apart is None:
            yield one
            continue
        yield Argument(one.flag, one.words[1:apart], one.words[:apart])
        yield from (Argument("", (word,), (word,)) for word in one.words[apart:])
