"""Other people's settings that contradict a plan: refused by default, overridden with their owner's consent."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import PurePosixPath

from llmops.core.errors import ConflictingSetting
from llmops.core.files import RenderedFile
from llmops.engines.base import Contradiction
from llmops.render import systemd_specifiers

DROP_IN_NAME = "zz-llmops.conf"
VARIABLES_DIRECTORY = "/etc/llmops"


def signature(contradiction: Contradiction) -> str:
    """What is remembered of a contradiction that the user let llmops override: another value asks again."""
    return f"{contradiction.path}: {contradiction.setting}={contradiction.theirs}"


def require_consent(
    found: Sequence[Contradiction], *, take_over: bool, accepted: Sequence[str], unit: str
) -> tuple[str, ...]:
    """The signatures of what is overridden; raise ConflictingSetting for what nobody consented to."""
    stronger = [contradiction for contradiction in found if _is_read_after_ours(contradiction)]
    if stronger:
        raise ConflictingSetting(
            "; ".join(str(contradiction) for contradiction in stronger),
            hint=f"it is read after {DROP_IN_NAME} and wins: remove these settings from it, or rename it",
        )
    refused = [contradiction for contradiction in found if signature(contradiction) not in accepted]
    if refused and not take_over:
        raise ConflictingSetting(
            "; ".join(str(contradiction) for contradiction in refused),
            hint=f"nothing was written: change it there (systemctl cat {unit}), or let the plan win with --take-over",
        )
    return tuple(signature(contradiction) for contradiction in found)


def with_own_variables(
    unit: str, files: Sequence[RenderedFile], found: Sequence[Contradiction]
) -> tuple[RenderedFile, ...]:
    """The files, and a last EnvironmentFile= of ours where one of theirs contradicts.

    It beats every Environment=, so only another file that is read later can override it; theirs stays untouched.
    """
    pairs = {item.setting: item.ours for item in found if item.source == "environment_file"}
    if not pairs:
        return tuple(files)
    path = f"{VARIABLES_DIRECTORY}/{PurePosixPath(unit).stem}.env"
    lines = "".join(f"{name}={value}\n" for name, value in sorted(pairs.items()))
    variables = RenderedFile(path, f"# Managed by llmops: wins over the other environment files of {unit}.\n{lines}")
    own = f"EnvironmentFile={systemd_specifiers(path)}\n"
    return (variables, *(_with_line(file, own) for file in files))


def _with_line(file: RenderedFile, line: str) -> RenderedFile:
    """The line at the end of a drop-in, which ends in its [Service] section; other files as they are."""
    if PurePosixPath(file.path).name != DROP_IN_NAME:
        return file
    return dataclasses.replace(file, content=file.content + line)


def _is_read_after_ours(contradiction: Contradiction) -> bool:
    return contradiction.source == "drop_in" and PurePosixPath(contradiction.path).name > DROP_IN_NAME
