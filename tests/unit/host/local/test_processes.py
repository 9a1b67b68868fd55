"""Processes and listeners out of /proc: this process as it is, and invented tables for what is not here."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from llmops.host import ListeningSocket
from llmops.host.local import LocalHost
from llmops.host.local.listeners import read_listening_sockets
from llmops.host.local.processes import read_process, read_processes

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def test_this_process_is_seen_as_it_is() -> None:
    (found,) = [process for process in LocalHost().processes() if process.pid == os.getpid()]
    assert found.parent_pid == os.getppid()
    assert found.executable == os.path.realpath(sys.executable)
    assert found.uid == os.getuid()
    assert found.argv[1:] == tuple(sys.orig_argv[1:])
    assert found.environment is not None
    assert "PATH" in dict(found.environment)


def process_directory(proc: Path, pid: int, **files: bytes) -> Path:
    directory = proc / str(pid)
    directory.mkdir(parents=True)
    for name, content in files.items():
        (directory / name).write_bytes(content)
    return directory


def test_words_variables_and_groups(tmp_path: Path) -> None:
    process_directory(
        tmp_path,
        7,
        status=b"Name:\tx\nPPid:\t1\nUid:\t33\t33\t33\t33\n",
        cmdline=b"llama-server\0-m\0a b.gguf\0--api-key\0\0",
        environ=b"A=1\0B=x=y\0\0broken\0",
        cgroup=b"12:memory:/m\n1:name=systemd:/system.slice/llama.service\n0::/\n",
    )
    (found,) = read_processes(tmp_path)
    assert found.argv == ("llama-server", "-m", "a b.gguf", "--api-key", "")
    assert found.environment == (("A", "1"), ("B", "x=y"))
    assert (found.parent_pid, found.uid, found.control_group) == (1, 33, "/system.slice/llama.service")
    assert found.executable is None


def test_the_unified_group_counts_where_there_is_no_other(tmp_path: Path) -> None:
    process_directory(tmp_path, 7, status=b"PPid:\t1\n", cmdline=b"", cgroup=b"0::/system.slice/x.service\n")
    (found,) = read_processes(tmp_path)
    assert (found.argv, found.environment, found.control_group) == ((), None, "/system.slice/x.service")


def test_a_process_that_has_gone_is_left_out(tmp_path: Path) -> None:
    assert read_process(tmp_path, 7) is None


def sockets(tmp_path: Path, *rows: str) -> tuple[ListeningSocket, ...]:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp").write_text(HEADER + "".join(row + "\n" for row in rows if row.split()[1].find(":") == 8))
    (tmp_path / "net" / "tcp6").write_text(
        HEADER + "".join(row + "\n" for row in rows if row.split()[1].find(":") == 32)
    )
    return read_listening_sockets(tmp_path)


def row(address: str, state: str, inode: int) -> str:
    return f"   0: {address} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  1000        0 {inode} 1 0"


@pytest.mark.skipif(sys.byteorder != "little", reason="the rows are as a little-endian kernel prints them")
def test_listeners_and_their_owners(tmp_path: Path) -> None:
    for pid, inode in ((1, 55), (300, 55), (400, 66)):
        (process_directory(tmp_path, pid) / "fd").mkdir()
        (tmp_path / str(pid) / "fd" / "3").symlink_to(f"socket:[{inode}]")
    found = sockets(
        tmp_path,
        row("0100007F:1F90", "0A", 55),
        row("0100007F:1F91", "01", 66),
        row("00000000:0016", "0A", 77),
        row("00000000000000000000000001000000:0050", "0A", 66),
    )
    assert found == (
        ListeningSocket("0.0.0.0", 22, None),
        ListeningSocket("::1", 80, 400),
        ListeningSocket("127.0.0.1", 8080, 300),
    )
