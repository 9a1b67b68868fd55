#!/usr/bin/python3 -SE
"""Speaks what llmops asks of llama-server, and is up at once: a stand-in where only the changing is under test.

Its help and version are those of the real program, which it starts for them. The file /run/instant/dies-after makes it
end that many seconds after it is up, when it has more than one slot.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

REAL = "/opt/llama.cpp/llama-server"
DIES_AFTER = Path("/run/instant/dies-after")
TOKEN_SECONDS = 0.004
SINGLE = {"--help", "--version", "--list-devices"}
SPELLINGS = {
    "--parallel": "-np",
    "--ctx-size": "-c",
    "--model": "-m",
}


def value_of(flag: str, default: str) -> str:
    """The last word on an option."""
    spellings = {flag, SPELLINGS.get(flag, flag)}
    words = sys.argv[1:]
    said = [words[place + 1] for place, word in enumerate(words[:-1]) if word in spellings]
    return said[-1] if said else default


class Instant(BaseHTTPRequestHandler):
    """The routes /health, /props, /slots, /metrics and the streaming chat."""

    slots = 1
    context_tokens = 4096
    free = threading.Semaphore(1)
    busy = 0

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """What the server says of itself."""
        slot = {"n_ctx": self.context_tokens, "is_processing": False}
        answers: dict[str, Any] = {
            "/health": {"status": "ok"},
            "/props": {
                "total_slots": self.slots,
                "default_generation_settings": slot,
                "model_path": value_of("--model", ""),
                "build_info": "instant",
            },
            "/slots": [{"id": number, **slot, "is_processing": number < Instant.busy} for number in range(self.slots)],
            "/metrics": {},
        }
        answer = answers.get(self.path)
        body = json.dumps(answer).encode()
        self.send_response(404 if answer is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        """A reply of exactly as many words as were asked for, once a slot is free."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        count = int(request["max_tokens"])
        with self.free:
            Instant.busy += 1
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for _ in range(count):
                self.event({"choices": [{"delta": {"content": "word "}, "finish_reason": None}]})
                time.sleep(TOKEN_SECONDS)
            self.event({"choices": [{"delta": {}, "finish_reason": "length"}]})
            self.event({"choices": [], "usage": {"prompt_tokens": 64, "completion_tokens": count}})
            self.wfile.write(b"data: [DONE]\n\n")
            Instant.busy -= 1

    def event(self, document: dict[str, Any]) -> None:
        """One server-sent event."""
        self.wfile.write(f"data: {json.dumps(document)}\n\n".encode())
        self.wfile.flush()


def main() -> None:
    """Serve on loopback until systemd says that it is enough."""
    if SINGLE & set(sys.argv):
        os.execv(REAL, [REAL, *sys.argv[1:]])
    Instant.slots = max(1, int(value_of("--parallel", "1")))
    whole = int(value_of("--ctx-size", "4096"))
    unified = "--kv-unified" in sys.argv or "-kvu" in sys.argv
    Instant.context_tokens = whole if unified else whole // Instant.slots
    Instant.free = threading.Semaphore(Instant.slots)
    server = ThreadingHTTPServer(("127.0.0.1", int(value_of("--port", "8080"))), Instant)
    if DIES_AFTER.exists() and Instant.slots > 1:
        threading.Timer(float(DIES_AFTER.read_text(encoding="utf-8")), os._exit, (1,)).start()
    server.serve_forever()


if __name__ == "__main__":
    main()
