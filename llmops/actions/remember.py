"""Keeping the remembered plan in step with the history, so that the next plan knows what is live."""

from __future__ import annotations

from llmops import checkpoint
from llmops.core.documents import plan_from_document
from llmops.host import MutableHost
from llmops.state import forget_applied_plan, write_applied_plan


def remember_applied_plan(host: MutableHost, engine: str) -> None:
    """The plan of the newest change in effect becomes the remembered one; none where nothing is in effect."""
    live = checkpoint.in_effect(checkpoint.read_checkpoints(host), engine)
    document = checkpoint.read_plan(host, live[-1].identifier) if live else None
    if document is None:
        forget_applied_plan(host, engine)
    else:
        write_applied_plan(host, plan_from_document(document, f"change {live[-1].identifier}"))
