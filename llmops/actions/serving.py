"""Whether an engine serves, and waiting until nobody is being served, so that a restart cuts no answer."""

from __future__ import annotations

from collections.abc import Callable

from llmops.engines.base import Engine, Health
from llmops.engines.found import Installation
from llmops.host import Host

POLL_SECONDS = 1.0


def serves(host: Host, engine: Engine, installation: Installation) -> bool:
    """True once the engine says that it is ready."""
    url = engine.in_force(host, installation).url
    return url is not None and engine.health(host, url) is Health.READY


def drain(
    host: Host,
    engine: Engine,
    installation: Installation,
    *,
    limit_seconds: float,
    progress: Callable[[str], None],
) -> bool:
    """True once no request is being processed, or where that cannot be seen; False when the time is over first."""
    deadline = host.monotonic() + limit_seconds
    said: int | None = None
    while True:
        processing = engine.in_force(host, installation).processing
        if not processing:
            return True
        if host.monotonic() >= deadline:
            progress(f"{processing} requests are still being served after {limit_seconds:g} s: restarting anyway")
            return False
        if processing != said:
            progress(f"waiting for {processing} requests to end (up to {limit_seconds:g} s)")
            said = processing
        host.sleep(POLL_SECONDS)
