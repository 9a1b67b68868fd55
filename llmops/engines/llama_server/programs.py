"""Finding llama-server programs on disk and asking one what it is: version, flags, devices."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass

from llmops.core.version import Version
from llmops.engines.llama_server.arguments import EMBEDDED_MODULE, PROGRAM
from llmops.engines.llama_server.help import read_devices, read_help, read_version
from llmops.engines.programs import programs_on_disk
from llmops.host import Completed, Host

EMBEDDED_LIBRARY = "xllamacpp"
# Where people build or unpack it when it is not on PATH.
_PLACES = (
    "/usr/local/bin", "/usr/bin", "/opt/llama.cpp", "/opt/llama.cpp/bin", "/opt/llama.cpp/build/bin",
    "/usr/local/llama.cpp/build/bin", "/usr/local/lib/llama.cpp/bin", "/home/linuxbrew/.linuxbrew/bin",
)  # fmt: skip
_HOME_PLACES = ("llama.cpp/build/bin", "llama.cpp", ".local/bin")
_ASK_SECONDS = 20.0  # a CUDA build that starts its driver for the first time takes several


@dataclass(frozen=True)
class Answers:
    """What a program said of itself; `problem` says why it could not be asked."""

    version: Version | None = None
    version_text: str | None = None
    flags: frozenset[str] | None = None
    valued_flags: frozenset[str] | None = None
    accelerators: tuple[str, ...] | None = None
    problem: str | None = None


def ask(host: Host, command: tuple[str, ...]) -> Answers:
    """Run `--help`, `--version` and `--list-devices`; none of them loads a model or opens a port."""
    answer = _run(host, (*command, "--help"))
    if isinstance(answer, str):
        return Answers(problem=answer)
    known = read_help(answer.stdout)
    if answer.exit_code != 0 or not known.flags:
        said = " ".join((answer.stderr or answer.stdout).split())[:300] or "it prints no help"
        return Answers(problem=f"{' '.join(command)} does not run (exit code {answer.exit_code}): {said}")
    version_answer = _run(host, (*command, "--version"))
    version, text = (None, None) if isinstance(version_answer, str) else read_version(_both(version_answer))
    devices = _run(host, (*command, "--list-devices")) if "--list-devices" in known.flags else ""
    accelerators = None if isinstance(devices, str) else read_devices(_both(devices))
    return Answers(version, text, known.flags, known.valued, accelerators)


def _run(host: Host, argv: tuple[str, ...]) -> Completed | str:
    try:
        return host.query(argv, timeout_seconds=_ASK_SECONDS)
    except FileNotFoundError:
        return f"{argv[0]} does not exist"
    except PermissionError:
        return f"{argv[0]} may not be run by this user"
    except TimeoutError:
        return f"{' '.join(argv)} did not end within {_ASK_SECONDS:g} s"
    except OSError as problem:  # not a program for this processor, for one
        return f"{argv[0]} cannot be run: {problem.strerror or problem}"


def _both(answer: Completed) -> str:
    return f"{answer.stdout}\n{answer.stderr}"


def find_programs(host: Host) -> tuple[str, ...]:
    """Paths of llama-server programs: the one on PATH first, then the common places; each file once."""
    return programs_on_disk(host, PROGRAM, _PLACES, _HOME_PLACES)


def embedded_command() -> tuple[str, ...] | None:
    """How to start the server that is a part of llmops, or None where its library is not installed."""
    if importlib.util.find_spec(EMBEDDED_LIBRARY) is None:
        return None
    return (sys.executable, "-m", EMBEDDED_MODULE)


def embedded_answers() -> Answers:
    """What the embedded server is, from its own table: it belongs to this llmops and not to the machine looked at."""
    from importlib import metadata

    from llmops.embedded.options import OPTIONS

    flags = frozenset(word for option in OPTIONS for word in (*option.names, *option.off))
    valued = frozenset(word for option in OPTIONS if option.value_name for word in option.names)
    text = f"{EMBEDDED_LIBRARY} {metadata.version(EMBEDDED_LIBRARY)}"
    return Answers(None, text, flags, valued, accelerators=())
