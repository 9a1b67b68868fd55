"""What a real llama-server says and shows of its memory, at settings that each exercise one rule of the model."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from llmops.core.hardware import Cpu
from llmops.core.memory.ggml_settings import GgmlSettings, slot_context_tokens, ubatch_tokens
from llmops.core.model import ModelSpec
from llmops.host.local import LocalHost
from llmops.probe import read_hardware
from tests.engines.conftest import SHARED_CORES, stop, wait_until_ready
from tests.engines.http_calls import a_free_port, call

MIB = 1024**2
BUFFER = re.compile(r"CPU +(KV|output|compute) buffer size = +([\d.]+) MiB")
REPACKED = re.compile(r"CPU_REPACK model buffer size = +([\d.]+) MiB")
CHECKPOINT = re.compile(r"created context checkpoint .* size = ([\d.]+) MiB")
RESIDENT = re.compile(r"VmRSS:\s+(\d+) kB")
WORD = "hello "  # one token in the tokenizers of the models that are used here

# No prompt cache and no checkpoints: both grow with traffic, and the figures are for the buffers.
BARE = GgmlSettings(slots=4, context_tokens_per_slot=2048, prompt_cache_bytes=0, context_checkpoints=0)
SETTINGS: dict[str, GgmlSettings] = {
    "1 x 4096": replace(BARE, slots=1, context_tokens_per_slot=4096),
    "4 x 2048": BARE,
    "3 x 1365, padded": replace(BARE, slots=3, context_tokens_per_slot=1365),
    "4 x 2048 in one pool": replace(BARE, kv_unified=True),
    "8-bit cache": replace(BARE, cache_type_k="q8_0", cache_type_v="q8_0"),
    "4-bit cache": replace(BARE, cache_type_k="q4_0", cache_type_v="q4_0"),
    "small batches": replace(BARE, batch_tokens=128, ubatch_tokens=128),
    "large batches": replace(BARE, ubatch_tokens=2048),
    "no windows": replace(BARE, swa_full=True),
    "no flash attention": replace(BARE, flash_attention=False),
    "8 x 8192": replace(BARE, slots=8, context_tokens_per_slot=8192),
    "no repacking": replace(BARE, repack=False),
    "not mapped": replace(BARE, memory_mapped=False),
    "keys of 5 bits, values of 8": replace(BARE, slots=2, cache_type_k="q5_1", cache_type_v="q8_0"),
    "16 x 512 in one pool": replace(BARE, slots=16, context_tokens_per_slot=512, kv_unified=True, ubatch_tokens=256),
}


@dataclass(frozen=True)
class Reading:
    """The engine's own figures in MiB as it prints them, and what the kernel says of the process."""

    cache_mib: float
    compute_mib: float
    output_mib: float
    repacked_mib: float
    checkpoints_mib: tuple[float, ...]
    resident_bytes: int
    slots: int
    slot_context_tokens: int


def processor() -> Cpu:
    """This machine's, as probed: its flags decide what is repacked."""
    return read_hardware(LocalHost()).cpu


def arguments(settings: GgmlSettings) -> list[str]:
    """The flags for these settings."""
    words = ["-np", str(settings.slots), "-c", str(settings.slots * settings.context_tokens_per_slot)]
    words += ["-b", str(settings.batch_tokens), "-ub", str(settings.ubatch_tokens)]
    words += ["-ctk", settings.cache_type_k, "-ctv", settings.cache_type_v]
    words += ["-fa", "on" if settings.flash_attention else "off", "-lm", "mmap" if settings.memory_mapped else "none"]
    words += ["-cram", str(settings.prompt_cache_bytes // MIB), "-ctxcp", str(settings.context_checkpoints)]
    switches = {"-kvu": settings.kv_unified, "--swa-full": settings.swa_full, "-nr": not settings.repack}
    return [*words, *(flag for flag, wanted in switches.items() if wanted), "-lv", "4"]


def measure(command: tuple[str, ...], model: ModelSpec, settings: GgmlSettings, *, prompt_tokens: int = 0) -> Reading:
    """Start the server, send one prompt that fills a physical batch (or `prompt_tokens`), read everything, stop it."""
    port = a_free_port()
    url = f"http://127.0.0.1:{port}"
    tokens = prompt_tokens or min(ubatch_tokens(settings), slot_context_tokens(model, settings) - 64)
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "server.log"
        words = [*command, "-m", model.reference, "--port", str(port), *arguments(settings)]
        with log.open("wb") as stream:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env={**SHARED_CORES, **os.environ},
            )
        try:
            wait_until_ready(url, process, log)
            answer = call(f"{url}/completion", {"prompt": WORD * tokens, "n_predict": 8})
            assert answer.status == 200, answer.text
            return read(process.pid, log.read_text(errors="replace"), call(f"{url}/slots").document)
        finally:
            stop(process)


def read(pid: int, log: str, slots: list[dict[str, int]]) -> Reading:
    """A reading from the log, the process and the slots; sums over the caches of both kinds of layers."""
    buffers: dict[str, float] = {}
    for name, size in BUFFER.findall(log):
        buffers[name] = buffers.get(name, 0.0) + float(size)
    resident = RESIDENT.search(Path(f"/proc/{pid}/status").read_text())
    assert resident is not None
    return Reading(
        cache_mib=buffers["KV"],
        compute_mib=buffers["compute"],
        output_mib=buffers["output"],
        repacked_mib=sum(float(size) for size in REPACKED.findall(log)),
        checkpoints_mib=tuple(float(size) for size in CHECKPOINT.findall(log)),
        resident_bytes=int(resident.group(1)) * 1024,
        slots=len(slots),
        slot_context_tokens=slots[0]["n_ctx"],
    )
