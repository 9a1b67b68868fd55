"""What a build of llama-server makes of the settings it is given: older ones shared, kept or counted otherwise."""

from __future__ import annotations

from dataclasses import replace

from llmops.core.memory.ggml_settings import GgmlSettings
from llmops.core.plan import Shape
from llmops.core.version import Since, Timeline, Version
from llmops.engines.ggml import ggml_settings
from llmops.engines.llama_server.settings import ONE_SLOT_IS_OBEYED

# What `-np 1` gave where it was not obeyed.
SLOTS_INSTEAD_OF_ONE = 4
EXACT_TYPES = frozenset({"f32", "f16", "bf16"})

# Whether flash attention is on where nobody asks for it; a quantised cache of values has it in any build.
FLASH_ATTENTION_BY_ITSELF = Timeline(
    (
        Since(Version((0,)), value=False, source="common/common.h before pull request 15434: flash_attn = false"),
        Since(Version((6325,)), value=True, source="llama.cpp pull request 15434, August 2025"),
    )
)
# Whether slots can have caches of their own. Before, all of them shared one pool, each with its share of the context:
# the same cells, but every batch is compared with all of them. A late build is taken.
OWN_CACHES = Timeline(
    (
        Since(Version((0,)), value=False, source="llama.cpp before pull request 14363 (July 2025)"),
        Since(Version((6100,)), value=True, source="llama.cpp pull requests 14363 and 14959, in use since August 2025"),
    )
)
# Whether layers with a window keep only that. A late build is taken: the first ones kept a logical batch besides.
KEEPS_WINDOWS = Timeline(
    (
        Since(Version((0,)), value=False, source="llama.cpp before pull request 13194 (May 2025)"),
        Since(Version((5600,)), value=True, source="llama.cpp pull requests 13194 and 13833, seen in build 5630"),
    )
)


def settings_as_run(shape: Shape, cpu_flags: tuple[str, ...], build: Version | None) -> GgmlSettings:
    """The shape in the terms of the memory model, as this build serves it (None: the newest known)."""
    settings = ggml_settings(shape, cpu_flags)
    unasked = shape.flash_attention == "auto" and settings.cache_type_v in EXACT_TYPES
    if unasked and not FLASH_ATTENTION_BY_ITSELF.at(build):
        settings = replace(settings, flash_attention=False)
    if not OWN_CACHES.at(build):
        settings = replace(settings, kv_unified=True)
    if not KEEPS_WINDOWS.at(build):
        settings = replace(settings, swa_full=True)
    return settings if ONE_SLOT_IS_OBEYED.at(build) else _with_four_slots(settings)


def _with_four_slots(settings: GgmlSettings) -> GgmlSettings:
    """One slot became four that share its context."""
    if settings.slots > 1:
        return settings
    share = -(-settings.context_tokens_per_slot // SLOTS_INSTEAD_OF_ONE)
    return replace(settings, slots=SLOTS_INSTEAD_OF_ONE, context_tokens_per_slot=share, kv_unified=True)
