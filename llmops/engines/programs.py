"""Programs of engines on disk."""

from __future__ import annotations

from collections.abc import Sequence

from llmops.host import Host


def programs_on_disk(
    host: Host, name: str, directories: Sequence[str], home_directories: Sequence[str] = ()
) -> tuple[str, ...]:
    """Files called `name`: the one on PATH first, then those in directories, also below the home; each file once."""
    home = host.environment().get("HOME", "")
    below_home = [f"{home}/{place}" for place in home_directories] if home.startswith("/") else []
    on_path = host.which(name)
    found: dict[str, str] = {}
    for path in ([on_path] if on_path else []) + [f"{place}/{name}" for place in (*directories, *below_home)]:
        try:
            if host.status(path).kind == "file":
                found.setdefault(host.resolve(path), path)
        except OSError:
            continue
    return tuple(found.values())
