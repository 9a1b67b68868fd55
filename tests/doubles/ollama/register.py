"""Put a GGUF file into a model store of Ollama: `python -m tests.doubles.ollama.register STORE NAME FILE`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tests.doubles.ollama.stand_in.store import register


def main() -> None:
    """Register one file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("name")
    parser.add_argument("file", type=Path)
    parser.add_argument("--template", default="", help="prompts are then rendered and cut as for a library model")
    parser.add_argument("--family", default="", help="a family other than the architecture of the file")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=JSON", help="a PARAMETER of the model")
    given = parser.parse_args()
    parameters = {key: json.loads(value) for key, _, value in (item.partition("=") for item in given.set)}
    family, template = given.family, given.template
    print(register(given.store, given.name, given.file, template=template, parameters=parameters, family=family))


if __name__ == "__main__":
    main()
