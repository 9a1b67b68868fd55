"""Reported cases of the kind `probe`: what the probe finds on a machine of which only the evidence is known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from llmops.actions.target import require_appliable
from llmops.core.errors import NotInstalled, Unsupported
from llmops.core.hardware import Hardware
from llmops.core.notices import hardware_notices
from llmops.engines import ENGINES
from llmops.host import Host
from llmops.probe import read_hardware
from tests.cases.evidence_host import EvidenceHost
from tests.unit.core.example_models import one_card
from tests.unit.core.test_machine_warnings import planned

REPORTED = Path(__file__).parent / "reported"
BYTES = {"_gib": 1024**3, "_mib": 1024**2}


def read(name: str, part: str) -> dict[str, Any]:
    document: dict[str, Any] = YAML(typ="safe").load(REPORTED / name / f"{part}.yaml")
    return document


CASES = sorted(path.name for path in REPORTED.iterdir())
PROBE_CASES = [name for name in CASES if read(name, "expect").get("kind") == "probe"]


def findings(host: Host, hardware: Hardware) -> dict[str, dict[str, Any]]:
    """What is told of the machine and of the engines on it, by id, with the values that it rests on."""
    found = {notice.code: dict(notice.values) for notice in hardware_notices(hardware)}
    plan = planned(one_card())
    for engine in ENGINES:
        for installation in engine.detect(host):
            try:
                require_appliable(engine, installation, plan, install_unit=True)
            except NotInstalled:
                continue
            except Unsupported:
                found["unsupported-install-method"] = {"install_method": installation.managed_by}
    return found


def comparable(values: Mapping[str, Any], name: str) -> Any:
    """The value of that name; sizes in the unit that the case gives, rounded as it rounds."""
    for suffix, unit in BYTES.items():
        if name.endswith(suffix):
            return values[name.removesuffix(suffix) + "_bytes"] / unit
    return values[name]


def test_the_cases_are_there() -> None:
    assert len(PROBE_CASES) >= 7


@pytest.mark.parametrize("name", PROBE_CASES)
def test_the_probe_finds_what_was_reported(name: str) -> None:
    expected = read(name, "expect")
    host = EvidenceHost(read(name, "evidence"))
    hardware = read_hardware(host)
    found = findings(host, hardware)
    assert expected["finding"] in found
    for key, value in (expected.get("values") or {}).items():
        seen = comparable(found[expected["finding"]], key)
        assert seen == (pytest.approx(value, abs=tolerance(value)) if isinstance(value, float) else whole(seen, value))
    for wrong in expected.get("must_not") or ():
        if isinstance(wrong, int):
            assert wrong not in seen_mebibytes(hardware)


def tolerance(value: float) -> float:
    """Half of the last digit that is given."""
    return 0.5 * 10.0 ** -len(str(value).partition(".")[2])


def whole(seen: Any, value: Any) -> Any:
    """A size of so many whole units matches what it is cut down to."""
    return seen if isinstance(seen, float) and int(seen) == value else value


def seen_mebibytes(hardware: Hardware) -> set[int]:
    return {(gpu.total_bytes or 0) // 1024**2 for gpu in hardware.gpus}


def test_nothing_is_found_on_an_unknown_machine() -> None:
    host = EvidenceHost({"schema": 1})
    assert findings(host, read_hardware(host)) == {}
