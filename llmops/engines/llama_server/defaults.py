"""What llama-server chooses by itself for values that nobody gives (common/common.h, tools/server/server.cpp)."""

from __future__ import annotations

from dataclasses import replace

from llmops.core.model import ModelSpec
from llmops.core.plan import Fixed
from llmops.core.units import MIB
from llmops.core.version import Since, Timeline, Version
from llmops.engines.found import Installation
from llmops.engines.llama_server import options
from llmops.engines.llama_server.settings import knows

BATCH_TOKENS, UBATCH_TOKENS = 2048, 512
PROMPT_CACHE_MIB, CHECKPOINTS = 8192, 32
AUTOMATIC_SLOTS = 4
# Without --parallel: four slots that share one pool; one slot in builds before.
SHARES_BY_ITSELF = Timeline(
    (
        Since(Version((0,)), value=False, source="llama-cpp-python 0.3.16 (mid 2025), common.h"),
        Since(Version((6900,)), value=True, source="llama.cpp PR 16736, seen in build 7079"),
    )
)
# Without --ctx-size, slots with caches of their own: the trained context is divided among them, or each has all of it.
EACH_SLOT_HAS_ALL = Timeline(
    (
        Since(Version((0,)), value=False, source="llama.cpp build 10456, context divided"),
        Since(Version((10457,)), value=True, source="seen in build 10883 (n_streams in common/fit.cpp)"),
    )
)
# Without --ctx-size: cells in all, None for the trained context. Of the two changes, the end of the short context is
# put early and its beginning late, so that no build in between is promised too little.
CONTEXT_BY_ITSELF: Timeline[int | None] = Timeline(
    (
        Since(Version((0,)), value=None, source="common/common.h before pull request 10136 (November 2024)"),
        Since(Version((4100,)), value=4096, source="llama.cpp pull request 10136; 4096 in llama-cpp-python 0.3.16 too"),
        Since(Version((7300,)), value=None, source="llama.cpp pull request 16653 (--fit, December 2025)"),
    )
)
# Whether the server fits what it is not told (--fit, on by default): it shortens a context that nobody gave, to 4,096
# tokens for each slot at the least, then moves layers off the cards (common/fit.cpp). It leaves alone a context that is
# given, and layers where -ngl, -ts or experts on the host are.
FITS_BY_ITSELF = Timeline(
    (
        Since(Version((0,)), value=False, source="llama.cpp before pull request 16653"),
        Since(Version((7300,)), value=True, source="llama.cpp pull request 16653 (--fit, December 2025)"),
    )
)
# Saved prompts and checkpoints of builds whose help was not read. The newer values begin early, as above.
SAVES_PROMPTS = Timeline(
    (
        Since(Version((0,)), value=False, source="llama.cpp before pull request 16391 (October 2025)"),
        Since(Version((6600,)), value=True, source="llama.cpp pull request 16391, --cache-ram 8192"),
    )
)
CHECKPOINTS_BY_ITSELF = Timeline(
    (
        Since(Version((0,)), value=0, source="llama.cpp before pull request 15293 (August 2025)"),
        Since(Version((6100,)), value=8, source="llama.cpp pull request 15293: 3 for each slot, later 8"),
        Since(Version((7300,)), value=CHECKPOINTS, source="32 in the help of builds 9093 to 11434"),
    )
)


def with_defaults(fixed: Fixed, model: ModelSpec, installation: Installation) -> Fixed:
    """Every value that is not fixed as this build chooses it; a build of unknown version counts as the newest."""
    slots, unified = _slots(fixed, installation)
    given = fixed.prompt_cache_bytes, fixed.context_checkpoints
    prompt_cache, checkpoints = _saved(installation)
    return replace(
        fixed,
        slots=slots,
        kv_unified=unified,
        context_tokens=fixed.context_tokens or _context(model, slots, installation, unified=unified),
        cache_type_k=fixed.cache_type_k or "f16",
        cache_type_v=fixed.cache_type_v or "f16",
        batch_tokens=fixed.batch_tokens or BATCH_TOKENS,
        ubatch_tokens=fixed.ubatch_tokens or UBATCH_TOKENS,
        prompt_cache_bytes=prompt_cache if given[0] is None else given[0],
        context_checkpoints=checkpoints if given[1] is None else given[1],
    )


def _saved(installation: Installation) -> tuple[int, int]:
    """Bytes of saved prompts and checkpoints of a slot: nothing without the flag, else by the build."""
    build = installation.version
    saves = knows(installation, options.PROMPT_CACHE.spellings[0])
    keeps = any(knows(installation, word) for word in options.CHECKPOINTS.spellings)
    if installation.flags is None:
        saves = SAVES_PROMPTS.at(build)
    return PROMPT_CACHE_MIB * MIB if saves else 0, CHECKPOINTS_BY_ITSELF.at(build) if keeps else 0


def _slots(fixed: Fixed, installation: Installation) -> tuple[int, bool]:
    """The automatic number comes with one pool, even where --no-kv-unified is given."""
    if fixed.slots is not None:
        return fixed.slots, bool(fixed.kv_unified)
    if SHARES_BY_ITSELF.at(installation.version):
        return AUTOMATIC_SLOTS, True
    return 1, bool(fixed.kv_unified)


def _context(model: ModelSpec, slots: int, installation: Installation, *, unified: bool) -> int:
    """Tokens per slot; of a shared pool, which is as long as the context, the share of one slot."""
    whole = CONTEXT_BY_ITSELF.at(installation.version) or model.context_tokens_trained
    alone = not unified and EACH_SLOT_HAS_ALL.at(installation.version)
    return whole if alone else max(1, whole // slots)
