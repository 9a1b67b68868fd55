"""What the files beside a checkpoint say of its texts: a chat template, how the vocabulary is merged."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from llmops.core.errors import UnreadableInput
from llmops.models.gguf_reader import file_bytes
from llmops.models.json_file import MAX_BYTES, read_json_object, read_piece

if TYPE_CHECKING:
    from llmops.models.hf_files import ModelDirectory

TEMPLATE_FILES = ("chat_template.jinja", "chat_template.json")
_TEMPLATE_KEY = re.compile(rb'"chat_template"\s{0,64}:\s{0,64}["\[{]')
_WINDOW = 512 * 1024
_OVERLAP = 256
MAX_SEARCHED_BYTES = 16 * 1024 * 1024  # the longest such files list hundreds of thousands of added tokens


def has_chat_template(directory: ModelDirectory) -> bool:
    """Whether the model can be talked to; a file that is too long is searched, not parsed."""
    if any(directory.has(name) for name in TEMPLATE_FILES) or "additional_chat_templates" in directory.names:
        return True
    name = "tokenizer_config.json"
    if not directory.has(name):
        return False
    path = directory.file(name)
    if file_bytes(directory.host, path) > MAX_BYTES:
        return _searched(directory, path)
    try:
        return bool(read_json_object(directory.host, path).get("chat_template"))
    except UnreadableInput:
        return _searched(directory, path)


def _searched(directory: ModelDirectory, path: str) -> bool:
    """Whether the key stands anywhere in the file, window by window."""
    size = min(file_bytes(directory.host, path), MAX_SEARCHED_BYTES)
    return any(
        _TEMPLATE_KEY.search(read_piece(directory.host, path, begin, min(_WINDOW + _OVERLAP, size - begin)))
        for begin in range(0, size, _WINDOW)
    )
