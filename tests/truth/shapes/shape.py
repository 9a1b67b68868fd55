"""Shape-only GGUF files: the true tensors and metadata of a family, their data one hole that takes almost no disk.

    published.PUBLISHED["qwen3-8b"]()          -> Shape   a model at its published sizes
    attention.qwen3(layers=4, kv_heads=2)      -> Shape   the same family at other sizes (every argument has a default)
    shape.write(path)                          -> Path    what llama-server and read_gguf open; any size, a few MiB
    latent.*, hybrid.*                                    compressed caches (MLA); recurrent and hybrid models
    sizes.GEMMA_2_2B(), variations.draw(seed, count)      sizes that several tables name; sizes drawn by chance

The engine must never load such a file: only its pass without allocation may see it (`fit_pass.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.doubles import gguf_files as made

Dimensions = tuple[int, ...]
Block = Mapping[str, Dimensions]

# Read by kernels that take 32-bit floats only, whatever the rest is quantised to.
FLOATS = ("norm", "ssm_conv1d", "ssm_a", "ssm_d", "shortconv.conv", "bias", "gate_inp", "rope", "time_mix", "lerp")


@dataclass(frozen=True)
class Shape:
    """One model: metadata as it is in the file, and all its tensors."""

    architecture: str
    metadata: Mapping[str, object]
    tensors: tuple[made.Tensor, ...]

    def write(self, path: Path) -> Path:
        """Make the file."""
        return made.write(path, self.metadata, self.tensors)


def shape(
    architecture: str,
    *,
    layers: int,
    embedding: int,
    vocabulary: int,
    context: int,
    keys: Mapping[str, object],
    blocks: Sequence[Block],
    outer: Block | None = None,
    tied: bool = False,
    norm: str = "output_norm.weight",
) -> Shape:
    """Put a model together; `keys` lack the prefix of the architecture, `outer` are tensors of no layer."""
    own = {
        "block_count": layers,
        "context_length": context,
        "embedding_length": embedding,
        "vocab_size": vocabulary,
        **keys,
    }
    metadata = {"general.architecture": architecture, "general.file_type": 7, "tokenizer.ggml.model": "no_vocab"}
    dimensions: dict[str, Dimensions] = {"token_embd.weight": (embedding, vocabulary), norm: (embedding,)}
    dimensions |= {} if tied else {"output.weight": (embedding, vocabulary)}
    dimensions |= outer or {}
    for number, block in enumerate(blocks):
        dimensions |= {f"blk.{number}.{name}": size for name, size in block.items()}
    return Shape(
        architecture,
        metadata | {f"{architecture}.{key}": value for key, value in own.items()},
        tuple(made.Tensor(name, size, _storage(name, size)) for name, size in dimensions.items()),
    )


def _storage(name: str, dimensions: Dimensions) -> int:
    if len(dimensions) == 1 or any(word in name for word in FLOATS):
        return made.F32_TENSOR
    return made.Q8_0 if dimensions[0] % 32 == 0 else made.F16_TENSOR
