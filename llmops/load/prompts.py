"""Prompts of a wanted length that share no beginning, so that no cache can answer for the model."""

from __future__ import annotations

import random

# ruff: noqa: SIM905
# Short common words: with the space before them one token each in the vocabularies of today's models.
_WORDS = (
    "time year people way day man thing woman life child world school state family student group country problem hand "
    "part place case week company system program question work government number night point home water room mother "
    "area money story fact month lot right study book eye job word business issue side kind head house service friend "
    "father power hour game line end member law car city community name president team minute idea body information"
).split()
# What a chat template puts around one user message, roughly.
_TEMPLATE_TOKENS = 12


def random_prompt(prompt_tokens: int, seed: int) -> str:
    """About `prompt_tokens` tokens with the template around them; the same seed gives the same text."""
    words = random.Random(seed)  # noqa: S311 - repeatable, not secret
    return " ".join(words.choice(_WORDS) for _ in range(max(1, prompt_tokens - _TEMPLATE_TOKENS)))
