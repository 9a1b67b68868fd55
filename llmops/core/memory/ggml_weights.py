"""Where the weights of a ggml server lie: which device holds which layer, and which matrices the processor repacks."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from math import prod

from llmops.core.memory.ggml_settings import GgmlSettings
from llmops.core.model import ModelSpec

# ggml/src/ggml-cpu/repack.cpp, ggml_repack_get_optimal_repack_type (b11434): the kernel's flag -> storage types.
REPACKED_TYPES: tuple[tuple[frozenset[str], frozenset[str]], ...] = (
    (frozenset({"avx2"}), frozenset({"Q4_0", "Q4_K", "IQ4_NL", "MXFP4"})),
    (frozenset({"avx2", "avx512f"}), frozenset({"Q2_K"})),
    (
        frozenset({"asimddp"}),
        frozenset({"Q4_0", "Q4_K", "Q5_K", "Q6_K", "Q8_0", "IQ4_NL", "MXFP4"}),
    ),
    # ggml/src/ggml-cpu/amx/common.h, qtype_has_amx_kernels: asked before the types above.
    (
        frozenset({"amx_int8", "avx512_vnni"}),
        frozenset({"Q4_0", "Q4_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS"}),
    ),
)

HOST = -1

# A storage type of one element in so many of the layers is one that large matrices may have.
COMMON_SHARE = 20


@dataclass(frozen=True)
class Placement:
    """The device of every layer and of the output layer: the position of a card, or HOST."""

    layers: tuple[int, ...]
    output: int

    @property
    def uses_host_layers(self) -> bool:
        """True when any repeating layer is computed by the processor."""
        return HOST in self.layers


def place_layers(layers: int, gpu_layers: int | None, free_bytes: tuple[int, ...]) -> Placement:
    """llama.cpp's default split: the last `gpu_layers` of layers and output, shared by the free memory of the cards.

    src/llama-model.cpp, get_layer_buft_list.
    """
    wanted = layers + 1 if gpu_layers is None else min(gpu_layers, layers + 1)
    if wanted <= 0 or sum(free_bytes) <= 0:
        return Placement((HOST,) * layers, HOST)
    first = layers + 1 - wanted
    shares = [part / sum(free_bytes) for part in accumulate(free_bytes)]
    devices = tuple(
        HOST if layer < first else min(bisect_right(shares, (layer - first) / wanted), len(shares) - 1)
        for layer in range(layers + 1)
    )
    return Placement(devices[:layers], devices[layers])


def repacked_types(cpu_flags: tuple[str, ...]) -> frozenset[str]:
    """Storage types that a build with all the processor's kernels copies into another layout."""
    have = frozenset(cpu_flags)
    matches = [types for needed, types in REPACKED_TYPES if needed <= have]
    return frozenset[str]().union(*matches)


def repacked_bytes(model: ModelSpec, settings: GgmlSettings, roles: tuple[str, ...]) -> int:
    """Most bytes of matrices of these roles that the processor keeps as repacked copies."""
    if not settings.repack:
        return 0
    types = repacked_types(settings.cpu_flags)
    return sum(
        group.matrix_bytes for group in model.tensors if group.role in roles and group.storage_type.upper() in types
    )


def doubled_output_bytes(model: ModelSpec, settings: GgmlSettings, placement: Placement) -> int:
    """Token embeddings that the processor must keep twice: as rows to look up, and repacked as the output layer.

    In a mapped file the rows that are looked up are few; read into memory (`--load-mode none`) they are all there.
    """
    if settings.memory_mapped or not model.tied_output or placement.output != HOST:
        return 0
    return repacked_bytes(model, settings, ("input",))


def output_role(model: ModelSpec) -> str:
    """The tensors that the output layer multiplies with: its own, or the token embeddings where it has none."""
    return "input" if model.tied_output else "output"


def role_bytes(model: ModelSpec, role: str) -> int:
    """Stored bytes of all tensors of one role."""
    return sum(group.stored_bytes for group in model.tensors if group.role == role)


def device_weights(model: ModelSpec, placement: Placement, device: int) -> int:
    """Bytes of weights that a device must hold, each tensor once; layers are taken as equally large.

    The token embeddings always stay on the host; an output layer that shares them is a second copy on a card.
    """
    repeating = role_bytes(model, "repeating")
    before = sum(1 for where in placement.layers if where < device)
    here = sum(1 for where in placement.layers if where == device)
    layers = len(placement.layers)
    weights = repeating * (before + here) // layers - repeating * before // layers if layers else 0
    if device == HOST:
        weights += role_bytes(model, "input")
    if placement.output == device:
        weights += role_bytes(model, "output") + role_bytes(model, "other")
        weights += role_bytes(model, "input") if model.tied_output and device != HOST else 0
    return weights


def largest_matrix_bytes(model: ModelSpec) -> int:
    """Bytes of the largest tensor of the layers, at the most bytes that a common type of them takes for an element."""
    elements = max((prod(sizes) for shape in model.layer_shapes for _, sizes in shape.tensors), default=0)
    groups = [group for group in model.tensors if group.role == "repeating" and group.elements]
    whole = sum(group.elements for group in groups)
    common = [group for group in groups if COMMON_SHARE * group.elements >= whole]
    return int(max((elements * group.stored_bytes / group.elements for group in common), default=0))
