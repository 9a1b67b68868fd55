"""The command lines of the process that serves a loaded model, one for each kind of scheduler."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

from . import log
from .options import Options
from .settings import Settings
from .store import Model

_OLD_CACHE_TYPES = {"f16", "q8_0", "q4_0"}
_ROOM_TOKENS = 256
RUNNER_ARGUMENTS = "OLLAMA_STAND_INRUNNER_ARGUMENTS"


@dataclass(frozen=True)
class Launch:
    """The words and the environment of the process."""

    words: list[str]
    environment: dict[str, str]


def batch(settings: Settings, options: Options, slots: int) -> int:
    """Tokens of one batch, on a machine without a GPU; before 0.30 always the same."""
    if options.batch or not settings.traits.wraps_llama_server:
        return options.batch or 512
    total = options.context * slots
    if total > 32768:
        return 2048
    return 1024 if total > 4096 else 512


def flash_attention(settings: Settings) -> str:
    """The value of --flash-attn."""
    return {None: "auto", True: "on", False: "off"}[settings.flash_attention]


def child_launch(settings: Settings, model: Model, options: Options, slots: int, port: int) -> Launch:
    """From 0.30 on: llama-server itself, with the whole environment of the server."""
    size = str(batch(settings, options, slots))
    words = [
        settings.llama_server, "--model", str(model.weights), "--port", str(port), "--host", "127.0.0.1",
        "--no-webui", "--offline", "-c", str(options.context * slots), "-np", str(slots),
        "--log-verbosity", "4", "--no-log-prefix", "--no-log-timestamps",
        "--flash-attn", flash_attention(settings), "-b", size, "-ub", size,
    ]  # fmt: skip
    if settings.cache_type:
        kind = settings.cache_type.lower()
        words += ["--cache-type-k", kind, "--cache-type-v", kind]
    if options.threads:
        words += ["-t", str(options.threads)]
    if not options.mmap:
        log.say("INFO", "sched.go:1177", "disabling mmap for llama-server load by default", reason="cpu")
        words += ["--load-mode", "none"]
    if model.text("template") and options.shift:
        words += ["--context-shift", "--keep", str(options.keep)]
    if not model.can_chat:
        words.append("--embedding")
    log.say("INFO", "llama_server.go:455", "starting llama-server", cmd=" ".join(words))
    return Launch(words, dict(settings.environment))


def old_cache_type(settings: Settings) -> str:
    """Before 0.30: only three types, and only with flash attention switched on."""
    kind = settings.cache_type
    if not kind or kind == "f16":
        return ""
    if kind not in _OLD_CACHE_TYPES:
        log.say("WARN", "server.go:228", "unsupported OLLAMA_KV_CACHE_TYPE", type=kind)
        return ""
    if not settings.flash_attention:
        message = "OLLAMA_FLASH_ATTENTION must be enabled to use a quantized OLLAMA_KV_CACHE_TYPE"
        log.say("WARN", "server.go:219", message, type=kind)
        return ""
    return kind


def runner_launch(settings: Settings, model: Model, options: Options, slots: int, port: int) -> Launch:
    """Before 0.30: a runner of Ollama's own, to which the variables of llama-server mean nothing."""
    size, kind, total = batch(settings, options, slots), old_cache_type(settings), options.context * slots
    words = [sys.argv[0], "runner", "--model", str(model.weights)]
    if settings.traits.loads_by_message:
        words += ["--port", str(port)]
        log.say("INFO", "server.go:400", "starting runner", cmd=" ".join(words))
        log.say("INFO", "runner.go:1172", "load", request=_load_request(settings, options, slots, size, kind))
    else:
        words += ["--ctx-size", str(total), "--batch-size", str(size), "--parallel", str(slots), "--port", str(port)]
        log.say("INFO", "server.go:431", "starting llama server", cmd=" ".join(words))
    # The old runner took a prompt of num_ctx tokens; llama-server wants room for a token of the reply besides.
    room = (options.context + _ROOM_TOKENS) * slots
    hidden = ["-c", str(room), "-np", str(slots), "-b", str(size), "-ub", str(size), "--cache-ram", "0", "--load-mode"]
    hidden += [
        "none",
        "--port",
        str(port),
        "--host",
        "127.0.0.1",
        "--model",
        str(model.weights),
        "--log-verbosity",
        "4",
    ]
    hidden += ["--no-log-prefix", "--no-log-timestamps", "--ctx-checkpoints", "0"]
    hidden += ["--flash-attn", flash_attention(settings), *(["-ctk", kind, "-ctv", kind] if kind else [])]
    hidden += ["-t", str(options.threads)] if options.threads else []
    kept = {name: value for name, value in settings.environment.items() if not name.startswith("LLAMA_ARG_")}
    kept[RUNNER_ARGUMENTS] = json.dumps([settings.llama_server, *hidden])
    return Launch([sys.executable, *words], kept)


def _load_request(settings: Settings, options: Options, slots: int, size: int, kind: str) -> str:
    attention = "Enabled" if settings.flash_attention else "Disabled"
    return (
        f"{{Operation:commit LoraPath:[] Parallel:{slots} BatchSize:{size} FlashAttention:{attention} "
        f"KvSize:{options.context * slots} KvCacheType:{kind} NumThreads:{options.threads or 0} GPULayers:[] "
        f"MultiUserCache:false ProjectorPath: MainGPU:0 UseMmap:false}}"
    )
