"""Memory before a load: up to 0.24 a model that does not fit is refused, from 0.30 on nothing is checked."""

from __future__ import annotations

from pathlib import Path

from . import log
from .options import Options
from .settings import Settings
from .store import Model

_GIB = 1 << 30


def _free_bytes() -> int:
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    values = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
    return values["MemAvailable"] + values["SwapFree"]


def cache_bytes(model: Model, options: Options, slots: int) -> int:
    """Bytes of an f16 cache whose every layer keeps every token."""
    header = model.header
    heads = header.of("attention.head_count_kv") or header.of("attention.head_count") or 1
    heads = max(heads) if isinstance(heads, list) else heads
    head = header.of("embedding_length") // (header.of("attention.head_count") or 1)
    key = header.of("attention.key_length") or head
    value = header.of("attention.value_length") or head
    return int(options.context * slots * header.of("block_count") * heads * (key + value) * 2)


def refusal(settings: Settings, model: Model, options: Options, slots: int) -> str:
    """Why the model is not loaded; empty where it may be."""
    if settings.traits.wraps_llama_server:
        return ""
    wanted, free = model.weights.stat().st_size + cache_bytes(model, options, slots), _free_bytes()
    if wanted <= free:
        return ""
    log.say("WARN", "server.go:188", "model request too large for system", requested=wanted, available=free)
    return f"model requires more system memory ({wanted / _GIB:.1f} GiB) than is available ({free / _GIB:.1f} GiB)"
