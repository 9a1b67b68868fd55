"""The cache rules against the real llama-server: what it allocates for made models of several families.

The models are small, their weights all zero and never written to disk: only the sizes matter.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from llmops.core.model import ModelSpec
from llmops.host.local import LocalHost
from llmops.models import read_model
from tests.doubles import gguf_files as made

pytestmark = pytest.mark.engines

LAYERS, HEADS, KV_HEADS, EMBEDDING, FEED_FORWARD, VOCABULARY, EXPERTS = 8, 8, 2, 512, 512, 64, 4
HEAD = EMBEDDING // HEADS
CONTEXT, UBATCH, WINDOW = 4096, 256, 512
CACHE_LINE = re.compile(r"size = +([\d.]+) MiB \( *(\d+) cells, +(\d+) layers,")

NORMS = {"attn_q_norm.weight": (HEAD,), "attn_k_norm.weight": (HEAD,)}
POST_NORMS = {"post_attention_norm.weight": (EMBEDDING,), "post_ffw_norm.weight": (EMBEDDING,)}


class Family(NamedTuple):
    """What one architecture needs besides the common keys and tensors, for a loader to accept it."""

    keys: Mapping[str, object] = {}
    tensors: Mapping[str, tuple[int, ...]] = {}
    without: tuple[str, ...] = ()
    tied: bool = False
    experts: int = 0
    kv_heads: object = KV_HEADS


RMS = {"attention.layer_norm_rms_epsilon": 1e-5}
SLIDING = {**RMS, "attention.sliding_window": WINDOW}
MOE = {"expert_count": EXPERTS, "expert_used_count": 2, "expert_feed_forward_length": FEED_FORWARD}

FAMILIES = {
    "llama": Family(RMS),
    "qwen3": Family({**RMS, "attention.key_length": HEAD, "attention.value_length": HEAD}, NORMS),
    "qwen3moe": Family({**RMS, **MOE}, NORMS, experts=EXPERTS),
    "granite": Family({**RMS, "logit_scale": 1.0}),
    "olmo2": Family(
        SLIDING,
        {"attn_q_norm.weight": (EMBEDDING,), "attn_k_norm.weight": (KV_HEADS * HEAD,), **POST_NORMS},
        without=("attn_norm.weight", "ffn_norm.weight"),
    ),
    "deci": Family(RMS, kv_heads=[2, 1, 2, 1, 4, 4, 8, 8]),
    "gemma2": Family({**SLIDING, "attention.key_length": 128, "attention.value_length": 128}, POST_NORMS, tied=True),
    "gemma3": Family(SLIDING, NORMS | POST_NORMS, tied=True),
    "cohere2": Family(
        {"attention.sliding_window": WINDOW, "attention.layer_norm_epsilon": 1e-5, "logit_scale": 1.0},
        without=("ffn_norm.weight",),
        tied=True,
    ),
    "gpt-oss": Family(
        {**SLIDING, **MOE, "attention.sliding_window_pattern": [True, True, False, True, True, True, False, True]},
        {
            "post_attention_norm.weight": (EMBEDDING,),
            "attn_sinks.weight": (HEADS,),
            "attn_output.bias": (EMBEDDING,),
            "ffn_gate_inp.bias": (EXPERTS,),
            "ffn_gate_exps.bias": (FEED_FORWARD, EXPERTS),
            "ffn_up_exps.bias": (FEED_FORWARD, EXPERTS),
            "ffn_down_exps.bias": (EMBEDDING, EXPERTS),
        },
        without=("ffn_norm.weight",),
        experts=EXPERTS,
    ),
}


def make(path: Path, architecture: str, family: Family) -> Path:
    metadata = made.model_metadata(
        architecture,
        layers=LAYERS,
        heads=HEADS,
        kv_heads=family.kv_heads,
        embedding=EMBEDDING,
        feed_forward=FEED_FORWARD,
        context=CONTEXT,
        vocabulary=VOCABULARY,
        **family.keys,
    )
    for key in [key for key in metadata if key.startswith("tokenizer.")]:
        del metadata[key]
    metadata |= {"tokenizer.ggml.model": "no_vocab", f"{architecture}.vocab_size": VOCABULARY}
    head = family.keys.get("attention.key_length", HEAD)
    assert isinstance(head, int)
    tensors = [
        replace(tensor, dimensions=_dimensions(tensor, family, head))
        for tensor in made.model_tensors(
            layers=LAYERS,
            embedding=EMBEDDING,
            feed_forward=FEED_FORWARD,
            vocabulary=VOCABULARY,
            tied=family.tied,
            experts=family.experts,
        )
        if not tensor.name.endswith(family.without or ("nothing",))
    ]
    tensors += [
        made.Tensor(f"blk.{layer}.{name}", dimensions, made.F32_TENSOR)
        for layer in range(LAYERS)
        for name, dimensions in family.tensors.items()
    ]
    return made.write(path, metadata, tensors)


def _dimensions(tensor: made.Tensor, family: Family, head: int) -> tuple[int, ...]:
    """Attention matrices of the family's own head length and key-value heads."""
    _, layer, matrix, *_ = (*tensor.name.split("."), "", "", "")
    if matrix in ("attn_k", "attn_v"):
        heads = family.kv_heads[int(layer)] if isinstance(family.kv_heads, list) else KV_HEADS
        return (EMBEDDING, head * heads)
    return {"attn_q": (EMBEDDING, head * HEADS), "attn_output": (head * HEADS, EMBEDDING)}.get(
        matrix, tensor.dimensions
    )


def allocated(command: tuple[str, ...], model: Path) -> list[tuple[float, int, int]]:
    """MiB, cells and layers of each cache that the server makes; it is stopped when they are known."""
    words = ["-m", str(model), "-np", "1", "-c", str(CONTEXT), "-b", str(UBATCH), "-ub", str(UBATCH), "-fit", "off"]
    words += ["--no-repack", "--no-warmup", "-fa", "on", "-lv", "4", "--host", "127.0.0.1", "--port", "0"]
    with subprocess.Popen(
        [*command, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        lines = []
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if "compute buffer size" in line:
                break
        process.kill()
    found = [match.groups() for line in lines if (match := CACHE_LINE.search(line)) and "llama_kv_cache" in line]
    assert found, "".join(lines[-15:])
    return [(float(size), int(cells), int(layers)) for size, cells, layers in found]


def expected(spec: ModelSpec) -> list[tuple[float, int, int]]:
    """Full layers keep the context; windowed ones the window and one batch, padded to 256 cells."""
    caches = []
    for windowed in (False, True):
        layers = [layer for layer in spec.attention_layers if (layer.window_tokens is not None) is windowed]
        cells = CONTEXT
        if windowed and layers:
            cells = -(-min(CONTEXT, (layers[0].window_tokens or 0) + UBATCH) // 256) * 256
        size = cells * sum(layer.cache_bytes_per_token() for layer in layers)
        if layers:
            caches.append((round(size / 1024**2, 2), cells, len(layers)))
    return caches


@pytest.mark.parametrize("architecture", FAMILIES)
def test_the_engine_allocates_what_the_rule_says(
    architecture: str, tmp_path: Path, llama_server: tuple[str, ...]
) -> None:
    model = make(tmp_path / f"{architecture}.gguf", architecture, FAMILIES[architecture])
    assert allocated(llama_server, model) == expected(read_model(LocalHost(), str(model)))
