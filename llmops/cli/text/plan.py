"""A plan for people: what is served, memory, speed, what binds, what to type next."""

from __future__ import annotations

from collections.abc import Sequence

from llmops.cli.settings import Given
from llmops.cli.text.budgets import budget_text
from llmops.cli.text.layout import bullets, caution, heading, sections, shell_lines, table, wrapped
from llmops.cli.text.plan_summary import summary_text
from llmops.core.plan import Plan, Reason, Speed
from llmops.core.recommendation import Recommendation


def plan_text(plan: Plan, *, title: str = "Plan") -> str:
    """Summary, memory table, speed table and warnings."""
    return sections(
        (
            summary_text(plan, title),
            budget_text(plan.budgets),
            speed_text(plan.speeds, knee=_knee(plan)),
            warnings_text(plan),
        )
    )


def _knee(plan: Plan) -> str | None:
    return next((reason.value for reason in plan.reasons if reason.quantity == "knee"), None)


def speed_text(speeds: Sequence[Speed], *, knee: str | None = None) -> str:
    """Rates at several numbers of streams, where more of them add little, and what was measured or predicted."""
    if not speeds:
        return ""
    bases = sorted({speed.basis for speed in speeds})
    headers = ["streams", "tokens/s each", "together", "prompt tokens/s", "first token"]
    rows = [list(_speed_row(speed)) for speed in speeds]
    if len(bases) > 1:
        headers.append("basis")
        rows = [[*row, speed.basis] for row, speed in zip(rows, speeds, strict=True)]
    note = "\n" + wrapped("verifying measures them; the next plan then uses what was measured")
    most = "" if knee is None else "\n" + wrapped(f"more at once add little: {knee}")
    body = table(rows, headers, left_columns=0) + most + (note if "predicted" in bases else "")
    return heading(f"Speed, {' and '.join(bases)}") + "\n" + body


def _speed_row(speed: Speed) -> tuple[str, ...]:
    rate = speed.decode_tokens_per_second_per_stream
    each = f"{rate.likely:.1f}" if rate.low == rate.high else f"{rate.low:.1f} to {rate.high:.1f}"
    total, prefill = speed.decode_tokens_per_second_total, speed.prefill_tokens_per_second
    return (str(speed.streams), each, f"{total:.1f}", f"{prefill:.0f}", f"{speed.ttft_seconds:.1f} s")


def warnings_text(plan: Plan) -> str:
    """One line per warning."""
    return caution("Warnings") + "\n" + bullets(plan.warnings) if plan.warnings else ""


def recommendation_text(found: Recommendation) -> str:
    """Which engine suits, and why."""
    return heading("Engine") + "\n" + wrapped(found.message) + "\n" + bullets(found.reasons)


def reasons_text(reasons: Sequence[Reason]) -> str:
    """Every number with formula, inputs and source."""
    blocks = []
    for reason in reasons:
        inputs = ", ".join(f"{name} {value}" for name, value in reason.inputs)
        lines = [wrapped(f"{reason.quantity} = {reason.value}"), wrapped(reason.formula, first="      ", rest="      ")]
        if inputs:
            lines.append(wrapped(inputs, first="      with ", rest="           "))
        lines.append(wrapped(reason.source, first="      source: ", rest="              "))
        blocks.append("\n".join(lines))
    return heading("Why") + "\n" + "\n".join(blocks) if blocks else ""


def settings_text(rows: Sequence[Given]) -> str:
    """Each option with its value and whether flag, file or default set it."""
    shown = [(row.name, _value(row.value), row.source) for row in rows]
    return heading("Settings") + "\n" + table(shown, ("option", "value", "from"), left_columns=3)


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(str(entry) for entry in value)
    return "no idle time" if value is None else str(value)


def next_step(command: str) -> str:
    """The command to type next, in lines that a shell reads as one."""
    return f"{heading('Next')}\n{shell_lines(command)}"
