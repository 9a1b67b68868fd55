"""What is found of an engine on a machine: how it is installed, what it holds in memory, what it serves."""

from __future__ import annotations

from dataclasses import dataclass

from llmops.core.plan import Fixed
from llmops.core.version import Version
from llmops.systemd import Command

# Managers whose processes may not be seen from here.
CONTAINERS = frozenset({"docker", "podman"})
# Managers that have a configuration of their own, which llmops does not change.
FOREIGN = CONTAINERS | {"snap"}
# How the server that is a part of llmops is managed.
EMBEDDED = "embedded"


@dataclass(frozen=True)
class Installation:
    """One engine as found on a machine.

    `managed_by` is unit, process, docker, podman, snap, binary (only a program on disk) or embedded.
    `command` starts it (one word for a binary, several for the embedded server). `flags` is what its own help knows,
    `valued_flags` those of them that take a value, `accelerators` the devices that it can use (empty: a CPU build);
    None where it could not be asked. `problem` says why a program that is there cannot be used.
    """

    engine: str
    managed_by: str
    command: tuple[str, ...]
    version: Version | None
    version_text: str | None
    flags: frozenset[str] | None
    accelerators: tuple[str, ...] | None = None
    unit: str | None = None
    detail: str = ""
    valued_flags: frozenset[str] | None = None
    pid: int | None = None
    problem: str | None = None

    @property
    def runs(self) -> bool:
        """Whether a server of it runs now; its containers are listed only while they do."""
        return self.pid is not None or self.managed_by in CONTAINERS


# The part of InForce.unseen that says that the engine answers only to those who have its key.
KEY = "key"


@dataclass(frozen=True)
class LoadedModel:
    """One model in memory, as an engine that serves several tells it.

    `gpu_bytes` of `size_bytes` lie on cards; `model_path`, `slots` and `context_tokens_per_slot` are those of the
    process that runs it. None is not observed.
    """

    name: str | None = None
    size_bytes: int | None = None
    gpu_bytes: int | None = None
    context_tokens: int | None = None
    pid: int | None = None
    model_path: str | None = None
    slots: int | None = None
    context_tokens_per_slot: int | None = None


@dataclass(frozen=True)
class InForce:
    """What an engine serves now, each part from its own evidence; None is not observed.

    `arguments` and `environment` come from the running process, `configured_arguments` from the unit as systemd would
    start it now, `user_arguments` from the unit without the file that llmops manages (None where they cannot be told),
    `user_command` is the same line with its prefix and its words as they are written.
    `unmanaged_drop_ins` are (path, text) of drop-ins that llmops does not own. `unseen` says why a part is None.
    `loaded` are the models in memory of an engine that starts a process for each, `worker_pids` those processes, and
    `logged_environment` the settings that it wrote into its log when it started.
    """

    pid: int | None = None
    arguments: tuple[str, ...] | None = None
    environment: tuple[tuple[str, str], ...] | None = None
    configured_arguments: tuple[str, ...] | None = None
    configured_environment: tuple[tuple[str, str], ...] | None = None
    environment_files: tuple[str, ...] = ()
    drop_ins: tuple[str, ...] = ()
    need_daemon_reload: bool | None = None
    config_files: tuple[tuple[str, str], ...] = ()
    url: str | None = None
    listener_pid: int | None = None
    model_path: str | None = None
    slots: int | None = None
    context_tokens_per_slot: int | None = None
    resident_bytes: int | None = None
    build: str | None = None
    processing: int | None = None
    user_arguments: tuple[str, ...] | None = None
    user_command: Command | None = None
    unmanaged_drop_ins: tuple[tuple[str, str], ...] = ()
    unit_file_managed: bool = False
    slot_contexts: tuple[int, ...] | None = None
    anonymous_bytes: int | None = None
    control_group: str | None = None
    sleeping: bool | None = None
    unseen: tuple[tuple[str, str], ...] = ()
    loaded: tuple[LoadedModel, ...] | None = None
    worker_pids: tuple[int, ...] = ()
    logged_environment: tuple[tuple[str, str], ...] | None = None

    @property
    def pids(self) -> tuple[int, ...]:
        """Every process of the engine, the main one first."""
        return (*((self.pid,) if self.pid else ()), *self.worker_pids)

    @property
    def told_of_itself(self) -> bool:
        """Whether the server said what only an engine of its kind says."""
        return self.slots is not None or self.loaded is not None

    @property
    def computing_pid(self) -> int | None:
        """The process that holds the model."""
        return self.worker_pids[0] if self.worker_pids else self.pid


@dataclass(frozen=True)
class ServedPool:
    """The pages of a paged cache, each engine's, and how many tokens that is by the engine's own word."""

    blocks: int
    tokens: int


@dataclass(frozen=True)
class Served:
    """What an engine serves now; `context_was_chosen` when a person set the context, so it is his to keep.

    `request_context_tokens` is the longest request that works now (with a shared pool more than a slot's share).
    `threads` and `gpu_layers` None are the engine's own choice; `works_against` names options that no plan would have.
    `pool` is the cache that it made at its start of what was left, where it makes one so.
    """

    values: Fixed
    context_was_chosen: bool
    request_context_tokens: int | None = None
    threads: int | None = None
    gpu_layers: int | None = None
    works_against: tuple[str, ...] = ()
    pool: ServedPool | None = None
