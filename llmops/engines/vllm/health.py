"""Whether a vLLM is ready, by its /health."""

from __future__ import annotations

from llmops.engines.base import Health
from llmops.host import Host

_READY, _DEAD = 200, 503


def health(host: Host, url: str) -> Health:
    """200 with an empty body once it serves; while it loads nobody listens. 503: its engine has died, it ends soon."""
    try:
        answer = host.get(f"{url}/health", timeout_seconds=2.0)
    except (ConnectionRefusedError, TimeoutError):
        return Health.DOWN
    except ConnectionError:  # somebody listens and speaks no HTTP, or never stops
        return Health.NONSENSE
    if answer.status == _READY and not answer.body.strip():
        return Health.READY
    return Health.DOWN if answer.status == _DEAD and not answer.body.strip() else Health.NONSENSE
