"""What we say of a service that reads a file, against what the real systemd and kernel let it do."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.systemd.machine import Machine

pytestmark = [pytest.mark.systemd, pytest.mark.timeout(1800)]

SETTINGS = (
    "",
    "User=vllm",
    "User=vllm\nSupplementaryGroups=shared",
    "User=vllm\nGroup=shared",
    "User=vllm\nProtectHome=read-only",
    "DynamicUser=yes",
    "DynamicUser=yes\nProtectHome=tmpfs\nBindReadOnlyPaths=/home/me/models",
    "DynamicUser=yes\nProtectHome=tmpfs\nBindReadOnlyPaths=/data/link",
    "DynamicUser=yes\nBindReadOnlyPaths=/var/tmp/models",
    "ProtectHome=yes",
    "ProtectHome=yes\nBindReadOnlyPaths=/home/you/models",
    "PrivateTmp=yes",
    "InaccessiblePaths=/data",
    "TemporaryFileSystem=/data\nBindReadOnlyPaths=/data/open",
    "CapabilityBoundingSet=",
    "CapabilityBoundingSet=CAP_DAC_READ_SEARCH",
    "User=vllm\nAmbientCapabilities=CAP_DAC_READ_SEARCH",
    "User=vllm\nAmbientCapabilities=CAP_NET_BIND_SERVICE",
    "PrivateUsers=yes",
)
FILES = {
    "/data/open/m": 0o644,
    "/data/closed/m": 0o644,
    "/data/secret/m": 0o600,
    "/data/group/m": 0o640,
    "/data/others/m": 0o600,
    "/home/me/models/m": 0o644,
    "/home/you/models/m": 0o644,
    "/var/tmp/models/m": 0o644,
}
LINK = "/data/link"
# Makes a unit for every pair, starts each, and says how it ended and what llmops says of it.
SCRIPT = """
import json, subprocess, sys
from pathlib import Path
from llmops.actions.readable import obstacle
from llmops.host.local import LocalHost
from llmops.systemd import unit_files

settings, paths = json.loads(sys.argv[1])
host, cases = LocalHost(), []
for number, (text, path) in enumerate((one, other) for one in settings for other in paths):
    unit = f"reads-{number}.service"
    lines = f"[Service]\\nType=oneshot\\nStandardOutput=null\\nExecStart=/bin/cat {path}\\n{text}\\n"
    Path(f"/run/systemd/system/{unit}").write_text(lines)
    cases.append((unit, text, path))
subprocess.run(["systemctl", "daemon-reload"], check=True)
for unit, text, path in cases:
    reads = subprocess.run(["systemctl", "start", unit], capture_output=True).returncode == 0
    said = obstacle(host, unit, unit_files(host, unit), (path,))
    print(json.dumps([text, path, reads, said and said.message]))
"""


def test_the_rule_says_what_the_kernel_does(new_machine: Callable[..., Machine]) -> None:
    machine = new_machine(dict.fromkeys(FILES, "weights"), FILES)
    for path, mode in (("/data/closed", 0o700), ("/home/me", 0o700)):
        machine.path(path).chmod(mode)
    machine.path(LINK).symlink_to("/home/me/models")
    for words in (("groupadd", "shared"), ("useradd", "--system", "vllm"), ("chgrp", "shared", "/data/group/m")):
        assert machine.run(*words).exit_code == 0
    assert machine.run("chown", "daemon", "/data/others/m").exit_code == 0
    machine.write("/opt/inside/reads.py", SCRIPT)
    asked = json.dumps([SETTINGS, [*FILES, f"{LINK}/m"]])
    answer = machine.run("/opt/llmops/bin/python3", "/opt/inside/reads.py", asked)
    assert answer.exit_code == 0, answer
    cases = [json.loads(line) for line in answer.stdout.splitlines()]
    assert len(cases) == len(SETTINGS) * (len(FILES) + 1)
    wrong = [case for case in cases if case[2] is not (case[3] is None)]
    assert wrong == []
    assert len({case[2] for case in cases}) == 2
