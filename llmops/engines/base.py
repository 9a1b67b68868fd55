"""What every engine module provides. Adding an engine: one module, its templates, one name in ENGINES."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from llmops.core.files import RenderedFile
from llmops.core.plan import Plan
from llmops.core.verification import Expectation
from llmops.core.version import Version
from llmops.host import Host


@dataclass(frozen=True)
class Setting:
    """One engine setting in the engine's own words: a flag with its value, or an environment variable."""

    name: str
    value: str | None
    environment: bool = False


@dataclass(frozen=True)
class Installation:
    """One engine as found on a machine.

    `managed_by` is unit, process, docker, podman, snap, binary (only a program on disk) or embedded.
    `command` starts it (one word for a binary, several for the embedded server). `flags` is what its own help knows,
    `accelerators` the devices that it can use (empty: a CPU build); None where it could not be asked.
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


@dataclass(frozen=True)
class InForce:
    """What an engine serves now, each part from its own evidence; None is not observed.

    `arguments` and `environment` come from the running process, `configured_arguments` from the unit.
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


@dataclass(frozen=True)
class Launch:
    """How to start the engine as a child process for a trial."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    url: str


class Engine(Protocol):
    """The small protocol that actions rely on; nothing outside an engine's module knows its flags."""

    name: str
    install_steps: tuple[str, ...]

    def detect(self, host: Host) -> tuple[Installation, ...]:
        """Every installation found: best candidate for tuning first."""
        ...

    def in_force(self, host: Host, installation: Installation) -> InForce:
        """What is configured and what really runs."""
        ...

    def settings(self, plan: Plan, installation: Installation) -> tuple[Setting, ...]:
        """The one list that feeds the rendered files, the launch and the expectations."""
        ...

    def files(self, plan: Plan, installation: Installation, in_force: InForce) -> tuple[RenderedFile, ...]:
        """The files that make the plan live under systemd."""
        ...

    def expectations(self, plan: Plan, installation: Installation) -> tuple[Expectation, ...]:
        """What must be seen once the plan is live."""
        ...

    def launch(self, plan: Plan, installation: Installation, port: int) -> Launch:
        """The same settings as a child process on loopback."""
        ...
