"""The table of steps and outcomes that a run of the kill matrix writes."""

from __future__ import annotations

import os
from dataclasses import dataclass

from tests.systemd.root import REPOSITORY

DOCUMENT = REPOSITORY / "docs/reference/never-half-changed.md"
RESULTS = REPOSITORY / ".cache/test-results/never-half-changed"
BEGIN, END = "<!-- begin: written by the tests -->", "<!-- end: written by the tests -->"


@dataclass(frozen=True)
class Row:
    """What a SIGKILL before one step left behind, what running again made of it, and what a reboot did."""

    step: str
    on_disk: str
    engine: str
    run_again: str
    rebooted: str


def table(title: str, rows: list[Row]) -> str:
    """Markdown."""
    lines = [
        f"### {title}",
        "",
        "| killed before | files then | engine then | run again | rebooted instead |",
        "|---|---|---|---|---|",
        *(f"| {row.step} | {row.on_disk} | {row.engine} | {row.run_again} | {row.rebooted} |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def write(name: str, text: str, names: list[str]) -> str:
    """Keep the table of one subject; once there are those of all, LLMOPS_WRITE_TABLES=1 puts them into the document."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
    tables = [RESULTS / f"{one}.md" for one in names]
    if os.environ.get("LLMOPS_WRITE_TABLES") == "1" and all(path.exists() for path in tables):
        head, begin, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
        tail = rest.partition(END)[2]
        inner = "\n".join(path.read_text(encoding="utf-8") for path in tables)
        DOCUMENT.write_text(f"{head}{begin}\n\n{inner}\n{END}{tail}", encoding="utf-8")
    return text
