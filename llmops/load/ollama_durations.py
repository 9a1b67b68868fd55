"""The durations that Ollama puts into the last object of an answer, and the wait for a slot that they leave over."""

from __future__ import annotations

import json
from dataclasses import dataclass

_NANOSECONDS = 1e9  # api/types.go: every duration is in nanoseconds


@dataclass(frozen=True)
class Durations:
    """Seconds of one request. `load_seconds` holds the wait for a model that is loaded; a duration of 0 is left out.

    `prompt_tokens` counts cached ones too, `prompt_seconds` only the time for those that were not.
    """

    total_seconds: float
    load_seconds: float
    prompt_seconds: float
    reply_seconds: float
    prompt_tokens: int
    reply_tokens: int
    done_reason: str | None = None

    @property
    def queue_seconds(self) -> float:
        """The wait for a free slot, which is in none of the parts, with some milliseconds for template and tokens."""
        return max(0.0, self.total_seconds - self.load_seconds - self.prompt_seconds - self.reply_seconds)


def read_durations(text: str) -> Durations | None:
    """The durations in the last object of an answer of /api/chat or /api/generate; None where it is unfinished."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or document.get("done") is not True or "total_duration" not in document:
        return None
    keys = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")
    seconds = [_number(document.get(key)) / _NANOSECONDS for key in keys]
    counts = [int(_number(document.get(key))) for key in ("prompt_eval_count", "eval_count")]
    reason = document.get("done_reason")
    return Durations(
        total_seconds=seconds[0],
        load_seconds=seconds[1],
        prompt_seconds=seconds[2],
        reply_seconds=seconds[3],
        prompt_tokens=counts[0],
        reply_tokens=counts[1],
        done_reason=reason if isinstance(reason, str) else None,
    )


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0
