"""HTTP as Ollama's web framework speaks it: streams that begin with the first token, access lines in the log."""

from __future__ import annotations

import ipaddress
import json
import select
import socket
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any

from . import log

NDJSON = "application/x-ndjson"
EVENTS = "text/event-stream"
JSON = "application/json; charset=utf-8"


class ApiError(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def is_local_name(host: str) -> bool:
    """Whether a server that listens on loopback answers to this Host header."""
    name = host.rpartition(":")[0] if ":" in host.rpartition("]")[2] else host
    name = name.strip("[]").lower()
    if name in {"", "localhost", socket.gethostname().lower()}:
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name.endswith((".localhost", ".local", ".internal"))
    return address.is_loopback or address.is_private or address.is_unspecified


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    status = 0
    _streaming = False

    def log_message(self, format: str, *arguments: Any) -> None:
        """The access line is written when the answer has ended."""

    def do_GET(self) -> None:
        """Answer, and write the access line."""
        self._timed()

    do_POST = do_HEAD = do_DELETE = do_GET

    def _timed(self) -> None:
        began, self.status, self._streaming = time.monotonic(), 0, False
        try:
            self.answer()
        except (BrokenPipeError, ConnectionResetError):
            self.left()
        log.access(self.status, time.monotonic() - began, self.client_address[0], self.command, self.path)

    def answer(self) -> None:
        """Answer the request."""
        raise NotImplementedError

    def left(self) -> None:
        """The client closed the connection."""
        self.status, self.close_connection = 499, True

    def body(self) -> dict[str, Any]:
        """The JSON of the request."""
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not content:
            raise ApiError(400, "missing request body")
        try:
            found = json.loads(content)
        except ValueError as error:
            raise ApiError(400, str(error)) from error
        if not isinstance(found, dict):
            raise ApiError(400, "json: cannot unmarshal value into Go value")
        return found

    def gone(self) -> bool:
        """Whether the client has closed the connection."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        if not readable:
            return False
        try:
            return not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def send_text(self, status: int, text: str, kind: str) -> None:
        """A whole answer."""
        content = text.encode()
        self.status = status
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def send_document(self, status: int, document: Mapping[str, Any]) -> None:
        """A whole answer in JSON."""
        self.send_text(status, json.dumps(document, ensure_ascii=False, separators=(",", ":")), JSON)

    def send_part(self, text: str, kind: str) -> None:
        """A piece of a stream; the headers go with the first."""
        if not self._streaming:
            self.status, self._streaming = 200, True
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
        content = text.encode()
        self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")
        self.wfile.flush()

    def end_stream(self) -> None:
        """The end of a stream."""
        self.wfile.write(b"0\r\n\r\n")
