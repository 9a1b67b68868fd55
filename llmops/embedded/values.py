"""How the text after a flag becomes a value. Stricter than the binary, which reads `8k` as 8 without a word."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class EnumMember:
    """A member of one of xllamacpp's enumerations, by name, so that flags can be read without loading 100 MB."""

    enumeration: str
    member: str


Value = int | bool | str | tuple[str, ...] | EnumMember
Convert = Callable[[str], Value]

CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
INT32_MAX = 2**31 - 1


def text(word: str) -> Value:
    """Any text."""
    return word


def comma_separated(word: str) -> Value:
    """Names with commas between them; raise ValueError where there is none."""
    names = tuple(name.strip() for name in word.split(",") if name.strip())
    if not names:
        raise ValueError("at least one name is needed")
    return names


def whole_number(minimum: int, maximum: int = INT32_MAX) -> Callable[[str], int]:
    """A converter for whole numbers in a range; it raises ValueError for anything else."""

    def convert(word: str) -> int:
        try:
            number = int(word)
        except ValueError:
            raise ValueError(f"{word!r} is not a whole number") from None
        if not minimum <= number <= maximum:
            raise ValueError(f"{number} is not in {minimum} .. {maximum}")
        return number

    return convert


def slot_count(word: str) -> Value:
    """Slots: 1 or more; any negative number means automatic."""
    number = whole_number(-INT32_MAX)(word)
    if number == 0:
        raise ValueError("0 slots cannot serve")
    return max(number, -1)


def gpu_layers(word: str) -> Value:
    """A number of layers, `auto` (-1) or `all` (-2), as llama.cpp encodes them."""
    named = {"auto": -1, "all": -2}
    return named[word] if word in named else whole_number(0)(word)


def one_of(members: Mapping[str, Value]) -> Convert:
    """A converter for a closed list of words; it raises ValueError for others."""

    def convert(word: str) -> Value:
        if word not in members:
            raise ValueError(f"{word!r} is not one of {', '.join(members)}")
        return members[word]

    return convert


def keys_in_file(word: str) -> Value:
    """The API keys of a file, one per line, `#` lines left out; raise ValueError where it cannot be read."""
    try:
        lines = Path(word).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ValueError(f"{word}: {error.strerror}") from None
    return tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))


def members(enumeration: str, prefix: str, names: Mapping[str, str]) -> Convert:
    """A converter from the flag's words to members of an enumeration."""
    return one_of({word: EnumMember(enumeration, prefix + name) for word, name in names.items()})


cache_type = members("ggml_type", "GGML_TYPE_", {name: name.upper() for name in CACHE_TYPES})
flash_attention = members(
    "llama_flash_attn_type",
    "LLAMA_FLASH_ATTN_TYPE_",
    {"on": "ENABLED", "off": "DISABLED", "auto": "AUTO", "1": "ENABLED", "0": "DISABLED", "-1": "AUTO"},
)
load_mode = members(
    "llama_load_mode",
    "LLAMA_LOAD_MODE_",
    {"auto": "AUTO", "none": "NONE", "mmap": "MMAP", "mlock": "MLOCK", "mmap+mlock": "MMAP_MLOCK", "dio": "DIRECT_IO"},
)
on_or_off = one_of({"on": True, "off": False})
