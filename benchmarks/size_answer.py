"""How long `llmops size` takes from a path to its answer, as a whole process beyond the interpreter's own start.

    python benchmarks/size_answer.py [--runs 15] [--gguf FILE.gguf] [--checkpoint DIRECTORY]

Makes a GGUF file of about 5 GB (its weights are a hole) and a checkpoint of 100 safetensors files with their index,
about 16 GB of holes, and starts a process for each answer, the kinds in turn. The machine is given on the command line,
so that a card of this one makes no difference. The least processor time is judged, which other load disturbs least;
beside it stand `python -c pass`, `import click`, `llmops --help` and `llmops probe`, which looks at this machine and so
costs what its processes and engines cost. Exit code 1 above one of the limits.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from benchmarks.gguf_header import (  # noqa: E402 (the path is set above)
    BARE,
    Run,
    as_installed,
    beyond_ms,
    make_large_file,
    print_table,
    run,
)
from tests.doubles import safetensors_files as made  # noqa: E402 (the maker of files lies beside the tests)

CLICK, HELP, PROBE = "import click", "llmops --help", "llmops probe"
GGUF, CHECKPOINT = "5 GB GGUF", "100 safetensors files"
LIMIT_SECONDS = {GGUF: 0.150, CHECKPOINT: 0.300}
LAYERS, HIDDEN, FEED_FORWARD, VOCABULARY, FILES = 36, 4096, 12288, 151_936, 100
CONFIGURATION = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": HIDDEN,
    "intermediate_size": FEED_FORWARD,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 40_960,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 1_000_000,
}
MATRICES = {
    "self_attn.q_proj": (4096, HIDDEN),
    "self_attn.k_proj": (1024, HIDDEN),
    "self_attn.v_proj": (1024, HIDDEN),
    "self_attn.o_proj": (HIDDEN, 4096),
    "mlp.gate_proj": (FEED_FORWARD, HIDDEN),
    "mlp.up_proj": (FEED_FORWARD, HIDDEN),
    "mlp.down_proj": (HIDDEN, FEED_FORWARD),
}
VECTORS = {
    "self_attn.q_norm": 128,
    "self_attn.k_norm": 128,
    "input_layernorm": HIDDEN,
    "post_attention_layernorm": HIDDEN,
}


def make_checkpoint(directory: Path) -> Path:
    """A model of the 8-billion class in 16 bits, its weights in 100 files: nothing but headers is on the disk."""
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {"model.embed_tokens.weight": ("BF16", (VOCABULARY, HIDDEN))}
    for layer in range(LAYERS):
        for name, shape in MATRICES.items():
            tensors[f"model.layers.{layer}.{name}.weight"] = ("BF16", shape)
        for name, length in VECTORS.items():
            tensors[f"model.layers.{layer}.{name}.weight"] = ("BF16", (length,))
    tensors["model.norm.weight"] = ("BF16", (HIDDEN,))
    tensors["lm_head.weight"] = ("BF16", (VOCABULARY, HIDDEN))
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(CONFIGURATION, indent=2), encoding="utf-8")
    made.write_split(directory, tensors, FILES)
    return directory


def commands(gguf: Path, checkpoint: Path) -> dict[str, list[str]]:
    """What is started for each kind of answer."""
    size = [sys.executable, "-m", "llmops", "size", "--slots", "4", "--context", "4096"]
    size += ["--gpu", "RTX 4090:24GiB:24GiB:8.9:1008GB/s", "--ram", "64GiB", "--cores", "16", "--output", "json"]
    return {
        BARE: [sys.executable, "-c", "pass"],
        CLICK: [sys.executable, "-c", "import click"],
        HELP: [sys.executable, "-m", "llmops", "--help"],
        PROBE: [sys.executable, "-m", "llmops", "probe"],
        GGUF: [*size, "--engine", "llama-server", "--engine-version", "11434", "--model", str(gguf)],
        CHECKPOINT: [*size, "--engine", "vllm", "--engine-version", "0.33.0", "--model", str(checkpoint)],
    }


def measure(asked: dict[str, list[str]], runs: int) -> dict[str, list[Run]]:
    """Each command in turn, round by round, after one round that warms the caches."""
    for argv in asked.values():
        run(argv)
    times: dict[str, list[Run]] = {name: [] for name in asked}
    for _ in range(runs):
        for name, argv in asked.items():
            times[name].append(run(argv)[0])
    return times


def report(times: dict[str, list[Run]]) -> bool:
    """Print what was measured; False where an answer takes longer than its limit."""
    print_table(times)
    for name, limit in LIMIT_SECONDS.items():
        print(f"{name}: {beyond_ms(times, name):.0f} ms beyond the interpreter's start, limit {limit * 1e3:.0f} ms")
    return all(beyond_ms(times, name) < limit * 1e3 for name, limit in LIMIT_SECONDS.items())


def main() -> int:
    """Measure; 1 above a limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--gguf", type=Path, help="measure this file instead of the made one")
    parser.add_argument("--checkpoint", type=Path, help="measure this directory instead of the made one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        as_installed(directory)
        gguf = options.gguf.resolve() if options.gguf else make_large_file(Path(directory))
        checkpoint = (
            options.checkpoint.resolve() if options.checkpoint else make_checkpoint(Path(directory) / "checkpoint")
        )
        return 0 if report(measure(commands(gguf, checkpoint), options.runs)) else 1


if __name__ == "__main__":
    sys.exit(main())
