"""The cache of one sequence as llmops and other calculators give it, beside what llama-server itself would allocate.

    PEERS_PYTHON=path/to/python python benchmarks/peers.py [--context 8192]

The environment of PEERS_PYTHON has the others installed: `pip install kvfit hf-mem`. Each is asked through the function
behind its command (their commands fetch from the network) with the same config.json, its language part alone and with
the defaults of its class filled in, which makes both of them better; llmops reads that config.json as it is and, apart,
the header of a GGUF file of the same model. The engine answers from its pass without allocation over a file that
holds shapes only, so it needs no weights. Exit code 1 where llmops is further from the engine than 0.1 %.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tabulate import tabulate

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from llmops.core.memory.ggml_cache import total_cache_bytes  # noqa: E402 (found beside this script's directory)
from llmops.core.memory.ggml_settings import GgmlSettings  # noqa: E402
from llmops.core.memory.ggml_state import total_state_bytes  # noqa: E402
from llmops.core.model import ModelSpec  # noqa: E402
from llmops.core.units import MIB  # noqa: E402
from llmops.engines.converted import read_converted  # noqa: E402
from llmops.host.local import LocalHost  # noqa: E402
from llmops.models.hf_config import read_config  # noqa: E402
from llmops.models.hf_defaults import language_facts  # noqa: E402
from llmops.models.hf_families import layers_of  # noqa: E402
from tests.truth.shapes.fit_pass import fit_pass  # noqa: E402
from tests.truth.shapes.published import PUBLISHED  # noqa: E402

CONFIGS = REPOSITORY / "tests/truth/configs"
SERVER = REPOSITORY / ".cache/llama.cpp/bin/llama-server"
# The same model as config.json and as shapes of a GGUF file.
PAIRS = (
    ("qwen3-8b", "qwen3-8b"),
    ("gemma-3-12b", "gemma3-12b"),
    ("gpt-oss-20b", "gpt-oss-20b"),
    ("qwen3-coder-next", "qwen3-next-80b"),
    ("deepseek-v3_r1", "deepseek-v3"),
    ("llama-3.1-8b", "llama-3.1-8b"),
    ("qwen3-30b-a3b", "qwen3-30b-a3b"),
    ("deepseek-v2-lite", "deepseek-v2-lite"),
    ("glm-4.5-air", "glm-4.5-air"),
    ("phi-3-mini", "phi-3-mini-4k"),
    ("qwen3.5-9b", "qwen3.5-9b"),
    ("gemma-4-e4b", "gemma4-e4b"),
    ("gemma-4-26b-a4b", "gemma4-26b-a4b"),
)
MOST_DIFFERENCE = 0.001
KINDS = {True: "sliding_attention", False: "full_attention"}
# Asks every other calculator for all models at once: {name: {config: bytes, or text where it refuses}}.
ASK = """
import json, sys
from kvfit.architectures import estimate_cache
from hf_mem.safetensors.kv_cache import compute_safetensors_kv_cache_size

def kvfit(config, context):
    return estimate_cache(config, context_tokens=context).total_bytes

def hf_mem(config, context):
    return compute_safetensors_kv_cache_size(config.get("text_config", config), "BF16", context)

context, answers = int(sys.argv[1]), {}
for name, ask in (("kvfit", kvfit), ("hf-mem", hf_mem)):
    answers[name] = {}
    for path in sys.argv[2:]:
        try:
            answers[name][path] = ask(json.load(open(path)), context)
        except (KeyError, TypeError, ValueError) as error:
            answers[name][path] = type(error).__name__
print(json.dumps(answers))
"""


def bytes_of(model: ModelSpec, context: int) -> int:
    """Cache and states of one sequence by the rules of llmops."""
    settings = GgmlSettings(slots=1, context_tokens_per_slot=context)
    return total_cache_bytes(model, settings) + total_state_bytes(model, settings)


def engine_bytes(path: Path, context: int) -> float:
    """Cache and states of one sequence by llama-server's own pass."""
    reading = fit_pass((str(SERVER),), path, GgmlSettings(slots=1, context_tokens_per_slot=context))
    return (sum(cache.mib for cache in reading.caches) + sum(state.mib for state in reading.states)) * MIB


def filled(config: str, directory: Path) -> str:
    """A config.json of the language part with every default in it, the kinds of its layers too."""
    part = language_facts(read_config(LocalHost(), str(CONFIGS / config / "config.json")))
    values = dict(part.values)
    attention = layers_of(part).attention_layers
    windows = {layer.layer: layer.window_tokens is not None for layer in attention}
    if "layer_types" not in values and any(windows.values()):
        values["layer_types"] = [KINDS[windows.get(layer, False)] for layer in range(part.layers())]
    path = directory / f"{config}.json"
    path.write_text(json.dumps(values), encoding="utf-8")
    return str(path)


def ask_peers(context: int, directory: Path) -> dict[str, dict[str, float | str]]:
    """The answers of the others by configuration; none where no environment with them is named."""
    python = os.environ.get("PEERS_PYTHON")
    if python is None:
        return {}
    paths = [filled(config, directory) for config, _ in PAIRS]
    said = subprocess.run([python, "-c", ASK, str(context), *paths], capture_output=True, text=True, check=True)
    answers: dict[str, dict[str, float | str]] = json.loads(said.stdout)
    return {name: {Path(path).stem: value for path, value in rows.items()} for name, rows in answers.items()}


def shown(value: float | str, truth: float) -> str:
    """MiB and the error against the engine; what was refused as it is."""
    if isinstance(value, str):
        return value
    return f"{value / MIB:.1f} ({value / truth - 1:+.1%})"


def main() -> int:
    """Print the table; 1 where llmops differs from the engine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--context", type=int, default=8192, help="tokens of the sequence")
    context = parser.parse_args().context
    host, rows, worst = LocalHost(), [], 0.0
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        peers = ask_peers(context, directory)
        for config, shape in PAIRS:
            path = PUBLISHED[shape]().write(directory / f"{shape}.gguf")
            truth = engine_bytes(path, context)
            sources = (path, CONFIGS / config / "config.json")
            ours = [bytes_of(read_converted(host, str(source))[0], context) for source in sources]
            worst = max(worst, *(abs(value / truth - 1) for value in ours))
            others = [shown(answers[config], truth) for answers in peers.values()]
            rows.append([shape, f"{truth / MIB:.1f}", *(shown(value, truth) for value in ours), *others])
            path.unlink()
    print(tabulate(rows, headers=["model", "engine", "llmops, GGUF", "llmops, config.json", *peers], tablefmt="github"))
    return int(worst > MOST_DIFFERENCE)


if __name__ == "__main__":
    raise SystemExit(main())
