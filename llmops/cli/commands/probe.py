"""llmops probe: what this machine is and what it serves now."""

from __future__ import annotations

import click

from llmops.cli.hosts import reading_host
from llmops.cli.options import api_key_option, common_options, snapshot_option
from llmops.cli.result import Result, Status
from llmops.cli.session import Session


@click.command("probe")
@click.option("--bandwidth", is_flag=True, help="Also measure how fast memory is read (under 3 s).")
@snapshot_option
@api_key_option
@common_options
@click.pass_obj
def command(session: Session, /, *, bandwidth: bool, snapshot: str | None) -> Result:
    """Show what this machine is, each value with its source.

    Also what its engines serve now: model, slots, context, requests in flight.
    Nothing is guessed: what could not be observed is listed with the reason. `--output json` is what --hardware reads.
    """
    from llmops.actions.serving_now import serving_documents, serving_notices, serving_now
    from llmops.core.documents import hardware_document, notice_documents
    from llmops.core.notices import hardware_notices
    from llmops.host.one_look import OneLook
    from llmops.probe import read_hardware

    with reading_host(snapshot, session.api_key) as host:
        if bandwidth:
            session.progress("measuring memory bandwidth")
        look = OneLook(host)
        hardware = read_hardware(look, bandwidth=bandwidth)
        serving = serving_now(look)
    notices = (*hardware_notices(hardware), *serving_notices(serving))

    def text() -> str:
        from llmops.cli.text.hardware import hardware_text
        from llmops.cli.text.serving import serving_text

        return hardware_text(hardware, notices, serving_text(serving), with_sources=session.verbose)

    data = {
        "hardware": hardware_document(hardware),
        "serving": serving_documents(serving),
        "notices": notice_documents(notices),
    }
    return Result("probe", Status.OK, data=data, text=text)
