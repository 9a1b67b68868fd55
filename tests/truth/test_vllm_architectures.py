"""What published servers served is never refused for the release that served it."""

from __future__ import annotations

from dataclasses import replace

from llmops.core.version import Version
from llmops.engines.found import InForce, Installation
from llmops.engines.vllm.releases import OLDEST
from llmops.engines.vllm.supported import check_served
from tests.truth.vllm_rows import Row, model_for, rows, versions_of
from tests.unit.engines.vllm_host import VllmHost

_NOT_HERE = Installation("vllm", "absent", ("vllm",), None, None, None)


def _doubts(row: Row, version: Version) -> tuple[str, ...]:
    """What is said of the model of a row for a release; raise Unsupported where it is refused."""
    return check_served(VllmHost(), model_for(row), replace(_NOT_HERE, version=version), InForce())


def test_what_was_served_is_served() -> None:
    # A row may stand for several releases: the server ran with one of them.
    started = [row for file in ("figures.yaml", "figures_more.yaml") for row in rows(file) if row.arch is not None]
    assert len(started) >= 90
    in_doubt = [row for row in started if all(_doubts(row, version) for version in versions_of(row))]
    assert [row.id for row in in_doubt] == [row.id for row in started if max(versions_of(row)) < OLDEST]
