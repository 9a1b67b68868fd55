"""A Host that can only look at files: the two calls that the model readers use, counted."""

from __future__ import annotations

import io
from pathlib import Path, PurePosixPath
from typing import cast

from llmops.host import FileStatus, Host


class Disk:
    """Files below a temporary directory, or one file given as bytes (`content`), seen through the Host port."""

    def __init__(self, content: bytes | None = None) -> None:
        self.content = content
        self.bytes_read = 0
        self.largest_read = 0

    def status(self, path: PurePosixPath | str) -> FileStatus:
        if self.content is not None:
            return FileStatus("file", len(self.content), 0o644, 0, 0, 0.0, 0, 0)
        found = Path(path).stat()
        kind = "directory" if Path(path).is_dir() else "file"
        return FileStatus(kind, found.st_size, found.st_mode, 0, 0, 0.0, 0, 0)

    def read_bytes(self, path: PurePosixPath | str, offset: int, length: int) -> bytes:
        with io.BytesIO(self.content) if self.content is not None else Path(path).open("rb") as file:
            file.seek(offset)
            answer = file.read(length)
        self.bytes_read += len(answer)
        self.largest_read = max(self.largest_read, length)
        return answer

    def as_host(self) -> Host:
        """A Host of which the readers may use these two calls only."""
        return cast(Host, self)
