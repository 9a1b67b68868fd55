"""The conversion of reported cases: by keys alone, nothing lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.cases.import_cases import import_cases, main
from tests.cases.normalise import normalise

CASES = """
schema: 1
cases:
- id: first
  engine: ollama
  version: "0.32"
  kind: probe
  hw: {ram_gib: 8}
  inputs:
    files:
      /proc/meminfo: {MemTotal_kib: 1024}
      /sys/fs/cgroup/cpu.stat: {nr_periods: 4}
      /etc/one: one line
    logs: ["a", "b"]
    which: /snap/bin/ollama
    sched_getaffinity: 96
    nvml_index1_total_mib: 2
    nvml_mig_device_total_mib: 1
    never_seen_before: {x: [1]}
  expect: {finding: something, values: {threads: 7}}
- id: second
  kind: doctor
  inputs: {journal: "one\\ntwo\\n"}
"""


def load(path: Path) -> object:
    return YAML(typ="safe").load(path)


def test_every_key_finds_its_place_or_is_kept_as_a_note(tmp_path: Path) -> None:
    (tmp_path / "cases.yaml").write_text(CASES)
    assert import_cases(tmp_path / "cases.yaml", tmp_path / "out") == ("first", "second")
    assert load(tmp_path / "out/first/evidence.yaml") == {
        "schema": 1,
        "engine": "ollama",
        "engine_version": "0.32",
        "reported": {"ram_gib": 8},
        "files": {
            "/proc/meminfo": "MemTotal: 1024 kB\n",
            "/sys/fs/cgroup/cpu.stat": "nr_periods 4\n",
            "/etc/one": "one line\n",
        },
        "engine_log": ["a", "b"],
        "programs": {"ollama": "/snap/bin/ollama"},
        "cpu": {"affinity_cpus": 96},
        "nvml": {
            "devices": [
                {"index": 0, "instances": [{"total_bytes": 1024**2}]},
                {"index": 1, "total_bytes": 2 * 1024**2},
            ]
        },
        "notes": {"never_seen_before": {"x": [1]}},
    }
    assert load(tmp_path / "out/first/expect.yaml") == {
        "kind": "probe",
        "finding": "something",
        "values": {"threads": 7},
    }
    assert load(tmp_path / "out/second/evidence.yaml") == {"schema": 1, "engine": "any", "journal": ["one", "two"]}


def test_only_the_wanted_kinds(tmp_path: Path) -> None:
    (tmp_path / "cases.yaml").write_text(CASES)
    assert main([str(tmp_path / "cases.yaml"), str(tmp_path / "out"), "--kind", "doctor"]) == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["second"]


def test_two_keys_of_one_place_are_put_together() -> None:
    evidence, _ = normalise({"inputs": {"logs": ["a"], "service_log": ["b"]}})
    assert evidence["engine_log"] == ["a", "b"]


def test_a_key_of_an_unexpected_form_becomes_a_note() -> None:
    evidence, _ = normalise({"inputs": {"files": "not a mapping", "logs": 5}})
    assert evidence["notes"] == {"files": "not a mapping", "logs": 5}


@pytest.mark.parametrize("text", ["", "cases: 5", "- 1", "cases:\n- id: ../up", "cases: [5]", "a: [", "cases:\n- {}"])
def test_another_file_is_refused(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cases.yaml").write_text(text)
    assert main([str(tmp_path / "cases.yaml"), str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    assert main([str(tmp_path / "none.yaml"), str(tmp_path / "out")]) == 2
