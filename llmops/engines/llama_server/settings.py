"""The one list of llama-server settings that a plan becomes: it feeds the files, the trial and what verify expects."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from llmops.core.errors import Misconfigured, TooOld
from llmops.core.plan import Plan
from llmops.core.units import MIB
from llmops.core.version import Since, Timeline, Version
from llmops.engines.base import Setting
from llmops.engines.found import Installation
from llmops.engines.llama_server import options
from llmops.engines.llama_server.options import Option
from llmops.engines.waiting import WAIT_POLICY

# llama_context rounds the cells of one slot up to this many (src/llama-context.cpp).
CONTEXT_STEP_TOKENS = 256
# Between these builds an explicit `--parallel 1` was taken as "choose for me" and gave four slots that share one pool.
ONE_SLOT_IS_OBEYED = Timeline(
    (
        Since(Version((0,)), value=True, source="default of one slot, llama.cpp of mid 2025"),
        Since(Version((6900,)), value=False, source="llama.cpp PR 16736 and issue 17300, seen in build 7079"),
        Since(Version((7433,)), value=True, source="llama.cpp PR 17997"),
    )
)


@dataclass
class Draft:
    """Settings being collected for one binary, and what had to be left out of them."""

    installation: Installation
    settings: list[Setting] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def spelling(self, spellings: Iterable[str]) -> str | None:
        """The first spelling that the binary's help knows; the first of all where the help could not be read."""
        known = self.installation.flags
        return next((word for word in spellings if known is None or word in known), None)

    def require(self, option: Option, value: str) -> None:
        """Add a setting that the plan cannot do without; raise TooOld where the binary has no such flag."""
        word = self.spelling(option.spellings)
        if word is None:
            raise too_old(self.installation, option.spellings[0])
        self.settings.append(Setting(word, value))

    def prefer(self, spellings: Iterable[str], value: str | None) -> bool:
        """Add a setting if the binary knows it; True when it was added."""
        word = self.spelling(spellings)
        if word is not None:
            self.settings.append(Setting(word, value))
        return word is not None


def too_old(installation: Installation, flag: str) -> TooOld:
    """The error for a binary that lacks a flag that a plan needs."""
    version = installation.version_text or "of unknown version"
    return TooOld(
        f"{installation.command[-1]} ({version}) does not know {flag}",
        hint="install a llama.cpp release of September 2025 or later",
    )


def padded(tokens: int) -> int:
    """Context tokens as llama.cpp allocates them: rounded up to a multiple of 256."""
    return -(-tokens // CONTEXT_STEP_TOKENS) * CONTEXT_STEP_TOKENS


def slot_context_tokens(plan: Plan, installation: Installation) -> int:
    """What /props must report for each slot: never more than the model was trained for."""
    per_slot = padded(plan.context_tokens_per_slot)
    if plan.kv_unified and not knows(installation, options.KV_UNIFIED_PER_SLOT.spellings[0]):
        per_slot *= plan.slots
    return min(per_slot, plan.model.context_tokens_trained)


def knows(installation: Installation, flag: str) -> bool:
    """Whether the binary accepts a flag; an unreadable help counts as the newest known one."""
    return installation.flags is None or flag in installation.flags


def compose(plan: Plan, installation: Installation, *, memory_locked: bool = False) -> Draft:
    """Every planned setting in the words of this binary; raise TooOld where an indispensable one is missing."""
    draft = Draft(installation)
    draft.require(options.SLOTS, str(plan.slots))
    draft.require(options.CONTEXT, str(plan.slots * padded(plan.context_tokens_per_slot)))
    _add_cache_layout(draft, plan)
    draft.require(options.BATCH, str(plan.batch_tokens))
    draft.require(options.UBATCH, str(plan.ubatch_tokens))
    if plan.threads is not None:
        draft.require(options.THREADS, str(plan.threads))
    if plan.batch_threads is not None:
        draft.require(options.BATCH_THREADS, str(plan.batch_threads))
    _add_placement(draft, plan)
    _add_flash_attention(draft, plan)
    _add_host_memory(draft, plan, memory_locked=memory_locked)
    if not draft.prefer(options.METRICS.spellings, None):
        draft.warnings.append("this llama-server has no --metrics: the length of its queue cannot be seen")
    if plan.passive_waiting:
        draft.settings.append(Setting(WAIT_POLICY, "passive", environment=True))
    _warn_of_one_slot(draft, plan)
    return draft


def _add_placement(draft: Draft, plan: Plan) -> None:
    """Layers on cards; a build that has, or may have, cards would take all that fit unless it is told not to."""
    layers = plan.gpu_layers
    if layers is None and draft.installation.accelerators == ():
        return
    if layers is None:
        # With no layer on them, cards would still be opened and compute large batches (--op-offload).
        layers = 0
        draft.prefer(options.DEVICES.spellings, options.NO_DEVICE)
    draft.require(options.GPU_LAYERS, str(layers))
    if plan.cpu_expert_layers:
        draft.require(options.CPU_EXPERT_LAYERS, str(plan.cpu_expert_layers))
    if plan.tensor_split:
        draft.require(options.TENSOR_SPLIT, ",".join(f"{share:g}" for share in plan.tensor_split))
    # Every value that --fit would adjust is explicit, and common/fit.cpp leaves alone what is given: a context is never
    # shortened, layers stay where -ngl or experts on the host are said. Off, that holds for builds not yet known too;
    # a plan that does not fit fails at load and is rolled back. Without cards there is only the context to adjust.
    draft.prefer(options.FIT.spellings, "off")


def _add_cache_layout(draft: Draft, plan: Plan) -> None:
    draft.require(options.CACHE_TYPE_K, plan.cache_type_k)
    draft.require(options.CACHE_TYPE_V, plan.cache_type_v)
    if plan.swa_full:
        _require_bare(draft, options.SWA_FULL)
    if not plan.kv_unified:
        # Where there is no such word (before the shared pool), slots never share.
        draft.prefer(options.KV_UNIFIED.negated, None)
        return
    _require_bare(draft, options.KV_UNIFIED)
    if not draft.prefer(options.KV_UNIFIED_PER_SLOT.spellings, str(padded(plan.context_tokens_per_slot))):
        draft.warnings.append(
            "this llama-server has no --kv-unified-per-slot: when conversations together outgrow the shared pool, "
            "every running request fails"
        )


def _require_bare(draft: Draft, option: Option) -> None:
    if not draft.prefer(option.spellings, None):
        raise too_old(draft.installation, option.spellings[0])


def _add_flash_attention(draft: Draft, plan: Plan) -> None:
    valued = draft.installation.valued_flags
    if valued is None or "--flash-attn" in valued:
        draft.require(options.FLASH_ATTENTION, plan.flash_attention)
        return
    quantised_values = plan.cache_type_v not in {"f32", "f16", "bf16"}
    if plan.flash_attention == "on" or quantised_values:
        # Before August 2025 the flag had no value and its absence meant off, which a quantised V cache refuses.
        _require_bare(draft, options.FLASH_ATTENTION)


def _add_host_memory(draft: Draft, plan: Plan, *, memory_locked: bool) -> None:
    draft.prefer(options.PROMPT_CACHE.spellings, str(plan.prompt_cache_bytes // MIB))
    draft.prefer(options.CHECKPOINTS.spellings, str(plan.context_checkpoints))
    if not draft.prefer(("--load-mode",), _load_mode(plan, memory_locked=memory_locked)):
        draft.prefer(("--mmap",) if plan.memory_mapped else ("--no-mmap",), None)
        if memory_locked:
            draft.prefer(("--mlock",), None)
    if not plan.repack and not draft.prefer(options.REPACK.negated, None):
        draft.warnings.append("this llama-server has no --no-repack: it may keep a second copy of the weights")


def _load_mode(plan: Plan, *, memory_locked: bool) -> str:
    if memory_locked:
        return "mmap+mlock" if plan.memory_mapped else "mlock"
    return "mmap" if plan.memory_mapped else "none"


def _warn_of_one_slot(draft: Draft, plan: Plan) -> None:
    version = draft.installation.version
    if plan.slots == 1 and not ONE_SLOT_IS_OBEYED.at(version):
        draft.warnings.append(f"llama-server build {version} serves four slots when told one; build 7433 obeys")


# The options without which llmops cannot tune a binary at all.
REQUIRED: tuple[Option, ...] = (
    options.SLOTS, options.CONTEXT, options.CACHE_TYPE_K, options.CACHE_TYPE_V, options.BATCH, options.UBATCH,
    options.THREADS, options.BATCH_THREADS, options.HOST, options.PORT, options.MODEL,
)  # fmt: skip


def require_usable(installation: Installation) -> None:
    """Raise Misconfigured for a program that does not run, TooOld for one that lacks what every plan needs."""
    if installation.problem is not None:
        raise Misconfigured(
            f"llama-server is installed but cannot be used: {installation.problem}",
            hint=f"make this work first: {' '.join(installation.command)} --help",
        )
    for option in REQUIRED:
        if not any(knows(installation, spelling) for spelling in option.spellings):
            raise too_old(installation, option.spellings[0])
