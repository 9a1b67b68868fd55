"""How vLLM puts layers into groups that draw blocks from one pool: page sizes made equal, layers padded, stages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate

from llmops.core.errors import UnknownArchitecture
from llmops.core.memory.vllm_facts import GROUP_PADDING_RATIO, HYBRID_GROUPS, UNEQUAL_LAYERS
from llmops.core.memory.vllm_pages import CacheLayer
from llmops.core.memory.vllm_settings import VllmSettings
from llmops.core.version import Version


@dataclass(frozen=True)
class Group:
    """Layers with one table of blocks: each request takes the same number of blocks in all of them."""

    layers: tuple[CacheLayer, ...]

    @property
    def first(self) -> CacheLayer:
        """The layer that stands for the group; layers of one kind with other sizes share its block."""
        return self.layers[0]

    @property
    def page_bytes(self) -> int:
        """Bytes of one block over all its layers."""
        return sum(layer.page_bytes for layer in self.layers)


def groups(layers: tuple[CacheLayer, ...], settings: VllmSettings) -> tuple[Group, ...]:
    """The groups of a whole model; raise UnknownArchitecture where that version cannot hold such layers."""
    if not layers:
        return ()
    if not keeps_groups(layers, settings):
        layers = tuple(_as_full(layer) for layer in layers)
    if len(_kinds(layers)) == 1:
        return _one_group(layers, settings.version)
    return _divided(_equal_pages(layers, settings.version), settings.version)


def keeps_groups(layers: tuple[CacheLayer, ...], settings: VllmSettings) -> bool:
    """Whether windows keep only what they see, or every token as full attention does.

    Chunked attention is counted as full unless an environment variable says otherwise (vllm/config/vllm.py).
    """
    mixed = len({layer.kind for layer in layers}) > 1
    if mixed and any(layer.kind == "chunked" for layer in layers):
        return False
    return settings.hybrid_cache and HYBRID_GROUPS.at(settings.version)


def _as_full(layer: CacheLayer) -> CacheLayer:
    """Windows beside full attention are counted as full; states stay what they are."""
    return replace(layer, kind="full", window_tokens=None) if layer.kind in {"window", "chunked"} else layer


def _kinds(layers: tuple[CacheLayer, ...]) -> dict[tuple[object, ...], list[CacheLayer]]:
    """Layers by what decides how many blocks a request takes; the order is that of the model."""
    found: dict[tuple[object, ...], list[CacheLayer]] = {}
    for layer in layers:
        kind = "full" if layer.kind == "latent" else layer.kind
        found.setdefault((kind, layer.window_tokens, layer.state_blocks), []).append(layer)
    return found


def _one_group(layers: tuple[CacheLayer, ...], version: Version | None) -> tuple[Group, ...]:
    if len({layer.page_bytes for layer in layers}) > 1 and UNEQUAL_LAYERS.at(version) == "none":
        raise _cannot_hold(version)
    return (Group(layers),)


def _equal_pages(layers: tuple[CacheLayer, ...], version: Version | None) -> tuple[CacheLayer, ...]:
    """Every page as large as the largest: a larger block where that divides, padding where the version has it."""
    largest = max(layer.page_bytes for layer in layers)
    if all(layer.page_bytes == largest for layer in layers):
        return layers
    rule = UNEQUAL_LAYERS.at(version)
    if rule not in {"block", "pad"}:
        raise _cannot_hold(version)
    return tuple(_enlarged(layer, largest, version, padded=rule == "pad") for layer in layers)


def _enlarged(layer: CacheLayer, page_bytes: int, version: Version | None, *, padded: bool) -> CacheLayer:
    if layer.kind in {"state", "states"}:
        return replace(layer, page_bytes=page_bytes)
    times, rest = divmod(page_bytes, layer.page_bytes)
    if not rest:
        return replace(layer, page_bytes=page_bytes, block_tokens=layer.block_tokens * times)
    if padded and layer.kind != "latent":
        return replace(layer, page_bytes=page_bytes)
    raise _cannot_hold(version)


def _divided(layers: tuple[CacheLayer, ...], version: Version | None) -> tuple[Group, ...]:
    """Groups of equal size: as many layers as the rarest kind has, or the commonest where that wastes little."""
    kinds: dict[CacheLayer, list[CacheLayer]] = {}
    for layer in layers:
        kinds.setdefault(replace(layer, layer=None), []).append(layer)
    counts = [len(same) for same in kinds.values()]
    size = max(counts) if max(counts) < min(counts) * GROUP_PADDING_RATIO.at(version) else min(counts)
    found = []
    for same in kinds.values():
        parts = -(-len(same) // size)
        found += [Group(tuple(same[part::parts])) for part in range(parts)]
    return tuple(found)


def _cannot_hold(version: Version | None) -> UnknownArchitecture:
    return UnknownArchitecture(
        f"vLLM {version} cannot hold layers whose pages differ as they do in this model", hint="update vLLM"
    )


def stage_of(layer: int | None, counts: tuple[int, ...]) -> int:
    """The pipeline stage of a layer, by the layers of each; a drafter's (None) runs on the last one."""
    if layer is None:
        return len(counts) - 1
    return next((stage for stage, end in enumerate(accumulate(counts)) if layer < end), len(counts) - 1)


def stage_layers(layers: int, settings: VllmSettings) -> tuple[int, ...]:
    """Layers of each stage: as given, else what is left over goes to those before the last (get_pp_indices)."""
    if settings.layer_partition:
        return settings.layer_partition
    stages = settings.pipeline_parallel
    counts = [layers // stages] * stages
    for stage in range(2, layers % stages + 2):
        counts[-stage] += 1
    return tuple(counts)


def block_bytes(found: tuple[Group, ...], stage: int, counts: tuple[int, ...]) -> int:
    """Bytes of one block of the pool on one stage: its largest group, since groups lie over each other."""
    if len(counts) == 1:
        return max(group.page_bytes for group in found)
    return max(sum(one.page_bytes for one in group.layers if stage_of(one.layer, counts) == stage) for group in found)
