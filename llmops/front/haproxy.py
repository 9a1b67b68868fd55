"""HAProxy as the front: an instance of its own with its own unit, so that the machine's own haproxy.service stays."""

from __future__ import annotations

from dataclasses import dataclass

from llmops.core.errors import Misconfigured, NotInstalled, TooOld
from llmops.core.files import RenderedFile
from llmops.core.version import Version
from llmops.front.listen import Address
from llmops.front.spec import MOST_CONNECTIONS, FrontServer, FrontSpec
from llmops.front.traffic import ErrorForm, Traffic, traffic_of
from llmops.host import Host

NAME = "haproxy"
PROGRAM = "/usr/sbin/haproxy"
UNIT = "llmops-front.service"
UNIT_PATH = f"/etc/systemd/system/{UNIT}"
CONFIGURATION_PATH = "/etc/llmops/front.cfg"
STATUS_PATH = "/llmops/front"
# `set-var-fmt` is of 2.5; the oldest one that the tests run is Debian 12's.
OLDEST = Version((2, 6))
INSTALL_LINE = "apt-get install haproxy"
# What still streams when a new configuration or a stop arrives may go on for this long.
DRAIN_SECONDS = 600
_SILENCE_SECONDS = 3600  # llama-server itself gives up on a silent connection after an hour (--timeout)


@dataclass(frozen=True)
class Program:
    """An installed HAProxy."""

    path: str
    version: Version | None
    version_text: str


def find_program(host: Host) -> Program | None:
    """The installed HAProxy, None where there is none."""
    path = host.which(NAME) or (PROGRAM if _exists(host, PROGRAM) else None)
    if path is None:
        return None
    try:
        answer = host.query((path, "-v"))
    except (OSError, TimeoutError):
        return Program(path, None, "")
    first = next((line for line in answer.stdout.splitlines() if "version" in line), "")
    text = first.partition("version")[2].strip().split(" ")[0]
    return Program(path, Version.parse(text), text)


def require_program(host: Host) -> Program:
    """Raise NotInstalled, Misconfigured or TooOld where no HAProxy can be the front."""
    found = find_program(host)
    if found is None:
        raise NotInstalled("HAProxy is not installed; nothing was changed", hint=f"install it: {INSTALL_LINE}")
    if found.version is None:
        raise Misconfigured(f"{found.path} does not say its version", hint=f"try it: {found.path} -v")
    if found.version < OLDEST:
        raise TooOld(
            f"HAProxy {found.version_text} is older than {OLDEST}, which the front needs",
            hint="packages of newer versions for Debian and Ubuntu: https://haproxy.debian.net",
        )
    return found


def configuration_file(spec: FrontSpec) -> RenderedFile:
    """The whole configuration of the front."""
    from llmops.render import render

    traffic = traffic_of(spec.engine)
    content = render(
        "haproxy/front.cfg.j2",
        engine=spec.engine,
        listen=str(spec.listen),
        servers=tuple((server_name(spec, number), str(one.address), one.slots) for number, one in _numbered(spec)),
        slots=spec.slots,
        queue_seconds=spec.queue_seconds,
        retry_seconds=spec.retry_seconds,
        drain_seconds=DRAIN_SECONDS,
        silence_seconds=_SILENCE_SECONDS,
        most_connections=MOST_CONNECTIONS,
        cheap=_cheap(traffic),
        is_full=_full(spec),
        counts_slots=spec.queue_requests == 0,
        affinity_header=spec.affinity_header,
        only_below=traffic.only_below,
        health_path=traffic.health_path,
        host_header=traffic.host_header,
        errors=tuple(_error(spec, traffic, form) for form in traffic.error_forms),
        status_path=STATUS_PATH,
        status=_status(spec),
        own_addresses=_own_addresses(spec.listen),
    )
    return RenderedFile(CONFIGURATION_PATH, content)


def unit_file(spec: FrontSpec, program: str = PROGRAM) -> RenderedFile:
    """The hardened unit that runs HAProxy with the front's configuration and nothing else."""
    from llmops.render import render

    content = render(
        "haproxy/unit.service.j2",
        program=program,
        configuration=CONFIGURATION_PATH,
        stop_seconds=DRAIN_SECONDS + 30,
        privileged_port=spec.listen.is_privileged,
        peers=_peers(spec),
    )
    return RenderedFile(UNIT_PATH, content)


def checked_configuration(host: Host, program: Program) -> None:
    """Let HAProxy itself read the configuration on disk; raise Misconfigured with its words where it refuses."""
    answer = host.query((program.path, "-c", "-q", "-f", CONFIGURATION_PATH))
    if answer.exit_code != 0:
        words = " | ".join(line.strip() for line in answer.stderr.splitlines() if "ALERT" in line)
        raise Misconfigured(
            f"HAProxy refuses {CONFIGURATION_PATH}: {words or f'exit code {answer.exit_code}'}",
            hint=f"look at it: {program.path} -c -f {CONFIGURATION_PATH}",
        )


def server_name(spec: FrontSpec, number: int) -> str:
    """What HAProxy calls one of the servers, in its configuration and its log."""
    return "engine" if len(spec.servers) == 1 else f"engine{number}"


def _numbered(spec: FrontSpec) -> tuple[tuple[int, FrontServer], ...]:
    return tuple(enumerate(spec.servers, 1))


def _peers(spec: FrontSpec) -> tuple[str, ...] | None:
    """The machines that a front on loopback talks to; None where everybody may connect to it."""
    if not spec.listen.is_loopback:
        return None
    return tuple(dict.fromkeys(one.address.host for one in spec.servers if not one.address.is_loopback))


def _full(spec: FrontSpec) -> str:
    """When one more would be too many. Where nobody may wait, the queue is always as long as it may be."""
    if spec.queue_requests == 0:
        return "be_conn(generation),sub(txn.slots) ge 0"
    return f"queue(generation) ge {spec.queue_requests}"


def _cheap(traffic: Traffic) -> tuple[str, ...]:
    rows = (("path_end", traffic.cheap_endings), ("path_beg", traffic.cheap_beginnings))
    return tuple(f"{match} {' '.join(paths)}" for match, paths in rows if paths)


def _error(spec: FrontSpec, traffic: Traffic, form: ErrorForm) -> dict[str, str]:
    """The condition of one error form and its bodies, each as one word of the configuration."""
    busy = "server busy, please try again"
    at_once = f"{spec.slots} {'request is' if spec.slots == 1 else 'requests are'} served at once"
    ended = "the model server ended" if len(spec.servers) == 1 else "a model server ended"
    messages = {
        "full": (503, f"{busy}: {at_once} and {spec.queue_requests} may wait"),
        "late": (503, f"{busy}: no slot became free within {spec.queue_seconds} s, or {ended}"),
        "down": (503, "the model server does not answer, please try again"),
        "closed": (403, f"only requests below {', '.join(traffic.only_below)} pass here"),
    }
    bodies = {name: _strong_quoted(form.body(status, message)) for name, (status, message) in messages.items()}
    return {"condition": "" if form.below is None else f" if {{ path_beg {form.below} }}", **bodies}


def _status(spec: FrontSpec) -> str:
    """A JSON object with the limits in force and what goes on now; parts in %[ ] are HAProxy's own samples."""
    limits = ",".join(f'"{name}":{value}' for name, value in spec.word.items())
    engines = ",".join(_server_status(server_name(spec, number), one) for number, one in _numbered(spec))
    return f'\'{{{limits},"waiting":%[queue(generation)],"engines":[{engines}]}}\''


def _server_status(name: str, server: FrontServer) -> str:
    parts = (
        f'"address":"{server.address}"',
        f'"slots":{server.slots}',
        f'"serving":%[srv_conn(generation/{name})]',
        f'"up":%[srv_is_up(generation/{name})]',
    )
    return f"{{{','.join(parts)}}}"


def _own_addresses(listen: Address) -> tuple[str, ...]:
    local = ("127.0.0.0/8", "::1")
    return local if listen.is_everywhere or listen.is_loopback else (*local, listen.host)


def _strong_quoted(text: str) -> str:
    """A log format without samples, as one word: nothing else is special in single quotes (manual, section 2.2)."""
    if any(character in text for character in "'\n\r\0"):
        raise ValueError(f"{text!r} cannot be quoted")
    return "'" + text.replace("%", "%%") + "'"


def _exists(host: Host, path: str) -> bool:
    try:
        return host.status(path).kind == "file"
    except OSError:
        return False
