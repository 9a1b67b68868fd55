"""What the engines of a machine serve now, for people."""

from __future__ import annotations

from llmops.actions.serving_now import NOT_RUNNING, ServingNow
from llmops.cli.text.layout import heading, wrapped

_NAMES = {
    "models": "model",
    "slots": "slots",
    "context_tokens_per_slot": "context",
    "url": "address",
    "requests_in_flight": "in flight",
}
_VALUES, _NAMES_AT = " " * 15, " " * 4


def serving_text(found: tuple[ServingNow, ...]) -> str:
    """One paragraph per engine that runs, one line for each that does not."""
    paragraphs = [_engine_text(row) for row in found] or [wrapped("no engine was found")]
    return "\n".join((heading("Serving"), *paragraphs))


def _engine_text(row: ServingNow) -> str:
    unseen = dict(row.unseen)
    version = f" {row.version}" if row.version else ""
    problem = f" ({unseen['version']})" if not row.version else ""
    if not row.running:
        return wrapped(f"{row.engine}{version}, {_where(row)}: {NOT_RUNNING}{problem}", rest=_NAMES_AT)
    title = wrapped(f"{row.engine}{version}, {_where(row)}", rest=_NAMES_AT)
    version_row = () if row.version else (("version", f"not observed: {unseen['version']}"),)
    rows = (*version_row, *((name, _value(row, part, unseen)) for part, name in _NAMES.items()))
    lines = (wrapped(value, first=f"{_NAMES_AT}{name}".ljust(len(_VALUES)), rest=_VALUES) for name, value in rows)
    return "\n".join((title, *lines))


def _where(row: ServingNow) -> str:
    """How it is managed; the detail of a unit is only its name."""
    if row.unit is None:
        return row.detail if row.managed_by == "process" else f"{row.managed_by}: {row.detail}"
    return f"unit {row.unit}" if row.pid is None else f"unit {row.unit}, process {row.pid}"


def _value(row: ServingNow, part: str, unseen: dict[str, str]) -> str:
    if part in unseen:
        return f"not observed: {unseen[part]}"
    if part == "models":
        return ", ".join(row.models or ()) or "none is loaded"
    if part == "context_tokens_per_slot":
        return f"{row.context_tokens_per_slot:,} tokens per slot"
    if part == "requests_in_flight":
        return "1 request" if row.requests_in_flight == 1 else f"{row.requests_in_flight} requests"
    return str(getattr(row, part))
