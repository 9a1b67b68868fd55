"""A machine to look at, described by hand: processes, files, commands, HTTP answers; what is not said is absent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from llmops.core.hardware import GpuReading
from llmops.core.plan import Fixed, Plan
from llmops.core.sizing import size
from llmops.engines.found import Installation
from llmops.engines.llama_server.help import read_help
from llmops.host import Completed, FileStatus, ListeningSocket, ProcessInfo, Response
from tests.unit.core.example_models import GIB, cpu_host, problem
from tests.unit.fake_machine import Unused

SERVER = "/usr/bin/llama-server"
MODEL = "/srv/models/qwen3-8b-f16.gguf"

# The layout of `llama-server --help`: options in the first column, explanations from column 41 or on the next line.
NEW_HELP = """----- common params -----

-h,    --help, --usage                  this text
--version                               which build this is
-t,    --threads N                      threads (default: -1)
                                        (env: LLAMA_ARG_THREADS)
-tb,   --threads-batch N                threads for prompts
-c,    --ctx-size N                     tokens of context
-b,    --batch-size N                   logical batch
-ub,   --ubatch-size N                  physical batch
--swa-full                              full windows
-fa,   --flash-attn [on|off|auto]       flash attention
--repack, -nr, --no-repack              rearrange the weights
-ctk,  --cache-type-k TYPE              type of keys
-ctv,  --cache-type-v TYPE              type of values
-lm,   --load-mode MODE                 how to read the file
                                        - auto: as the device likes it
-dev,  --device <dev1,dev2,..>          devices to use
--list-devices                          devices
-ngl,  --gpu-layers, --n-gpu-layers N   layers on cards
-cmoe, --cpu-moe                        all experts in main memory
-ncmoe, --n-cpu-moe N                   experts of the first layers in main memory
-ts,   --tensor-split N0,N1,N2,...      shares of the cards
-fit,  --fit [on|off]                   adjust by itself
-m,    --model FNAME                    file to load
-hf,   -hfr, --hf-repo <user>/<model>[:quant]
                                        repository to load from
--control-vector-layer-range START END
                                        first and last layer
--draft, --draft-n, --draft-max N       the argument has been removed. use --spec-draft-n-max
--spec-draft-n-max N                    tokens to draft
--kv-unified-per-slot N                 cap of each slot
-ctxcp, --ctx-checkpoints, --swa-checkpoints N
                                        checkpoints of each slot
-cram, --cache-ram N                    prompt cache in MiB
-kvu,  --kv-unified, -no-kvu, --no-kv-unified
                                        one pool
-np,   --parallel N                     slots
-cb,   --cont-batching, -nocb, --no-cont-batching
                                        continuous batching
-a,    --alias STRING                   name in the API
--host HOST                             address
--port PORT                             port
--api-key-file FNAME                    file with keys
--metrics                               counters
--jinja, --no-jinja                     template engine
"""
# A build of the middle of 2025: flash attention without a value, no shared pool, mmap by its old words.
OLD_HELP = """----- common params -----

-h,    --help, --usage                  this text
-t,    --threads N                      threads
-tb,   --threads-batch N                threads for prompts
-c,    --ctx-size N                     tokens of context
-b,    --batch-size N                   logical batch
-ub,   --ubatch-size N                  physical batch
-fa,   --flash-attn                     flash attention
-ctk,  --cache-type-k TYPE              type of keys
-ctv,  --cache-type-v TYPE              type of values
--mlock                                 keep in memory
--no-mmap                               do not map
-ngl,  --gpu-layers, --n-gpu-layers N   layers on cards
-m,    --model FNAME                    file to load
-np,   --parallel N                     slots
--host HOST                             address
--port PORT                             port
--metrics                               counters
"""


@dataclass
class LookedAt(Unused):
    """A Host."""

    files: dict[str, str] = field(default_factory=dict)
    programs: dict[str, str] = field(default_factory=dict)
    commands: dict[tuple[str, ...], Completed] = field(default_factory=dict)
    running: tuple[ProcessInfo, ...] = ()
    listeners: tuple[ListeningSocket, ...] = ()
    answers: dict[str, Response | OSError] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    uid: int = 0
    reading: GpuReading = field(default_factory=lambda: GpuReading("library_missing", "no NVIDIA library"))
    seconds: float = 0.0

    def read_text(self, path: PurePosixPath | str) -> str:
        if str(path) not in self.files:
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return self.files[str(path)]

    def status(self, path: PurePosixPath | str) -> FileStatus:
        if str(path) == "/run/systemd/system" and "systemctl" in self.programs:
            return FileStatus("directory", 0, 0o755, 0, 0, 0.0, 0, 0)
        if str(path) not in self.files and str(path) not in self.programs.values():
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return FileStatus("file", 1, 0o755, 0, 0, 0.0, 0, 0)

    def list_directory(self, path: PurePosixPath | str) -> tuple[str, ...]:
        names = {PurePosixPath(file).name for file in self.files if PurePosixPath(file).parent == PurePosixPath(path)}
        if not names:
            raise FileNotFoundError(str(path))
        return tuple(names)

    def resolve(self, path: PurePosixPath | str) -> str:
        return str(path)

    def which(self, program: str) -> str | None:
        return self.programs.get(program)

    def query(self, argv: Sequence[str], *, timeout_seconds: float = 20.0) -> Completed:
        if tuple(argv) not in self.commands:
            raise FileNotFoundError(argv[0])
        return self.commands[tuple(argv)]

    def processes(self) -> tuple[ProcessInfo, ...]:
        return self.running

    def listening_sockets(self) -> tuple[ListeningSocket, ...]:
        return self.listeners

    def get(self, url: str, *, timeout_seconds: float = 5.0) -> Response:
        answer = self.answers.get(url, ConnectionRefusedError(f"{url}: refused"))
        if isinstance(answer, OSError):
            raise answer
        return answer

    def gpus(self) -> GpuReading:
        return self.reading

    def environment(self) -> Mapping[str, str]:
        return self.variables

    def effective_uid(self) -> int:
        return self.uid

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def says(self, argv: tuple[str, ...], stdout: str, *, stderr: str = "", exit_code: int = 0) -> None:
        """What a command answers."""
        self.commands[argv] = Completed(argv, exit_code, stdout, stderr)

    def install(self, path: str, help_text: str = NEW_HELP, version: str = "version: 9265 (abc1234)") -> None:
        """A llama-server program that can be asked."""
        self.files[path] = ""
        self.says((path, "--help"), help_text)
        self.says((path, "--version"), "", stderr=f"{version}\nbuilt with GNU\n")
        self.says((path, "--list-devices"), "Available devices:\n  (none)\n")

    def unit(self, name: str, fragment: str, *, main_pid: int = 0, **drop_ins: str) -> None:
        """A unit as systemctl shows it, drop-ins by name."""
        path = f"/etc/systemd/system/{name}"
        self.programs["systemctl"] = "/usr/bin/systemctl"
        self.files[path] = fragment
        paths = []
        for drop_in, text in drop_ins.items():
            paths.append(f"{path}.d/{drop_in.replace('_', '-')}.conf")
            self.files[paths[-1]] = text
        shown = {
            "LoadState": "loaded", "ActiveState": "active" if main_pid else "inactive", "SubState": "running",
            "UnitFileState": "enabled", "InvocationID": "1", "NRestarts": "0", "MainPID": str(main_pid),
            "NeedDaemonReload": "no", "Result": "success", "ExecMainStatus": "0",
        }  # fmt: skip
        where = {"FragmentPath": path, "DropInPaths": " ".join(paths)}
        for values in (shown, where):
            argv = ("systemctl", "show", name, "--no-pager", *(f"--property={key}" for key in values))
            self.says(argv, "".join(f"{key}={value}\n" for key, value in values.items()))

    def named_in(self, *paths: str) -> None:
        """The unit files that the search for llama-server finds."""
        argv = (
            "grep", "-RlsE", "--include=*.service", "--include=*.conf", "llama-server|llmops.embedded",
            "/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
            "/lib/systemd/system",
        )  # fmt: skip
        self.says(argv, "".join(f"{path}\n" for path in paths), exit_code=0 if paths else 1)


def process(
    pid: int, *argv: str, parent: int = 1, group: str = "/", environment: Mapping[str, str] | None = None
) -> ProcessInfo:
    """A running process."""
    return ProcessInfo(pid, parent, argv[0], argv, tuple((environment or {}).items()), 0, group)


def installed(help_text: str = NEW_HELP, **changes: object) -> Installation:
    """A program on disk that knows the flags of this help."""
    known = read_help(help_text)
    found = Installation("llama-server", "binary", (SERVER,), None, "9265", known.flags, (), valued_flags=known.valued)
    return replace(found, **changes)  # type: ignore[arg-type]


def a_plan(**changes: object) -> Plan:
    """Five slots of 8,192 tokens on a host with plenty of memory."""
    made = size(problem(cpu_host(128 * GIB, cores=16), fixed=Fixed(slots=5, context_tokens=8192)))
    made = replace(made, model=replace(made.model, reference=MODEL, source_paths=(MODEL,)))
    return replace(made, **changes)  # type: ignore[arg-type]


def props(slots: int = 5, context: int = 8192, **more: object) -> dict[str, object]:
    """What GET /props answers."""
    return {"total_slots": slots, "default_generation_settings": {"n_ctx": context}, "model_path": MODEL, **more}
