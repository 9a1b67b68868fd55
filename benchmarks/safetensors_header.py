"""How long a checkpoint of 100 .safetensors files takes from its path to a ModelSpec, as a whole process.

    python benchmarks/safetensors_header.py [--runs 9] [--files 100]

Makes three models whose weights are holes (some tens of MB of disk): a dense one of 405 billion parameters, one of 235
billion with 128 experts, one of 671 billion with 256. The limit is for the first two. Beside ours the format's own
package, which only lists the names and shapes, where it is installed: SAFETENSORS_PYTHON=path/to/python of an
environment that has `safetensors` and `numpy`. "Beyond" is beyond `python -c pass` in the same run; the least processor
time is judged, which other load disturbs least. Exit code 1 above the limit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.gguf_header import BARE, OURS_NAME, Run, as_installed, beyond_ms, print_table, run
from tests.doubles import safetensors_files as made

OURS = """
import sys
from llmops.host.local import LocalHost
from llmops.models import read_model
spec = read_model(LocalHost(), sys.argv[1])
print(spec.parameters, sum(group.tensors for group in spec.tensors), spec.weights_bytes)
"""
THEIRS = """
import json, pathlib, sys
from safetensors import safe_open
place = pathlib.Path(sys.argv[1])
found = 0
for name in sorted(set(json.loads((place / "model.safetensors.index.json").read_text())["weight_map"].values())):
    with safe_open(place / name, "numpy") as file:
        found += sum(len(file.get_slice(key).get_shape()) >= 0 for key in file.keys())
print(found)
"""
THEIRS_NAME = "safetensors"
LIMIT_SECONDS = 0.300
Shape = tuple[str, tuple[int, ...]]


def attention(hidden: int, heads: int, kv_heads: int, length: int) -> dict[str, Shape]:
    return {
        "self_attn.q_proj.weight": ("BF16", (heads * length, hidden)),
        "self_attn.k_proj.weight": ("BF16", (kv_heads * length, hidden)),
        "self_attn.v_proj.weight": ("BF16", (kv_heads * length, hidden)),
        "self_attn.o_proj.weight": ("BF16", (hidden, heads * length)),
        "input_layernorm.weight": ("BF16", (hidden,)),
        "post_attention_layernorm.weight": ("BF16", (hidden,)),
    }


def feed_forward(hidden: int, length: int, data_type: str, prefix: str = "mlp.") -> dict[str, Shape]:
    found: dict[str, Shape] = {}
    for name, shape in (
        ("gate_proj", (length, hidden)),
        ("up_proj", (length, hidden)),
        ("down_proj", (hidden, length)),
    ):
        found[f"{prefix}{name}.weight"] = (data_type, shape)
        if data_type == "F8_E4M3":
            found[f"{prefix}{name}.weight_scale_inv"] = ("F32", (shape[0] // 128, shape[1] // 128))
    return found


def tensors(layers: int, hidden: int, vocabulary: int, layer: dict[str, Shape]) -> dict[str, Shape]:
    matrix: Shape = ("BF16", (vocabulary, hidden))
    ends: dict[str, Shape] = {"model.embed_tokens.weight": matrix, "lm_head.weight": matrix}
    ends["model.norm.weight"] = ("BF16", (hidden,))
    return {**ends, **{f"model.layers.{n}.{name}": shape for n in range(layers) for name, shape in layer.items()}}


def with_experts(experts: int, hidden: int, length: int, data_type: str) -> dict[str, Shape]:
    found: dict[str, Shape] = {"mlp.gate.weight": ("BF16", (experts, hidden))}
    for number in range(experts):
        found |= feed_forward(hidden, length, data_type, f"mlp.experts.{number}.")
    return found


def config(model_type: str, layers: int, hidden: int, vocabulary: int, **more: object) -> dict[str, object]:
    common = {"num_attention_heads": 64, "max_position_embeddings": 131072, "tie_word_embeddings": False}
    sizes = {"num_hidden_layers": layers, "hidden_size": hidden, "vocab_size": vocabulary}
    return {"model_type": model_type, "torch_dtype": "bfloat16", **common, **sizes, **more}


def models() -> dict[str, tuple[dict[str, object], dict[str, Shape]]]:
    """Configurations and tensors by a name."""
    dense = {**attention(16384, 128, 8, 128), **feed_forward(16384, 53248, "BF16")}
    sparse = {**attention(4096, 64, 4, 128), **with_experts(128, 4096, 1536, "BF16")}
    large = {**attention(7168, 128, 4, 128), **with_experts(256, 7168, 2048, "F8_E4M3")}
    return {
        "405 billion, dense": (
            config("llama", 126, 16384, 128256, intermediate_size=53248, num_key_value_heads=8, head_dim=128),
            tensors(126, 16384, 128256, dense),
        ),
        "235 billion, 128 experts": (
            config("qwen3_moe", 94, 4096, 151936, intermediate_size=12288, num_key_value_heads=4, head_dim=128,
                   num_experts=128, num_experts_per_tok=8, moe_intermediate_size=1536),
            tensors(94, 4096, 151936, sparse),
        ),
        "671 billion, 256 experts in 8 bits": (
            config("qwen3_moe", 61, 7168, 129280, intermediate_size=18432, num_key_value_heads=4, head_dim=128,
                   num_experts=256, num_experts_per_tok=8, moe_intermediate_size=2048),
            tensors(61, 7168, 129280, large),
        ),
    }  # fmt: skip


def measure(directory: Path, runs: int, other: str | None) -> float:
    """Print what was measured of one model; the milliseconds that ours takes beyond the bare interpreter."""
    commands = {BARE: [sys.executable, "-c", "pass"], OURS_NAME: [sys.executable, "-c", OURS, str(directory)]}
    if other is not None:
        commands[THEIRS_NAME] = [other, "-c", THEIRS, str(directory)]
    print(f"  {OURS_NAME} prints {run(commands[OURS_NAME])[1]}")  # warms the caches
    times: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(runs):
        for name, argv in commands.items():
            times[name].append(run(argv)[0])
    print_table(times)
    return beyond_ms(times, OURS_NAME)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--files", type=int, default=100)
    options = parser.parse_args()
    other = os.environ.get("SAFETENSORS_PYTHON")
    if other and subprocess.run([other, "-c", "import safetensors, numpy"], check=False).returncode:
        other = None
    beyond: list[float] = []
    for name, (settings, described) in models().items():
        with tempfile.TemporaryDirectory() as place:
            as_installed(place)
            directory = Path(place, "model")
            directory.mkdir()
            (directory / "config.json").write_text(json.dumps(settings), encoding="utf-8")
            index = made.write_split(directory, described, options.files)
            size = index.stat().st_size / 1e6
            print(f"{name}: {len(described)} tensors in {options.files} files, index of {size:.1f} MB")
            beyond.append(measure(directory, options.runs, other))
    print(f"limit {LIMIT_SECONDS * 1e3:.0f} ms for the first two: {', '.join(f'{one:.0f} ms' for one in beyond)}")
    return 0 if max(beyond[:2]) < LIMIT_SECONDS * 1e3 else 1


if __name__ == "__main__":
    sys.exit(main())
