"""Command lines and --config files of `vllm serve`: words to options and back, whatever spelling was chosen. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

NAME = "vllm"
MODULE = "vllm.entrypoints.openai.api_server"
_FLAG = re.compile(r"--?[A-Za-z]")
_SHELLS = frozenset({"sh", "bash", "dash", "zsh"})
# Spellings of one option besides its long name (vllm/engine/arg_utils.py); argparse takes any beginning of a name too.
_ALIASES = {
    "-tp": "--tensor-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-dp": "--data-parallel-size",
    "-ep": "--enable-expert-parallel",
    "-n": "--nnodes",
    "-q": "--quantization",
    "--kv-cache-memory": "--kv-cache-memory-bytes",
    "--device-memory-utilization": "--gpu-memory-utilization",
}
# Options without a value that a plan or this module looks at; `--no-` before the name turns them off.
SWITCHES = frozenset({
    "--enable-prefix-caching", "--enforce-eager", "--enable-chunked-prefill", "--disable-log-stats",
    "--enable-expert-parallel",
})  # fmt: skip
_OFF = "--no-"


@dataclass(frozen=True)
class Argument:
    """One option: its canonical name (empty for a lone word), its values, the words as written."""

    flag: str
    values: tuple[str, ...]
    words: tuple[str, ...]

    @property
    def value(self) -> str:
        """The values as one text; on or off for a switch."""
        if self.values:
            return " ".join(self.values)
        return "off" if self.words and self.words[0].startswith(_OFF) else "on"


def program_length(words: Sequence[str]) -> int | None:
    """How many leading words start the server, `serve` or the module being the last; None where they do not.

    Interpreters and wrappers may come before; a shell means that the words are a script without fixed arguments.
    """
    for place, word in enumerate(words):
        name = PurePosixPath(word).name
        if name in _SHELLS:
            return None
        if name == NAME and tuple(words[place + 1 : place + 2]) == ("serve",):
            return place + 2
        if word == MODULE and place and words[place - 1] == "-m":
            return place + 1
    return None


def canonical_flag(word: str) -> str:
    """`--max_num_seqs=4` to `--max-num-seqs`, `-tp` and `--no-enforce-eager` to the option that they set."""
    flag = word.partition("=")[0]
    flag = flag.replace("_", "-") if flag.startswith("--") else flag
    flag = _ALIASES.get(flag, flag)
    switch = f"--{flag.removeprefix(_OFF)}"
    return switch if flag.startswith(_OFF) and switch in SWITCHES else flag


def read_words(words: Sequence[str]) -> tuple[Argument, ...]:
    """Divide the words after the program into options; all words up to the next option are its values."""
    found: list[Argument] = []
    place = 0
    while place < len(words):
        word = words[place]
        end = place + 1
        if _FLAG.match(word) and "=" not in word and canonical_flag(word) not in SWITCHES:
            while end < len(words) and not _FLAG.match(words[end]):
                end += 1
        flag = canonical_flag(word) if _FLAG.match(word) else ""
        inline = (word.partition("=")[2],) if flag and "=" in word else ()
        values = (*inline, *words[place + 1 : end]) if flag else (word,)
        found.append(Argument(flag, values, tuple(words[place:end])))
        place = end
    return tuple(found)


def read_config(text: str) -> tuple[Argument, ...]:
    """The options of a --config file, as vLLM itself makes words of it; none where it is no mapping of YAML."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        document = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError, RecursionError):
        return ()
    if not isinstance(document, dict):
        return ()
    return tuple(argument for key, value in document.items() for argument in _of_key(str(key), value))


def _of_key(key: str, value: object) -> Iterable[Argument]:
    """FlexibleArgumentParser.load_config_file: true is the flag alone, false its negation, lists are several values."""
    flag = canonical_flag(f"--{key}")
    if isinstance(value, bool):
        if value or flag in SWITCHES:
            yield Argument(flag, (), (f"--{key}" if value else f"{_OFF}{key}",))
    elif isinstance(value, list):
        if value:
            yield Argument(flag, tuple(str(one) for one in value), ())
    elif not isinstance(value, dict):
        yield Argument(flag, (str(value),), ())


def find(arguments: Iterable[Argument], flag: str) -> Argument | None:
    """The last word on an option, the one that is obeyed; None where all are silent."""
    said = [argument for argument in arguments if argument.flag == flag]
    return said[-1] if said else None


def model_of(words: Sequence[str], config: Sequence[Argument] = ()) -> str | None:
    """The model that these words serve: the word after `serve`, or --model; else that of the --config file."""
    length = program_length(words)
    arguments = read_words(words[length:]) if length else ()
    named = find((*config, *arguments), "--model")
    if length and words[length - 1] == "serve" and arguments and not arguments[0].flag:
        return arguments[0].values[0]
    return named.value if named and named.values else None


def config_path(words: Sequence[str]) -> str | None:
    """The --config file that these words name."""
    said = find(read_words(words[program_length(words) or 0 :]), "--config")
    return said.value if said and said.values else None


def amount(text: str) -> int | None:
    """A number of tokens or bytes as vLLM reads it: `16K` is 16,384 and `16k` is 16,000; None where it is none.

    human_readable_int of vllm/utils/argparse_utils.py: binary for capital letters, decimal for small ones.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgGtT]?)", text.strip())
    if match is None:
        return None
    power = "kmgt".find(match[2].lower()) + 1 if match[2] else 0
    if match[2].islower():
        return int(float(match[1]) * 1000**power)
    return int(match[1]) * 1024**power if match[1].isdecimal() else None
