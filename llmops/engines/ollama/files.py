"""The drop-in that makes a plan live, and what other people's files say against it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llmops import systemd
from llmops.core.errors import Misconfigured
from llmops.core.files import RenderedFile
from llmops.core.plan import Plan
from llmops.engines.addresses import with_port
from llmops.engines.base import Contradiction, Setting
from llmops.engines.found import FOREIGN, InForce, Installation
from llmops.engines.inventory import Place
from llmops.engines.ollama.settings import compose, require_usable
from llmops.engines.unit import OWN_DIRECTORY, drop_in_path, pairs_in_file, pairs_of
from llmops.host import Host

_INSTALLED_UNIT = "ollama.service"
_HOW = {
    "docker": "start the container anew with: {words}",
    "podman": "start the container anew with: {words}",
    "snap": "put them into a drop-in of its service by hand (systemctl edit {unit}): {words}",
}


def render_files(plan: Plan, installation: Installation, in_force: InForce) -> tuple[RenderedFile, ...]:
    """Raise Misconfigured or TooOld where no file of systemd could make this plan live."""
    settings = compose(plan, installation.version, in_force)
    if installation.managed_by in FOREIGN:
        raise _foreign(settings, installation)
    require_usable(installation)
    require_registered(plan)
    if installation.unit is None:
        raise Misconfigured(
            "no systemd unit starts Ollama, and its own installer makes the unit that belongs to it",
            hint="curl -fsSL https://ollama.com/install.sh | sh; or set by hand: " + said(settings),
        )
    return (_drop_in(settings, installation.unit),)


def replica_files(plan: Plan, installation: Installation, place: Place) -> tuple[RenderedFile, ...]:
    """One of several equal servers: a drop-in for the unit that Ollama's installer makes on every machine.

    It does not keep other addresses away, which would keep Ollama from its registry too. Raise Misconfigured or TooOld
    where no drop-in could make this plan live.
    """
    settings = compose(plan, installation.version)
    if installation.managed_by in FOREIGN:
        raise _foreign(settings, installation)
    require_usable(installation)
    require_registered(plan)
    listens = Setting("OLLAMA_HOST", with_port(place.address, place.port), environment=True)
    return (_drop_in((listens, *settings), installation.unit or _INSTALLED_UNIT),)


def _drop_in(settings: Sequence[Setting], unit: str) -> RenderedFile:
    from llmops.render import render

    content = render("ollama/drop-in.conf.j2", environment=[(one.name, one.value or "") for one in settings])
    return RenderedFile(drop_in_path(unit), content)


def require_registered(plan: Plan) -> None:
    """Raise Misconfigured for a file that Ollama has no name for: no request could ask for it."""
    path = plan.model.reference
    if path.startswith("/"):
        raise Misconfigured(
            f"Ollama has no name for {path}, without which it cannot serve it",
            hint=f"make one (echo FROM {path} > Modelfile; ollama create NAME -f Modelfile), then give --model NAME",
        )


def said(settings: Sequence[Setting]) -> str:
    """The variables as a shell or a container manager takes them."""
    return " ".join(f"{one.name}={one.value or ''}" for one in settings)


def _foreign(settings: Sequence[Setting], installation: Installation) -> Misconfigured:
    container = installation.managed_by != "snap"
    words = " ".join(f"-e {one.name}={one.value or ''}" for one in settings) if container else said(settings)
    how = _HOW[installation.managed_by].format(words=words, unit=installation.detail)
    return Misconfigured(
        f"Ollama runs in {installation.detail or installation.managed_by}, which llmops does not change", hint=how
    )


def contradictions(host: Host, settings: Sequence[Setting], unit: str, in_force: InForce) -> tuple[Contradiction, ...]:
    """One for each planned variable that somebody else's drop-in or environment file sets to another value."""
    planned = {one.name: one.value or "" for one in settings}
    found: list[Contradiction] = []
    for path, text in in_force.unmanaged_drop_ins:
        if path == drop_in_path(unit):
            continue
        for _, value in systemd.values((systemd.UnitFile(path, text),), "Service", "Environment"):
            found += _against(path, "drop_in", pairs_of(value, unit), planned)
    for path in in_force.environment_files:
        if not path.startswith(OWN_DIRECTORY):
            found += _against(path, "environment_file", pairs_in_file(host, path), planned)
    return tuple(found)


def _against(
    path: str, source: str, pairs: Sequence[tuple[str, str]], planned: dict[str, str]
) -> Iterator[Contradiction]:
    for name, value in pairs:
        ours = planned.get(name)
        if ours is not None and value.strip().strip("\"'") != ours:
            yield Contradiction(path, source, name, value, ours)
