"""A whole machine for the command line: FakeMachine with processors and memory, model files really on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from llmops.core.hardware import GpuReading
from llmops.core.units import GIB, KIB
from llmops.host import Completed, FileStatus, ListeningSocket, ProcessInfo
from tests.doubles import gguf_files, safetensors_files
from tests.unit.fake_machine import FakeFile, FakeMachine

HELP = """\
usage: llama-server [options]

-h,    --help, --usage                  print usage and exit
--version                               show version and build info
-t,    --threads N                      number of CPU threads to use during generation
-tb,   --threads-batch N                number of threads to use during batch and prompt processing
-c,    --ctx-size N                     size of the prompt context
-b,    --batch-size N                   logical maximum batch size
-ub,   --ubatch-size N                  physical maximum batch size
-fa,   --flash-attn [on|off|auto]       set Flash Attention use
-ctk,  --cache-type-k TYPE              KV cache data type for K
-ctv,  --cache-type-v TYPE              KV cache data type for V
-np,   --parallel N                     number of parallel sequences to decode
-kvu,  --kv-unified, -no-kvu, --no-kv-unified
                                        use single unified KV buffer
-cram, --cache-ram N                    set the maximum cache size in MiB
-ctxcp, --ctx-checkpoints N             max number of context checkpoints to create per slot
-m,    --model FNAME                    model path to load
--host HOST                             ip address to listen
--port PORT                             port to listen
--metrics                               enable prometheus compatible metrics endpoint
--slots, --no-slots                     expose slots monitoring endpoint
-cb,   --cont-batching, -nocb, --no-cont-batching
                                        whether to enable continuous batching
-ngl,  --gpu-layers, --n-gpu-layers N   max. number of layers to store in VRAM
-r,    --repack, -nr, --no-repack       whether to enable weight repacking
-fit,  --fit [on|off]                   whether to adjust unset arguments to fit in device memory
-lm,   --load-mode MODE                 how to load the weights
"""
PROGRAM = "/usr/local/bin/llama-server"


def memory_texts(total_bytes: int, available_bytes: int) -> dict[str, FakeFile]:
    """/proc of a machine with so much memory, four cores and no swap."""
    processors = "".join(
        f"processor\t: {number}\nvendor_id\t: Example\nmodel name\t: Example CPU\nphysical id\t: 0\n"
        f"core id\t\t: {number}\ncpu cores\t: 4\nsiblings\t: 4\nflags\t\t: fpu avx2 fma\n\n"
        for number in range(4)
    )
    meminfo = (
        f"MemTotal: {total_bytes // KIB} kB\nMemAvailable: {available_bytes // KIB} kB\n"
        "SwapTotal: 0 kB\nSwapFree: 0 kB\n"
    )
    return {
        "/proc/meminfo": FakeFile(meminfo),
        "/proc/cpuinfo": FakeFile(processors),
        "/proc/swaps": FakeFile("Filename\tType\tSize\tUsed\tPriority\n"),
    }


@dataclass
class Machine(FakeMachine):
    """`installed` puts a llama-server on it; paths below `disk` are those of the real file system."""

    disk: Path | None = None
    installed: bool = False
    answers: dict[tuple[str, ...], Completed] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.files.update(memory_texts(8 * GIB, 7 * GIB))
        if self.installed:
            self.files[PROGRAM] = FakeFile("", 0o755)
            self.answers[(PROGRAM, "--help")] = Completed((), 0, HELP, "")
            said = "version: 0.6.0-dev (build 11434, commit abc1234)\nbuilt with GNU 12.2.0 for Linux x86_64\n"
            self.answers[(PROGRAM, "--version")] = Completed((), 0, "", said)

    def _is_real(self, path: PurePosixPath | str) -> bool:
        return self.disk is not None and Path(path).is_relative_to(self.disk)

    def read_bytes(self, path: PurePosixPath | str, offset: int, length: int) -> bytes:
        if not self._is_real(path):
            raise FileNotFoundError(2, "No such file or directory", str(path))
        with Path(path).open("rb") as file:
            file.seek(offset)
            return file.read(length)

    def status(self, path: PurePosixPath | str) -> FileStatus:
        if not self._is_real(path):
            return super().status(path)
        found = Path(path).stat()
        kind = "directory" if Path(path).is_dir() else "file"
        return FileStatus(kind, found.st_size, 0o644, 0, 0, 0.0, 1, found.st_ino)

    def list_directory(self, path: PurePosixPath | str) -> tuple[str, ...]:
        if not self._is_real(path):
            return super().list_directory(path)
        return tuple(sorted(entry.name for entry in Path(path).iterdir()))

    def resolve(self, path: PurePosixPath | str) -> str:
        return str(Path(path).resolve()) if self._is_real(path) else super().resolve(path)

    def query(self, argv: Sequence[str], *, timeout_seconds: float = 20.0) -> Completed:
        words = tuple(argv)
        if words in self.answers:
            return self.answers[words]
        if words[:2] == ("systemctl", "show") or words[0] == "journalctl":
            return super().query(words)
        raise FileNotFoundError(2, "No such file or directory", words[0])

    def gpus(self) -> GpuReading:
        return GpuReading("library_missing", "libnvidia-ml.so.1 is not installed")

    def affinity_cpus(self) -> int | None:
        return 4

    def processes(self) -> tuple[ProcessInfo, ...]:
        return ()

    def listening_sockets(self) -> tuple[ListeningSocket, ...]:
        return ()

    def environment(self) -> Mapping[str, str]:
        return {"HOME": "/home/user"}

    def memory_read_seconds(self, buffer_bytes: int, threads: int, passes: int) -> tuple[float, ...]:
        return (buffer_bytes / 20e9,) * passes


def checkpoint(directory: Path, name: str = "checkpoint", *, context: int = 16_384, layers: int = 8) -> Path:
    """A small whole Qwen3 checkpoint of two files; its weights are holes."""
    hidden, feed_forward, vocabulary = 1024, 2816, 1000
    configuration = {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": hidden,
        "intermediate_size": feed_forward, "num_hidden_layers": layers, "num_attention_heads": 16,
        "num_key_value_heads": 4, "head_dim": 64, "vocab_size": vocabulary, "max_position_embeddings": context,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", "hidden_act": "silu",
    }  # fmt: skip
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {"model.embed_tokens.weight": ("BF16", (vocabulary, hidden))}
    for layer in range(layers):
        for matrix, rows, columns in (
            ("self_attn.q_proj", 1024, hidden), ("self_attn.k_proj", 256, hidden), ("self_attn.v_proj", 256, hidden),
            ("self_attn.o_proj", hidden, 1024), ("mlp.gate_proj", feed_forward, hidden),
            ("mlp.up_proj", feed_forward, hidden), ("mlp.down_proj", hidden, feed_forward),
        ):  # fmt: skip
            tensors[f"model.layers.{layer}.{matrix}.weight"] = ("BF16", (rows, columns))
        for vector, length in (("input_layernorm", hidden), ("post_attention_layernorm", hidden)):
            tensors[f"model.layers.{layer}.{vector}.weight"] = ("BF16", (length,))
        for vector in ("self_attn.q_norm", "self_attn.k_norm"):
            tensors[f"model.layers.{layer}.{vector}.weight"] = ("BF16", (64,))
    tensors |= {"model.norm.weight": ("BF16", (hidden,)), "lm_head.weight": ("BF16", (vocabulary, hidden))}
    made = directory / name
    made.mkdir()
    (made / "config.json").write_text(json.dumps(configuration), encoding="utf-8")
    safetensors_files.write_split(made, tensors, files=2)
    return made


def model_file(directory: Path, name: str = "small.gguf", *, layers: int = 8, context: int = 16_384) -> Path:
    """A small whole llama model; its weights are a hole."""
    shape = {"layers": layers, "embedding": 1024, "feed_forward": 2816, "vocabulary": 1000}
    metadata = gguf_files.model_metadata("llama", heads=16, kv_heads=4, context=context, **shape)
    tensors = gguf_files.model_tensors(layers=layers, embedding=1024, kv_width=256, feed_forward=2816, vocabulary=1000)
    return gguf_files.write(directory / name, metadata, tensors)
