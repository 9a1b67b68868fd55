"""Ollama's environment variables, read as Ollama reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import log
from .traits import DEFAULT_VERSION, Traits

FOREVER_NANOSECONDS = (1 << 63) - 1
SECOND = 1_000_000_000
_UNITS = {"ns": 1, "us": 1000, "µs": 1000, "ms": 1_000_000, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND}
_PART = r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)"
_FALSE = {"0", "f", "false"}


def variable(environment: Mapping[str, str], name: str) -> str:
    """The value without spaces and quotes around it."""
    return environment.get(name, "").strip().strip("\"'")


def boolean(text: str, *, default: bool = False) -> bool:
    """What cannot be read is true."""
    if not text:
        return default
    return text.lower() not in _FALSE


def tristate(text: str) -> bool | None:
    """None where it is not set."""
    return boolean(text) if text else None


def unsigned(environment: Mapping[str, str], name: str, default: int) -> int:
    """What cannot be read is the default, with a warning."""
    text = variable(environment, name)
    if not text:
        return default
    if text.isdecimal():
        return int(text)
    message = "invalid environment variable, using default"
    log.say("WARN", "config.go:259", message, key=name, value=text, default=default)
    return default


def parse_duration(text: str) -> int | None:
    """Nanoseconds of a Go duration or of whole seconds; None where it is neither."""
    if re.fullmatch(r"[+-]?\d+", text):
        return int(text) * SECOND
    if not re.fullmatch(rf"[+-]?({_PART})+", text):
        return None
    sign = -1 if text.startswith("-") else 1
    parts = re.findall(_PART, text)
    return sign * sum(int(float(number) * _UNITS[unit]) for number, unit in parts)


def format_duration(nanoseconds: int) -> str:
    """A duration as Go prints it."""
    seconds, rest = divmod(nanoseconds, SECOND)
    hours, seconds = divmod(seconds, 3600)
    minutes, seconds = divmod(seconds, 60)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    if hours:
        return f"{hours}h{minutes}m{seconds}{fraction}s"
    return f"{minutes}m{seconds}{fraction}s" if minutes else f"{seconds}{fraction}s"


def duration(environment: Mapping[str, str], name: str, default: int, *, zero_is_forever: bool = False) -> int:
    """A negative duration is for ever."""
    found = parse_duration(variable(environment, name))
    found = default if found is None else found
    return FOREVER_NANOSECONDS if found < 0 or (zero_is_forever and found == 0) else found


@dataclass(frozen=True)
class Address:
    """Where the server listens or the client connects."""

    scheme: str
    host: str
    port: int

    @property
    def text(self) -> str:
        """scheme://host:port"""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def parse_address(text: str) -> Address:
    """OLLAMA_HOST: a scheme that is given brings its own default port."""
    scheme, found, rest = text.partition("://")
    if not found:
        scheme, rest = "http", text
    default = {"http": 80, "https": 443}.get(scheme, 11434) if found else 11434
    rest = rest.split("/", 1)[0]
    if rest.count(":") > 1 and not rest.startswith("["):
        return Address(scheme, rest, default)
    host, colon, port = rest.rpartition(":") if ":" in rest.rpartition("]")[2] else (rest, "", "")
    host = host.strip("[]") or ("" if colon else "127.0.0.1")
    if colon and not (port.isdecimal() and int(port) <= 65535):
        log.say("WARN", "config.go:48", "invalid port, using default", port=port, default=default)
        port = ""
    return Address(scheme, host, int(port) if port else default)


@dataclass(frozen=True)
class Settings:
    """What the server was given."""

    traits: Traits
    address: Address
    models: str
    parallel: int
    context: int
    keep_alive: int
    load_timeout: int
    queue: int
    most_loaded: int
    cache_type: str
    flash_attention: bool | None
    gpu_overhead: int
    sched_spread: bool
    no_prune: bool
    origins: str
    llama_server: str
    environment: Mapping[str, str]


def read_settings(environment: Mapping[str, str], program: str) -> Settings:
    """The settings of a server started with this environment from this program."""
    traits = Traits(environment.get("OLLAMA_STAND_IN_VERSION", DEFAULT_VERSION))
    beside = Path(program).absolute().parent.parent / "lib" / "ollama" / "llama-server"
    flash = variable(environment, "OLLAMA_FLASH_ATTENTION")
    return Settings(
        traits=traits,
        address=parse_address(variable(environment, "OLLAMA_HOST")),
        models=variable(environment, "OLLAMA_MODELS") or str(Path("~/.ollama/models").expanduser()),
        parallel=unsigned(environment, "OLLAMA_NUM_PARALLEL", traits.default_parallel()) or traits.default_parallel(),
        context=unsigned(environment, "OLLAMA_CONTEXT_LENGTH", 0),
        keep_alive=duration(environment, "OLLAMA_KEEP_ALIVE", 5 * 60 * SECOND),
        load_timeout=duration(environment, "OLLAMA_LOAD_TIMEOUT", 5 * 60 * SECOND, zero_is_forever=True),
        queue=unsigned(environment, "OLLAMA_MAX_QUEUE", 512),
        most_loaded=unsigned(environment, "OLLAMA_MAX_LOADED_MODELS", 0),
        cache_type=variable(environment, "OLLAMA_KV_CACHE_TYPE"),
        flash_attention=tristate(flash),
        gpu_overhead=unsigned(environment, "OLLAMA_GPU_OVERHEAD", 0),
        sched_spread=boolean(variable(environment, "OLLAMA_SCHED_SPREAD")),
        no_prune=boolean(variable(environment, "OLLAMA_NOPRUNE")),
        origins=variable(environment, "OLLAMA_ORIGINS"),
        llama_server=environment.get("OLLAMA_STAND_IN_LLAMA_SERVER", str(beside)),
        environment=environment,
    )


def server_config(settings: Settings) -> str:
    """The map that the line "server config" shows."""
    values: dict[str, object] = {
        "CUDA_VISIBLE_DEVICES": variable(settings.environment, "CUDA_VISIBLE_DEVICES"),
        "OLLAMA_CONTEXT_LENGTH": settings.context,
        "OLLAMA_DEBUG": "INFO",
        "OLLAMA_FLASH_ATTENTION": bool(settings.flash_attention),
        "OLLAMA_GPU_OVERHEAD": settings.gpu_overhead,
        "OLLAMA_HOST": settings.address.text,
        "OLLAMA_KEEP_ALIVE": format_duration(settings.keep_alive),
        "OLLAMA_KV_CACHE_TYPE": settings.cache_type,
        "OLLAMA_LLM_LIBRARY": variable(settings.environment, "OLLAMA_LLM_LIBRARY"),
        "OLLAMA_LOAD_TIMEOUT": format_duration(settings.load_timeout),
        "OLLAMA_MAX_LOADED_MODELS": settings.most_loaded,
        "OLLAMA_MAX_QUEUE": settings.queue,
        "OLLAMA_MODELS": settings.models,
        "OLLAMA_NOPRUNE": settings.no_prune,
        "OLLAMA_NUM_PARALLEL": settings.parallel,
        "OLLAMA_ORIGINS": f"[{settings.origins.replace(',', ' ')}]",
        "OLLAMA_SCHED_SPREAD": settings.sched_spread,
    }
    if settings.traits.wraps_llama_server:
        values["LLAMA_ARG_FIT"] = variable(settings.environment, "LLAMA_ARG_FIT")
        values["LLAMA_ARG_FIT_TARGET"] = variable(settings.environment, "LLAMA_ARG_FIT_TARGET")
    shown = {name: str(value).lower() if isinstance(value, bool) else value for name, value in values.items()}
    return "map[" + " ".join(f"{name}:{shown[name]}" for name in sorted(shown)) + "]"
