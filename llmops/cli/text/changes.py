"""Files that would change as a unified diff, and checks as a table."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from llmops.cli.text.layout import bad, caution, faint, good, heading, pairs, sections, table, wrapped
from llmops.core.files import Change
from llmops.core.verification import Check, CheckStatus

_MARKS = {CheckStatus.PASS: good("pass"), CheckStatus.FAIL: bad("fail"), CheckStatus.NOT_EVALUATED: caution("not seen")}


def diff_text(changes: Sequence[Change]) -> str:
    """A unified diff of every file, removed and new ones against /dev/null."""
    return "\n".join(_diff(change) for change in changes)


def _diff(change: Change) -> str:
    before = (change.before or "").splitlines()
    after = (change.after or "").splitlines()
    old = "/dev/null" if change.before is None else change.path
    new = "/dev/null" if change.after is None else change.path
    lines = [_coloured(line) for line in difflib.unified_diff(before, after, old, new, lineterm="")]
    if not lines and change.before_mode != change.after_mode:
        lines = [f"{change.path}: mode {_mode(change.before_mode)} -> {_mode(change.after_mode)}"]
    return "\n".join(lines)


def _mode(mode: int | None) -> str:
    return "none" if mode is None else f"{mode:04o}"


def _coloured(line: str) -> str:
    if line.startswith(("+++", "---")):
        return heading(line)
    if line.startswith("@@"):
        return faint(line)
    return good(line) if line.startswith("+") else bad(line) if line.startswith("-") else line


def checks_text(checks: Sequence[Check], *, verbose: bool = False) -> str:
    """Every check with its verdict; what failed or was not seen says more underneath, with `verbose` all do."""
    if not checks:
        return ""
    rows = [(check.name, _MARKS[check.status], check.expected, check.observed or "-") for check in checks]
    details = [(check.name, check.detail) for check in checks if verbose or check.status is not CheckStatus.PASS]
    counted = ", ".join(
        f"{sum(check.status is status for check in checks)} {word}"
        for status, word in (
            (CheckStatus.PASS, "passed"),
            (CheckStatus.FAIL, "failed"),
            (CheckStatus.NOT_EVALUATED, "not evaluated"),
        )
    )
    return sections(
        (
            heading("Checks") + "\n" + table(rows, ("check", "verdict", "expected", "observed"), left_columns=4),
            pairs(details),
            wrapped(counted),
        )
    )
