"""The help text in llama-server's layout, so that whoever reads the one can read the other."""

from __future__ import annotations

import textwrap

from llmops.embedded.options import OPTIONS, Option

DESCRIPTION_COLUMN = 40
DESCRIPTION_WIDTH = 70
SHORT_FLAG_WIDTH = 6


def help_text() -> str:
    """Every option, and what is different from the binary."""
    lines = ["----- server params -----", "", *(option_text(option) for option in OPTIONS), ""]
    lines += [
        "This is llama.cpp's server as the xllamacpp wheel carries it. It takes these flags and no others, reads no"
    ]
    lines += ["configuration file, and of the environment only LLAMA_API_KEY.", ""]
    return "\n".join(lines)


def option_text(option: Option) -> str:
    """The spellings in the first columns, the explanation beside or below them."""
    spellings = _spellings(option)
    description = textwrap.wrap(option.description, DESCRIPTION_WIDTH, break_on_hyphens=False, break_long_words=False)
    indent = " " * DESCRIPTION_COLUMN
    if len(spellings) < DESCRIPTION_COLUMN:
        first = spellings.ljust(DESCRIPTION_COLUMN) + description.pop(0)
        return "\n".join([first, *(indent + line for line in description)])
    return "\n".join([spellings, *(indent + line for line in description)])


def _spellings(option: Option) -> str:
    names = [*option.names, *option.off]
    text = ", ".join(names)
    if not names[0].startswith("--") and len(names) > 1:
        text = f"{names[0]},".ljust(SHORT_FLAG_WIDTH) + " " + ", ".join(names[1:])
    return text if option.value_name is None else f"{text} {option.value_name}"
