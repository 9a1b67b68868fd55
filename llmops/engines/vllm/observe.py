"""What a running vLLM was started with."""

from __future__ import annotations

from collections.abc import Sequence

from llmops.engines.base import InForce, Installation
from llmops.engines.seeing import Unseen, unit_part
from llmops.host import Host


def observe(host: Host, installation: Installation) -> InForce:
    """The process, its words and its model; the rest is not looked at."""
    unseen = Unseen()
    seen = unit_part(host, installation, unseen)
    process = next((one for one in host.processes() if one.pid == seen.pid), None)
    words = process.argv if process else seen.configured_arguments or ()
    return InForce(
        pid=seen.pid,
        arguments=process.argv if process else None,
        environment=process.environment if process else None,
        configured_arguments=seen.configured_arguments,
        configured_environment=seen.configured_environment,
        model_path=model_of(words),
        unseen=tuple(unseen.reasons.items()),
    )


def model_of(words: Sequence[str]) -> str | None:
    """The model in a command line: after --model, else the word after `serve`; None where there is none."""
    for place, word in enumerate(words):
        if word.startswith("--model="):
            return word.partition("=")[2]
        if word == "--model" and place + 1 < len(words):
            return words[place + 1]
    after = list(words).index("serve") + 1 if "serve" in words else len(words)
    return words[after] if after < len(words) and not words[after].startswith("-") else None
