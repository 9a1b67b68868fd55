"""Who a service runs as: the numbers that this machine gives to its user and groups, and which mode bits hold then."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from llmops.host import FileStatus, Host
from llmops.systemd import Confinement

# `id` prints uid=998(vllm) gid=998(vllm) groups=998(vllm),44(video).
_USER = re.compile(r"uid=(\d+)")
_GROUPS = re.compile(r"(?:gid=|groups=|,)(\d+)")


@dataclass(frozen=True)
class Account:
    """Who a service runs as: `uid` None is a number that nobody else has, so that no file is its own."""

    name: str
    uid: int | None = None
    groups: frozenset[int] = frozenset()
    reads_all: bool = False


class Undecided(Exception):
    """What cannot be told: an access list, another root directory, an account that is not known here."""


def account_of(host: Host, confined: Confinement) -> Account:
    """The account by its numbers here; raise Undecided where this machine does not know it."""
    name = confined.user or (PurePosixPath(confined.unit).stem.partition("@")[0] if confined.is_dynamic else "root")
    if name in {"root", "0"}:
        return Account("root", 0, frozenset({0}), confined.root_reads_all)
    said = said_by(host, "id", name)
    groups = frozenset(_group(host, group) for group in confined.groups)
    uid = _USER.search(said)
    if uid is not None:
        own = frozenset(int(number) for number in _GROUPS.findall(said))
        return Account(f"the user {name}", int(uid[1]), own | groups, confined.reads_all)
    if not confined.is_dynamic:
        raise Undecided(f"{confined.unit} runs as {name}, whom this machine does not know")
    return Account("an account of its own", None, groups, confined.reads_all)


def _group(host: Host, name: str) -> int:
    if name.isdecimal():
        return int(name)
    number = said_by(host, "getent", "group", name).split(":")[2:3]
    if not number:
        raise Undecided(f"the group {name} is not known here")
    return int(number[0])


def said_by(host: Host, *argv: str) -> str:
    """What a program prints; raise Undecided where it cannot be asked."""
    try:
        return host.query(argv).stdout
    except (OSError, TimeoutError) as problem:
        raise Undecided(f"{argv[0]} cannot be asked: {problem}") from None


def mode_for(account: Account, status: FileStatus) -> int:
    """The three bits that hold for this account: those of the owner, of the group or of the others, never a mix."""
    if account.uid is not None and account.uid == status.uid:
        return status.mode >> 6
    return status.mode >> 3 if status.gid in account.groups else status.mode
