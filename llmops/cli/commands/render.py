"""llmops render: exactly the files of a plan."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from llmops.cli import fronting
from llmops.cli.hosts import changing_host, read_input, reading_host, writing_below
from llmops.cli.options import common_options, front_options, planning_options
from llmops.cli.planning import file_documents, planned_data, planned_for
from llmops.cli.result import Result, Status
from llmops.cli.session import Session
from llmops.core.errors import UsageError

if TYPE_CHECKING:
    from llmops.actions.plan import Planned
    from llmops.core.files import RenderedFile
    from llmops.engines.inventory import Inventory

_HEADER = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")
_MOST_INVENTORY_BYTES = 1024 * 1024


@click.command("render")
@click.option("--directory", metavar="DIR", help="Write the files below this directory instead of printing one.")
@click.option("--options-file", is_flag=True, help="The file that the engine's own --config reads (vLLM: YAML).")
@click.option("--replan", is_flag=True, help="Compute afresh; do not keep what is in force.")
@click.option(
    "--inventory",
    metavar="FILE",
    help="Machines, as YAML: of one server, with --nodes (vLLM), or of several equal ones, with --front.",
)
@click.option(
    "--distributed-executor-backend",
    type=click.Choice(["mp", "ray"]),
    help="How those machines work together: vLLM's own processes (mp, the default), or a ray cluster.",
)
@click.option(
    "--affinity-header",
    metavar="NAME",
    help="With --front and --inventory: requests with the same value of this header go to the same server.",
)
@front_options
@planning_options
@common_options
@click.pass_obj
def command(
    session: Session,
    /,
    *,
    directory: str | None,
    options_file: bool,
    replan: bool,
    inventory: str | None,
    distributed_executor_backend: str | None,
    affinity_header: str | None,
    front: str | None,
    listen: str | None,
    **flags: Any,
) -> Result:
    """Print exactly the file that a plan would write.

    Several files need --directory, where each is written under its own full path. --front prints the configuration of
    the front; with --directory its unit is written too. --options-file is for a server that is started by hand or in a
    container: vllm serve --config FILE.

    --inventory writes for each machine of a server on several (vLLM, --nodes) its unit, or with --options-file its
    options, below its address, and START.txt: who is started first, and what must be reachable. Nothing is sent.
    With --front it is one server on each of them, and one front before all.
    """
    fronting.require_front(front, listen)
    _require_inventory(inventory, distributed_executor_backend, front)
    _require_affinity(affinity_header, front, inventory)
    machines = None if inventory is None else _inventory(inventory)
    if options_file and front is not None:
        raise UsageError("--options-file and --front exclude each other", hint="ask for one of them")
    with reading_host(flags["snapshot"]) as host:
        planned, settings = planned_for(host, flags, session, live=flags["snapshot"] is None, replan=replan)
        more: tuple[str, ...] = ()
        if machines is not None and front is not None:
            files, more = fronting.replica_files(planned, settings, machines, listen, affinity_header)
        elif machines is not None:
            files = _machine_files(planned, machines, distributed_executor_backend or "mp", options_file=options_file)
        else:
            files = _options_file(planned) if options_file else _files(planned, front, listen)
        data = {**planned_data(planned, settings), "files": file_documents(host, files)}
        data["warnings"] = [*data["warnings"], *more]
    return _result(session, data, files, directory, front)


def _result(
    session: Session, data: dict[str, Any], files: tuple[RenderedFile, ...], directory: str | None, front: str | None
) -> Result:
    """Written below the directory, else printed: one file, of a front its configuration."""
    if directory is not None:
        _write(directory, files)
        names = "\n".join(_target(directory, file) for file in files)
        return Result("render", Status.CHANGED, data=data, text=lambda: names)
    if front is not None:
        return Result("render", Status.OK, data=data, text=lambda: files[0].content)
    if len(files) > 1 and session.output == "text":
        names = ", ".join(file.path for file in files)
        raise UsageError(f"{len(files)} files would be printed: {names}", hint="write them out: --directory DIR")
    return Result("render", Status.OK, data=data, text=lambda: "".join(file.content for file in files))


def _files(planned: Planned, front: str | None, listen: str | None) -> tuple[RenderedFile, ...]:
    """The engine's files, or the front's: its configuration first."""
    if front is None:
        return planned.engine.files(planned.plan, planned.installation, planned.in_force)
    from llmops.actions.front import spec_of
    from llmops.front import configuration_file, parse_listen, unit_file

    spec = spec_of(planned.plan, planned.in_force, None if listen is None else parse_listen(listen))
    return (configuration_file(spec), unit_file(spec))


def _require_inventory(inventory: str | None, backend: str | None, front: str | None) -> None:
    if inventory is None and backend is not None:
        raise UsageError("--distributed-executor-backend is for several machines", hint="name them: --inventory FILE")
    if backend is not None and front is not None:
        raise UsageError(
            "--distributed-executor-backend is for one server on several machines", hint="leave it out, or --front"
        )


def _require_affinity(header: str | None, front: str | None, inventory: str | None) -> None:
    """The name becomes a word of HAProxy's configuration."""
    if header is None:
        return
    if front is None or inventory is None:
        raise UsageError("--affinity-header is for a front before several servers", hint="add --front and --inventory")
    if _HEADER.fullmatch(header) is None:
        raise UsageError(f"{header!r} is no name of a header", hint="such as X-Session-Id")


def _inventory(path: str) -> Inventory:
    from llmops.engines.inventory import EXAMPLE, read_inventory

    hint = f"the file holds lines such as `{EXAMPLE}`"
    return read_inventory(read_input(path, "inventory", hint=hint, most_bytes=_MOST_INVENTORY_BYTES), path)


def _machine_files(
    planned: Planned, machines: Inventory, backend: str, *, options_file: bool
) -> tuple[RenderedFile, ...]:
    if machines.front is not None:
        raise UsageError(
            "the inventory names a machine for a front",
            hint="add --front haproxy, or take `front` out of the inventory",
        )
    files = planned.engine.machine_files(
        planned.plan, planned.installation, planned.in_force, machines, backend, options_file=options_file
    )
    if files is None:
        raise UsageError(
            f"{planned.engine.name} does not serve one model from several machines", hint="--engine vllm, with --nodes"
        )
    return files


def _options_file(planned: Planned) -> tuple[RenderedFile, ...]:
    file = planned.engine.options_file(planned.plan, planned.installation)
    if file is None:
        raise UsageError(
            f"{planned.engine.name} reads no file of options", hint="leave --options-file out: its unit holds them"
        )
    return (file,)


def _target(directory: str, file: RenderedFile) -> str:
    return f"{directory.rstrip('/')}/{file.path.lstrip('/')}"


def _write(directory: str, files: tuple[RenderedFile, ...]) -> None:
    with changing_host() as host, writing_below(directory):
        for file in files:
            host.write_text(_target(directory, file), file.content, mode=file.mode)
