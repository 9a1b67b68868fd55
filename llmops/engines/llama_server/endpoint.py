"""Where a llama-server listens, from the sources it reads itself: command line, then environment, then config.ini."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from llmops.engines.addresses import from_here
from llmops.engines.found import InForce
from llmops.engines.llama_server import options
from llmops.engines.llama_server.arguments import Argument, value_of
from llmops.engines.llama_server.options import Option

DEFAULT_HOST = "127.0.0.1"
# Newer builds announce another default port, so it is always written out.
DEFAULT_PORT = "8080"


@dataclass(frozen=True)
class Endpoint:
    """Host and port in the person's own words; `url` is None for a socket in the file system."""

    host: str
    port: str
    url: str | None


def read_endpoint(arguments: Sequence[Argument], in_force: InForce | None) -> Endpoint:
    """What these arguments, variables and configuration files say; loopback and 8080 where all are silent."""
    variables = dict((in_force.environment or in_force.configured_environment or ()) if in_force else ())
    texts = in_force.config_files if in_force else ()
    host = said_value(arguments, variables, texts, options.HOST) or DEFAULT_HOST
    port = said_value(arguments, variables, texts, options.PORT) or _listening_port(in_force) or DEFAULT_PORT
    flags = {argument.flag for argument in arguments}
    scheme = "https" if "--ssl-cert-file" in flags or "LLAMA_ARG_SSL_CERT_FILE" in variables else "http"
    prefix = next((argument.values[-1] for argument in arguments if argument.flag == "--api-prefix"), "")
    return Endpoint(host, port, url_of(host, port, scheme=scheme, prefix=prefix))


def url_of(host: str, port: str, *, scheme: str = "http", prefix: str = "") -> str | None:
    """The URL to reach a listener from this machine."""
    addresses = [word.strip() for word in host.split(",") if not word.strip().endswith(".sock")]
    if not addresses:
        return None
    return f"{scheme}://{from_here(addresses[0], port)}{prefix.rstrip('/')}"


def said_value(
    arguments: Sequence[Argument], variables: dict[str, str], config_files: Iterable[tuple[str, str]], option: Option
) -> str | None:
    """The value that wins for one option, or None where nothing sets it."""
    value = value_of(arguments, option)
    if value is not None:
        return value
    for name in option.environment:
        if name in variables:
            return variables[name]
    # The user's file is read after the one of the system (docs/preset.md), so the last word wins.
    said = [setting for _, text in config_files for key, setting in config_pairs(text) if key_sets(key, option)]
    return said[-1] if said else None


def config_pairs(text: str) -> tuple[tuple[str, str], ...]:
    """Keys and values of a llama.cpp config.ini that hold for every model: section `[*]` or none."""
    import configparser

    parser = configparser.RawConfigParser(strict=False, allow_no_value=True, default_section="llmops: none")
    parser.optionxform = lambda optionstr: optionstr  # type: ignore[method-assign]
    try:
        parser.read_string("[*]\n" + text)
    except configparser.Error:
        return ()
    return tuple((key, value or "") for key, value in parser.items("*"))


def key_sets(key: str, option: Option) -> bool:
    """Whether a config.ini key (a flag without its dashes, or a variable) sets an option."""
    plain = key.replace("_", "-")
    return key in option.environment or plain in {spelling.lstrip("-") for spelling in option.every_spelling}


def _listening_port(in_force: InForce | None) -> str | None:
    port = urlsplit(in_force.url).port if in_force and in_force.url else None
    return str(port) if port else None
