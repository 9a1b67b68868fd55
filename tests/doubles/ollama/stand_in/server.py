"""`ollama serve`: settings to the log, GPUs counted, then the API until SIGTERM."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import FrameType

from . import log
from .answers import Service
from .routes import Routes
from .scheduler import Scheduler
from .settings import Settings, read_settings, server_config
from .store import Store

_DEVICE = re.compile(r"^\s+(\S+): (.+) \((\d+) MiB, (\d+) MiB free\)", re.MULTILINE)
_MIB = 1 << 20


class Server(ThreadingHTTPServer):
    """One thread for each connection, as many waiting as come."""

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, settings: Settings, routes: type[Routes]) -> None:
        host = settings.address.host
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, settings.address.port), routes)


def find_gpus(settings: Settings) -> list[int]:
    """Bytes of each GPU that llama-server lists."""
    words = [settings.llama_server, "--list-devices"]
    try:
        result = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        log.say("WARN", "runner.go:1", "failure during llama-server GPU discovery", error=error)
        return []
    found = _DEVICE.findall(result.stdout)
    for device, description, total, free in found:
        sizes = {"total": f"{int(total) / 1024:.1f} GiB", "available": f"{int(free) / 1024:.1f} GiB"}
        log.say("INFO", "types.go:60", "inference compute", id=device, library="CUDA", description=description, **sizes)
    if not found:
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30)
        log.say("INFO", "types.go:60", "inference compute", id="cpu", library="cpu", total=f"{pages:.1f} GiB")
    return [int(total) * _MIB for _, _, total, _ in found]


def serve(program: str) -> int:
    """Serve until SIGTERM or SIGINT; 1 where the address is taken."""
    settings = read_settings(dict(os.environ), program)
    log.say("INFO", "routes.go:1951", "server config", env=server_config(settings))
    Path(settings.models).mkdir(parents=True, exist_ok=True)
    gpus = find_gpus(settings)
    if settings.traits.number >= (0, 15, 5):
        default = settings.traits.default_context(sum(gpus))
        total = f"{sum(gpus) / (1 << 30):.1f} GiB"
        log.say("INFO", "routes.go:2058", "vram-based default context", total_vram=total, default_num_ctx=default)
    scheduler = Scheduler(settings, len(gpus))
    service = Service(settings, scheduler, sum(gpus))
    routes = type("BoundRoutes", (Routes,), {"service": service, "store": Store(Path(settings.models))})
    address = settings.address
    try:
        server = Server(settings, routes)
    except OSError as error:
        log.write(f"Error: listen tcp {address.host}:{address.port}: bind: {os.strerror(error.errno or 0).lower()}")
        return 1
    log.say("INFO", "routes.go:2000", f"Listening on {address.host}:{address.port} (version {settings.traits.version})")
    _stop_on_signals(server)
    server.serve_forever(poll_interval=0.1)
    scheduler.close()
    return 0


def _stop_on_signals(server: Server) -> None:
    def stop(_number: int, _frame: FrameType | None) -> None:
        threading.Thread(target=server.shutdown).start()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
