"""Convert a file of reported cases into one folder per case: evidence.yaml and expect.yaml.

Usage: python -m tests.cases.import_cases CASES.yaml DIRECTORY [--kind KIND ...]
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import LiteralScalarString

from tests.cases.normalise import normalise

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


def import_cases(source: Path, directory: Path, kinds: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Write the folders of every case (of these kinds) and return their names; raise ValueError for another file."""
    document = YAML(typ="safe").load(source)
    cases = document.get("cases") if isinstance(document, Mapping) else None
    if not isinstance(cases, list):
        raise ValueError(f"{source} holds no list of cases")
    names = []
    for case in cases:
        name = str(case.get("id", "")) if isinstance(case, Mapping) else ""
        if not _NAME.fullmatch(name):
            raise ValueError(f"{source}: {name!r} is no name for a case")
        if kinds and case.get("kind") not in kinds:
            continue
        evidence, expected = normalise(case)
        write(directory / name / "evidence.yaml", evidence)
        write(directory / name / "expect.yaml", expected)
        names.append(name)
    return tuple(names)


def write(path: Path, document: Mapping[str, Any]) -> None:
    """One YAML file; texts of several lines keep their lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = YAML()
    writer.width = 4096
    with path.open("w", encoding="utf-8") as file:
        writer.dump(_readable(document), file)


def _readable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _readable(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_readable(entry) for entry in value]
    return LiteralScalarString(value) if isinstance(value, str) and "\n" in value else value


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0, or 2 for a file that holds no cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--kind", action="append", default=[], help="only cases of this kind; repeatable")
    given = parser.parse_args(arguments)
    try:
        names = import_cases(given.cases, given.directory, tuple(given.kind))
    except (OSError, ValueError, YAMLError) as problem:
        print(problem, file=sys.stderr)
        return 2
    print(f"{len(names)} cases in {given.directory}")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    sys.exit(main())
