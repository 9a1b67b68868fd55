"""The local cache of the Hugging Face hub: `org/name` or `org/name@revision` to a directory. The network is never used.

Layout: huggingface_hub's `constants.py` and `file_download.py`: models--ORG--NAME/refs/REVISION holds a commit,
models--ORG--NAME/snapshots/COMMIT the files, as links into models--ORG--NAME/blobs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from llmops.core.errors import NoPermission, UnreadableInput
from llmops.models.gguf_reader import unreadable
from llmops.models.hf_files import CONFIG, MOST_NAMED, ModelDirectory, list_names
from llmops.models.json_file import read_piece

if TYPE_CHECKING:
    from llmops.host import Host

# The caches of the users that services and containers usually run as.
SYSTEM_HOMES = ("/root", "/var/lib/vllm", "/home/vllm")
_PART = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
_REPOSITORY = re.compile(rf"({_PART})/({_PART})(?:@({_PART}(?:/{_PART}){{0,3}}))?")
_COMMIT = re.compile(r"[0-9a-f]{40}")
MAX_REFERENCE_BYTES = 256
DEFAULT_REVISION = "main"


class Repository(NamedTuple):
    """A model's name on the hub; `revision` is a branch, a tag or (the begin of) a commit, None for the default."""

    owner: str
    name: str
    revision: str | None

    @property
    def directory(self) -> str:
        """Its directory in a cache."""
        return f"models--{self.owner}--{self.name}"


def parse_repository(reference: str) -> Repository | None:
    """The repository that a reference names; None where it cannot be one."""
    found = _REPOSITORY.fullmatch(reference)
    if found is None or ".." in reference or "--" in f"{found.group(1)}/{found.group(2)}":
        return None
    return Repository(found.group(1), found.group(2), found.group(3))


def caches_of(environment: Mapping[str, str], home: str | None = None) -> tuple[str, ...]:
    """Where one user's programs keep the hub's files, by its environment; `home` where that has no HOME."""
    home = environment.get("HOME") or home or ""
    general = environment.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else "")
    base = environment.get("HF_HOME") or (f"{general}/huggingface" if general else "")
    places = (
        environment.get("HF_HUB_CACHE"), environment.get("HUGGINGFACE_HUB_CACHE"), f"{base}/hub" if base else None
    )  # fmt: skip
    chosen = next((place for place in places if place), "")
    if chosen.startswith("~/") and home:
        chosen = home + chosen[1:]
    return (chosen,) if chosen.startswith("/") else ()


def usual_caches(host: Host) -> tuple[str, ...]:
    """The own cache first, then those of the users that servers run as."""
    others = (place for home in SYSTEM_HOMES for place in caches_of({}, home))
    return tuple(dict.fromkeys((*caches_of(host.environment()), *others)))


def find_snapshot(host: Host, repository: Repository, caches: Sequence[str]) -> str | None:
    """The directory of a repository's files in the first cache that has it; None where none has.

    Raises UnreadableInput for a revision that is not there or was not downloaded whole, NoPermission for a cache that
    may not be read.
    """
    refused: NoPermission | None = None
    for cache in caches:
        place = f"{cache}/{repository.directory}"
        try:
            if host.status(place).kind == "directory":
                return _snapshot(host, place, repository)
        except PermissionError:
            refused = refused or NoPermission(
                f"{cache}: this cache of models may not be read by this user", hint="run it as root: sudo llmops ..."
            )
        except OSError:
            continue
    if refused is not None:
        raise refused
    return None


def _snapshot(host: Host, place: str, repository: Repository) -> str:
    commits = _commits(host, place)
    commit = _wanted(host, place, repository, commits)
    path = f"{place}/snapshots/{commit}"
    directory = ModelDirectory(host, path)
    if not directory.has(CONFIG) and not directory.ending(".gguf"):
        raise unreadable(path, f"{CONFIG} of the model is missing", directory.download_hint())
    return path


def _commits(host: Host, place: str) -> tuple[str, ...]:
    try:
        host.status(f"{place}/snapshots")
    except FileNotFoundError:
        return ()
    return tuple(name for name in list_names(host, f"{place}/snapshots") if _COMMIT.fullmatch(name))


def _wanted(host: Host, place: str, repository: Repository, commits: tuple[str, ...]) -> str:
    """The commit of the revision asked for, of the default one, or of the only one that is there."""
    if not commits:
        raise unreadable(
            place, "nothing of the model was downloaded yet", "download it: hf download " + _named(repository)
        )
    revision = repository.revision or DEFAULT_REVISION
    commit = _reference(host, place, revision)
    if commit in commits:
        return commit
    begun = [name for name in commits if len(revision) >= 7 and name.startswith(revision)]
    if len(begun) == 1:
        return begun[0]
    if repository.revision is None and len(commits) == 1:
        return commits[0]
    raise _unknown_revision(place, repository, revision, commits)


def _reference(host: Host, place: str, revision: str) -> str | None:
    """The commit in refs/REVISION; None where there is no such file."""
    path = f"{place}/refs/{revision}"
    try:
        status = host.status(path)
    except OSError:
        return None
    if status.kind != "file":
        return None
    text = read_piece(host, path, 0, min(status.size_bytes, MAX_REFERENCE_BYTES)).decode("ascii", "replace").strip()
    if not _COMMIT.fullmatch(text):
        raise unreadable(path, f"holds {text[:64]!r}, which is no commit", "download the model again")
    return text


def _unknown_revision(place: str, repository: Repository, revision: str, commits: tuple[str, ...]) -> UnreadableInput:
    some = ", ".join(name[:12] for name in commits[:MOST_NAMED])
    more = f" and {len(commits) - MOST_NAMED} more" if len(commits) > MOST_NAMED else ""
    named = repository._replace(revision=None)
    return unreadable(
        place,
        f"revision {revision} of the model is not in the cache; there are {some}{more}",
        f"name one of them, {_named(named)}@{commits[0][:12]}, or download that revision",
    )


def _named(repository: Repository) -> str:
    return f"{repository.owner}/{repository.name}"
