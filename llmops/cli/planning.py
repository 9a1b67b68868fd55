"""What the planning commands share: settings in, plan and its documents out."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from llmops.cli.request import check_context, plan_request
from llmops.cli.settings import Settings, read_settings
from llmops.core.documents import hardware_document, notice_documents, plan_document
from llmops.core.notices import hardware_notices
from llmops.core.serialization import encode

if TYPE_CHECKING:
    from llmops.actions.plan import Planned
    from llmops.cli.session import Session
    from llmops.core.files import Change, RenderedFile
    from llmops.engines.base import Setting
    from llmops.host import Host


_NOT_REPEATED = frozenset({"--explain", "--debug", "-v", "--verbose"})


def planned_for(
    host: Host,
    flags: Mapping[str, Any],
    session: Session,
    *,
    live: bool,
    measure: bool = False,
    replan: bool = False,
    to_configure: bool = True,
) -> tuple[Planned, Settings]:
    """Make the plan that the options ask for.

    `live` is False for a recording; `measure` lets memory bandwidth be measured where nothing better is known. Raise
    Unsupported where the plan is `to_configure` an engine, and llmops cannot do that with it or with this model.
    """
    from llmops.actions.plan import make_plan

    settings = read_settings(flags, flags["config"], search=live)
    if to_configure:
        _require_configurable_name(settings.value("engine"))
    planned = make_plan(host, plan_request(settings, replan=replan, measure=measure), progress=session.progress)
    check_context(settings, planned.model)
    if to_configure:
        planned.engine.require_configurable(planned.model)
    return with_engine_warnings(_with_reading_warning(host, planned) if live else planned), settings


def _with_reading_warning(host: Host, planned: Planned) -> Planned:
    """The plan with what would keep the server that runs from its model when it is started again."""
    from llmops.actions.readable import readable_check
    from llmops.core.verification import CheckStatus

    if planned.served_slots is None:
        return planned
    found = readable_check(host, planned.installation, planned.model)
    said = tuple(check.detail for check in found if check.status is CheckStatus.FAIL)
    return replace(planned, plan=replace(planned.plan, warnings=(*planned.plan.warnings, *said)))


def _require_configurable_name(engine: str) -> None:
    """Refuse before anything is read, where the engine alone decides."""
    from llmops.engines import engine_named

    if engine != "auto":
        engine_named(engine).require_configurable()


def with_engine_warnings(planned: Planned) -> Planned:
    """The plan with what its engine has to say about it: what cannot be set, what works against it."""
    said = planned.engine.warnings(planned.plan, planned.installation, planned.in_force)
    warnings = tuple(dict.fromkeys((*planned.plan.warnings, *said)))
    return replace(planned, plan=replace(planned.plan, warnings=warnings))


def planned_data(planned: Planned, settings: Settings) -> dict[str, Any]:
    """The `data` of a command that planned."""
    from llmops.actions.recommending import recommendation_for

    words = planned.engine.settings(planned.plan, planned.installation, planned.in_force)
    installation = planned.installation
    return {
        "hardware": hardware_document(planned.hardware),
        "notices": notice_documents(hardware_notices(planned.hardware)),
        **plan_document(planned.plan, environment=_environment(words), arguments=_arguments(words)),
        "installation": {
            "managed_by": installation.managed_by,
            "command": list(installation.command),
            "version": installation.version_text,
            "unit": installation.unit,
            "detail": installation.detail,
        },
        "kept": planned.kept,
        "recommendation": encode(recommendation_for(planned)),
        "settings": [{"name": row.name, "value": encode(row.value), "source": row.source} for row in settings.rows()],
    }


def file_documents(host: Host, files: Iterable[RenderedFile]) -> list[dict[str, Any]]:
    """`data.files`: every file with what is on disk now and what would be."""
    from llmops.checkpoint import read_content

    return [
        {"path": file.path, "before": read_content(host, file.path), "after": file.content, "mode": f"{file.mode:04o}"}
        for file in files
    ]


def change_documents(changes: Iterable[Change]) -> list[dict[str, Any]]:
    """`data.files` of a command that changes: only what differs."""
    return [
        {
            "path": change.path,
            "before": change.before,
            "after": change.after,
            "mode": None if change.after_mode is None else f"{change.after_mode:04o}",
        }
        for change in changes
    ]


def _environment(words: tuple[Setting, ...]) -> dict[str, str]:
    return {setting.name: setting.value or "" for setting in words if setting.environment}


def _arguments(words: tuple[Setting, ...]) -> tuple[str, ...]:
    flags = [(setting.name, setting.value) for setting in words if not setting.environment]
    return tuple(word for name, value in flags for word in (name, value) if word is not None)


def planned_text(
    planned: Planned, settings: Settings, *, explain: bool, title: str = "Plan", advise: bool = True
) -> str:
    """The plan for people; with `explain` also every reason and where each option came from.

    `advise`: say which engine suits, where there is something to decide or all is to be explained.
    """
    from llmops.actions.recommending import recommendation_for
    from llmops.cli.text.layout import sections, wrapped
    from llmops.cli.text.plan import plan_text, reasons_text, recommendation_text, settings_text

    parts = [plan_text(planned.plan, title=title)]
    if planned.choice is not None and planned.choice.sentence is not None:
        parts.append(wrapped(f"{planned.choice.sentence}.", first="", rest=""))
    if planned.kept:
        parts.append(wrapped(f"Kept as it is: {planned.kept}.", first="", rest=""))
    recommended = recommendation_for(planned)
    if advise and (recommended.asks_for_something or explain):
        parts.append(recommendation_text(recommended))
    if explain:
        parts += [reasons_text(planned.plan.reasons), settings_text(settings.rows())]
    return sections(parts)


def same_words(session: Session, verb: str, *more: str) -> str:
    """The command line of this run with another verb: the next command to type."""
    kept, skip = [], False
    for word in session.words:
        if skip or word in _NOT_REPEATED or word.startswith("--output="):
            skip = False
        elif word == "--output":
            skip = True
        else:
            kept.append(word)
    place = next((number for number, word in enumerate(kept) if not word.startswith("-")), 0)
    return shlex.join(["llmops", *kept[:place], verb, *more, *kept[place + 1 :]])
