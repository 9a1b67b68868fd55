"""llmops snapshot: record this machine into a directory."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llmops.cli.hosts import reading_host, writing_below
from llmops.cli.options import common_options
from llmops.cli.result import Result, Status
from llmops.cli.session import Session
from llmops.core.errors import EngineNotAnswering, LlmopsError, UsageError

if TYPE_CHECKING:
    from llmops.host import Host


@click.command("snapshot")
@click.argument("directory", metavar="DIR")
@click.option("--model", multiple=True, metavar="REF", help="Also record the header of this model file.")
@click.option("--bandwidth", is_flag=True, help="Also measure how fast memory is read (under 3 s).")
@common_options
@click.pass_obj
def command(session: Session, /, *, directory: str, model: tuple[str, ...], bandwidth: bool) -> Result:
    """Record this machine into a new directory, without secrets.

    Every command that takes --snapshot DIR then runs on the recording, here or elsewhere: attach it to a bug report.
    Secrets, serial numbers, addresses and host names are replaced before anything is written.
    """
    from llmops.host.one_look import OneLook
    from llmops.host.recorder import RecordingHost

    target = Path(directory)
    with writing_below(directory):
        _require_new(target)
    with reading_host() as host:
        # What comes and goes meanwhile is in none of the answers or in all of them.
        recorder = RecordingHost(OneLook(host))
        session.progress("looking at this machine")
        notes = _look(recorder, model, session, bandwidth=bandwidth)
        with writing_below(directory):
            recorder.save(target)
    lines = [f"recorded into {directory}", *(f"not recorded: {note}" for note in notes)]
    data = {"directory": directory, "not_recorded": list(notes)}
    return Result("snapshot", Status.CHANGED, data=data, text=lambda: "\n".join(lines))


def _require_new(directory: Path) -> None:
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is not a directory", hint="name a new directory")
    if directory.is_dir() and any(directory.iterdir()):
        raise UsageError(f"{directory} is not empty", hint="name a new directory")


def _look(host: Host, models: tuple[str, ...], session: Session, *, bandwidth: bool) -> tuple[str, ...]:
    """Ask all that the read-only commands ask; what could not be read is noted and is part of the recording."""
    from llmops.actions.history import history
    from llmops.actions.serving_now import serving_now
    from llmops.probe import read_hardware

    read_hardware(host, bandwidth=bandwidth)
    serving_now(host)
    notes = []
    for reference in models or (None,):
        try:
            _look_at_plan(host, reference, session)
        except LlmopsError as error:
            notes.append(error.message)
    history(host)
    try:
        _look_at_what_was_applied(host, session)
    except LlmopsError as error:
        notes.append(error.message)
    return tuple(notes)


def _look_at_what_was_applied(host: Host, session: Session) -> None:
    """What `verify` asks besides its test requests, of the front too; nothing where llmops has applied nothing."""
    from llmops.actions.front import verify_applied_front
    from llmops.actions.verify import verify
    from llmops.cli.saved import installed_for, plan_to_verify

    verify_applied_front(host)
    try:
        plan = plan_to_verify(host, None)
    except UsageError:
        return
    engine, installation = installed_for(host, plan)
    verify(host, engine, installation, plan, progress=session.progress, recorded=True)


def _look_at_plan(host: Host, reference: str | None, session: Session) -> None:
    from llmops.actions.verify import verify
    from llmops.cli.planning import file_documents, planned_for
    from llmops.cli.tuning import read_difference

    flags: dict[str, Any] = {"config": None, "model": None if reference is None else (reference,)}
    planned, settings = planned_for(host, flags, session, live=False)
    for install_unit in (False, True):
        read_difference(host, planned, {"take_over": False, "install_unit": install_unit}, settings)
    file_documents(host, planned.engine.files(planned.plan, planned.installation, planned.in_force))
    # So that a recording is verified against a saved plan too, where llmops has applied none.
    with suppress(EngineNotAnswering):
        verify(host, planned.engine, planned.installation, planned.plan, progress=session.progress, recorded=True)
