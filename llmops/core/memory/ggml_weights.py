"""Where the weights of a ggml server lie: which device holds which layer, and which matrices the processor repacks."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from struct import pack, unpack

from llmops.core.layer_weights import LayerWeight, layer_weights
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
    """The device of every layer and of the output layer: the position of a card, or HOST.

    `host_expert_layers`: the first so many layers keep their routed experts on the host, wherever the rest of them is.
    `opens_cards`: the engine opens cards, also where none of them holds a layer.
    """

    layers: tuple[int, ...]
    output: int
    host_expert_layers: int = 0
    opens_cards: bool = False

    @property
    def uses_cards(self) -> bool:
        """True when the driver of a card is at work in the process."""
        return self.opens_cards or self.output != HOST

    @property
    def works_in_turn(self) -> bool:
        """True when several cards hold everything and take batches in turn (llama-context.cpp, pipeline_parallel)."""
        devices = {*self.layers, self.output}
        return len(devices) > 1 and HOST not in devices and not self.host_expert_layers

    @property
    def uses_host_layers(self) -> bool:
        """True when any repeating layer is computed by the processor."""
        return HOST in self.layers

    @property
    def reads_from_host(self) -> bool:
        """True when a card computes with matrices that the host keeps, or the processor computes layers."""
        return self.uses_host_layers or any(device != HOST for device in self.layers[: self.host_expert_layers])


def place_layers(
    layers: int, gpu_layers: int | None, free_bytes: tuple[int, ...], tensor_split: tuple[float, ...] = ()
) -> Placement:
    """llama.cpp's split by layer: the last `gpu_layers` of layers and output, shared by the free memory of the cards.

    `tensor_split` are other shares of the same cards (`-ts`). src/llama-model.cpp, load_tensors: shares and positions
    are 32-bit floats, which decides where a layer lies exactly on the border of two cards.
    """
    wanted = layers + 1 if gpu_layers is None else min(gpu_layers, layers + 1)
    given = tensor_split[: len(free_bytes)]
    parts = tuple(float(part) for part in (given if any(given) else free_bytes))
    if wanted <= 0 or sum(parts) <= 0:
        return Placement((HOST,) * layers, HOST)
    first = layers + 1 - wanted
    sums = tuple(accumulate((_single(part) for part in parts), lambda whole, part: _single(whole + part)))
    shares = [_single(part / sums[-1]) for part in sums]
    devices = tuple(
        HOST if layer < first else min(bisect_right(shares, _single((layer - first) / wanted)), len(shares) - 1)
        for layer in range(layers + 1)
    )
    return Placement(devices[:layers], devices[layers])


def _single(number: float) -> float:
    """The nearest 32-bit float."""
    rounded: float = unpack("f", pack("f", number))[0]
    return rounded


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


def role_bytes(model: ModelSpec, role: str) -> int:
    """Stored bytes of all tensors of one role."""
    return sum(group.stored_bytes for group in model.tensors if group.role == role)


def device_weights(model: ModelSpec, placement: Placement, device: int) -> int:
    """Bytes of weights that a device must hold, each tensor once.

    The token embeddings always stay on the host; an output layer that shares them is a second copy on a card. What
    reads pictures or sound goes to the first card, wherever the layers are (tools/mtmd/clip.cpp).
    """
    weights = sum(
        _layer_bytes(sizes, place, device, on_host=layer < placement.host_expert_layers)
        for layer, (sizes, place) in enumerate(zip(layer_weights(model), placement.layers, strict=True))
    )
    if device == HOST:
        weights += role_bytes(model, "input")
    if placement.output == device:
        weights += role_bytes(model, "output") + role_bytes(model, "other")
        weights += role_bytes(model, "input") if model.tied_output and device != HOST else 0
    if device == encoder_device(placement):
        weights += role_bytes(model, "encoder")
    return weights


def _layer_bytes(sizes: LayerWeight, place: int, device: int, *, on_host: bool) -> int:
    """What of one layer lies on a device; its routed experts may lie on the host while the rest is on a card."""
    size, experts = sizes
    kept = experts if on_host and place != HOST else 0
    if device == HOST and place != HOST:
        return kept
    return size - kept if place == device else 0


def encoder_device(placement: Placement) -> int:
    """Where a projector is loaded: the first card that there is for it, else the host."""
    return 0 if placement.uses_cards else HOST


def largest_matrix_bytes(model: ModelSpec) -> int:
    """Bytes of the largest tensor of the layers, at the most bytes that a common type of them takes for an element."""
    elements = max((prod(sizes) for shape in model.layer_shapes for _, sizes in shape.tensors), default=0)
    groups = [group for group in model.tensors if group.role == "repeating" and group.elements]
    whole = sum(group.elements for group in groups)
    common = [group for group in groups if COMMON_SHARE * group.elements >= whole]
    return int(max((elements * group.stored_bytes / group.elements for group in common), default=0))
