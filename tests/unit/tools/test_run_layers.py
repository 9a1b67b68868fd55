"""What `make test` makes of the reports of its layers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.run_layers import Outcome, read_report, summary

REPORT = """<testsuites><testsuite tests="7" failures="1" errors="1" skipped="2"/></testsuites>"""


def written(tmp_path: Path, text: str = REPORT) -> Path:
    path = tmp_path / "layer.xml"
    path.write_text(text)
    return path


def test_errors_count_as_failures(tmp_path: Path) -> None:
    assert read_report("unit", written(tmp_path), 1, 2.0) == Outcome("unit", 3, 2, 2, 2.0)


def test_a_run_that_broke_off_is_a_failure(tmp_path: Path) -> None:
    assert read_report("unit", tmp_path / "absent.xml", 139, 2.0).failed == 1
    whole = written(tmp_path, '<testsuite tests="4" failures="0" errors="0" skipped="0"/>')
    assert read_report("unit", whole, 3, 2.0) == Outcome("unit", 4, 1, 0, 2.0)


def test_no_tests_are_not_a_success(tmp_path: Path) -> None:
    assert read_report("systemd", tmp_path / "absent.xml", 5, 0.1).ran is False


@pytest.mark.parametrize(
    ("outcome", "failures"),
    [
        (Outcome("systemd", reason="debootstrap missing", removable=True), 1),
        (Outcome("systemd", reason="needs root", removable=False), 0),
        (Outcome("systemd", skipped=4), 1),
        (Outcome("systemd", passed=4, skipped=1), 0),
        (Outcome("systemd", passed=4, failed=2), 2),
    ],
)
def test_a_layer_that_could_run_and_did_not_fails_where_all_are_required(outcome: Outcome, failures: int) -> None:
    lines, passed, failed = summary([Outcome("unit", passed=10), outcome], all_required=True)
    assert (passed, failed) == (10 + outcome.passed, failures)
    assert any("systemd" in line for line in lines)
    assert summary([outcome], all_required=False)[2] == outcome.failed
