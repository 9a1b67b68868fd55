"""Keeps and prints what was checked."""

from __future__ import annotations

from dataclasses import dataclass, field

MIB = 1024**2


@dataclass
class Report:
    """One line per check; `left_out` are those that this machine cannot be asked for."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def check(self, name: str, *, holds: bool, detail: str = "") -> None:
        """One thing that must hold."""
        print(f"{'ok  ' if holds else 'BAD '} {name}{': ' if detail else ''}{detail}", flush=True)
        if holds:
            self.passed += 1
        else:
            self.failed.append(name)

    def same(self, name: str, ours: object, theirs: object) -> None:
        """Two readings of one value that must be equal."""
        self.check(name, holds=ours == theirs, detail=f"{ours}" if ours == theirs else f"{ours}, nvidia-smi: {theirs}")

    def close(self, name: str, ours: float | None, theirs: float | None, most_apart: float) -> None:
        """Two readings of a value that changes, or is rounded."""
        if theirs is None:
            self.leave_out(name, "nvidia-smi does not tell")
            return
        holds = ours is not None and abs(ours - theirs) <= most_apart
        self.check(name, holds=holds, detail=f"{ours}, nvidia-smi: {theirs}")

    def leave_out(self, name: str, why: str) -> None:
        """Something that cannot be checked here."""
        print(f"--   {name}: not checked: {why}", flush=True)
        self.left_out.append(name)

    def end(self) -> int:
        """Print the last line; the exit code."""
        counts = f"{self.passed} checked, {len(self.failed)} failed, {len(self.left_out)} not checked"
        print(f"{'FAIL' if self.failed else 'PASS'} {counts}", flush=True)
        return 1 if self.failed else 0
