"""Puts the real HAProxy of this machine into a test machine."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from tests.systemd.conftest import absent
from tests.systemd.machine import Machine

HAPROXY = "/usr/sbin/haproxy"


def install_haproxy(machine: Machine) -> None:
    """This machine's own HAProxy with the libraries that the small disk lacks; both have the same release."""
    program = shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        absent("haproxy is not installed")
    linked = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    for path in (str(program), *re.findall(r"=> (/\S+)", linked)):
        inside = machine.path(HAPROXY if path == program else path)
        if not inside.exists():
            inside.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(path).resolve(), inside)
