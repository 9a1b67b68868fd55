"""The llama-server options that a plan decides: every spelling, and the environment variable of each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Option:
    """One setting: spellings that turn it on (preferred first), those that turn it off, its environment variables."""

    name: str
    spellings: tuple[str, ...]
    environment: tuple[str, ...] = ()
    negated: tuple[str, ...] = ()

    @property
    def every_spelling(self) -> tuple[str, ...]:
        """All words that set this option one way or the other."""
        return self.spellings + self.negated


MODEL = Option(
    "model",
    ("--model", "-m", "--model-url", "-mu", "--hf-repo", "-hf", "-hfr", "--hf-file", "-hff", "--docker-repo", "-dr"),
    ("LLAMA_ARG_MODEL", "LLAMA_ARG_MODEL_URL", "LLAMA_ARG_HF_REPO", "LLAMA_ARG_HF_FILE", "LLAMA_ARG_DOCKER_REPO"),
)
HOST = Option("host", ("--host",), ("LLAMA_ARG_HOST",))
PORT = Option("port", ("--port",), ("LLAMA_ARG_PORT",))
SLOTS = Option("slots", ("--parallel", "-np"), ("LLAMA_ARG_N_PARALLEL",))
CONTEXT = Option("context", ("--ctx-size", "-c"), ("LLAMA_ARG_CTX_SIZE",))
MMPROJ = Option("mmproj", ("--mmproj", "-mm"), ("LLAMA_ARG_MMPROJ",))
CACHE_TYPE_K = Option("cache_type_k", ("--cache-type-k", "-ctk"), ("LLAMA_ARG_CACHE_TYPE_K",))
CACHE_TYPE_V = Option("cache_type_v", ("--cache-type-v", "-ctv"), ("LLAMA_ARG_CACHE_TYPE_V",))
KV_UNIFIED = Option(
    "kv_unified",
    ("--kv-unified", "-kvu"),
    ("LLAMA_ARG_KV_UNIFIED", "LLAMA_ARG_NO_KV_UNIFIED"),
    ("--no-kv-unified", "-no-kvu"),
)
KV_UNIFIED_PER_SLOT = Option("kv_unified_per_slot", ("--kv-unified-per-slot",), ("LLAMA_ARG_KV_UNIFIED_PER_SLOT",))
BATCH = Option("batch", ("--batch-size", "-b"), ("LLAMA_ARG_BATCH",))
UBATCH = Option("ubatch", ("--ubatch-size", "-ub"), ("LLAMA_ARG_UBATCH",))
THREADS = Option("threads", ("--threads", "-t"), ("LLAMA_ARG_THREADS",))
BATCH_THREADS = Option("batch_threads", ("--threads-batch", "-tb"))
GPU_LAYERS = Option("gpu_layers", ("--gpu-layers", "--n-gpu-layers", "-ngl"), ("LLAMA_ARG_N_GPU_LAYERS",))
# Since b6089 (August 2025, pull request 15077); both keep the matrices of experts in main memory.
CPU_EXPERT_LAYERS = Option("cpu_expert_layers", ("--n-cpu-moe", "-ncmoe"), ("LLAMA_ARG_N_CPU_MOE",))
CPU_EXPERTS = Option("cpu_experts", ("--cpu-moe", "-cmoe"), ("LLAMA_ARG_CPU_MOE",))
TENSOR_SPLIT = Option("tensor_split", ("--tensor-split", "-ts"), ("LLAMA_ARG_TENSOR_SPLIT",))
FLASH_ATTENTION = Option("flash_attention", ("--flash-attn", "-fa"), ("LLAMA_ARG_FLASH_ATTN",))
PROMPT_CACHE = Option("prompt_cache", ("--cache-ram", "-cram"), ("LLAMA_ARG_CACHE_RAM",))
CHECKPOINTS = Option(
    "context_checkpoints", ("--ctx-checkpoints", "--swa-checkpoints", "-ctxcp"), ("LLAMA_ARG_CTX_CHECKPOINTS",)
)
SWA_FULL = Option("swa_full", ("--swa-full",), ("LLAMA_ARG_SWA_FULL",))
REPACK = Option("repack", ("--repack",), ("LLAMA_ARG_REPACK", "LLAMA_ARG_NO_REPACK"), ("--no-repack", "-nr"))
# Which cards are opened is the person's choice; a plan without cards opens none.
DEVICES, NO_DEVICE = Option("devices", ("--device", "-dev"), ("LLAMA_ARG_DEVICE",)), "none"
FIT = Option("fit", ("--fit", "-fit"), ("LLAMA_ARG_FIT",))
METRICS = Option("metrics", ("--metrics",), ("LLAMA_ARG_ENDPOINT_METRICS",))
# One setting, written `--load-mode MODE` since build 10105 and with the other words before; the removed words must go
# from a unit together with it (removed in build 10875).
LOAD_MODE = Option(
    "load_mode",
    ("--load-mode", "-lm", "--mmap", "--mlock", "--direct-io", "-dio"),
    ("LLAMA_ARG_LOAD_MODE", "LLAMA_ARG_MMAP", "LLAMA_ARG_NO_MMAP", "LLAMA_ARG_MLOCK", "LLAMA_ARG_DIO"),
    ("--no-mmap", "--no-direct-io", "-ndio"),
)

PLANNED: tuple[Option, ...] = (
    SLOTS, CONTEXT, CACHE_TYPE_K, CACHE_TYPE_V, KV_UNIFIED, KV_UNIFIED_PER_SLOT, BATCH, UBATCH, THREADS, BATCH_THREADS,
    GPU_LAYERS, CPU_EXPERT_LAYERS, CPU_EXPERTS, TENSOR_SPLIT, FLASH_ATTENTION, PROMPT_CACHE, CHECKPOINTS, SWA_FULL,
    LOAD_MODE, REPACK, FIT, METRICS,
)  # fmt: skip
ALL: tuple[Option, ...] = (MODEL, HOST, PORT, DEVICES, *PLANNED)

# Words that newer builds refuse, with the word that took over the same meaning (removed between builds 9004 and 9016).
RENAMED: dict[str, str] = {
    "--draft": "--spec-draft-n-max",
    "--draft-n": "--spec-draft-n-max",
    "--draft-max": "--spec-draft-n-max",
    "--draft-min": "--spec-draft-n-min",
    "--draft-n-min": "--spec-draft-n-min",
}
# Options that take more than one word.
WORDS_TAKEN: dict[str, int] = {"--control-vector-layer-range": 2}
# Options that make one server serve several models by starting a child for each.
ROUTER: tuple[str, ...] = ("--models-dir", "--models-preset")
# Options that plans leave alone but that work against them.
WORKS_AGAINST: dict[str, str] = {
    "--no-cont-batching": "new prompts wait until nobody is generating",
    "-nocb": "new prompts wait until nobody is generating",
    "--context-shift": "the oldest half of a conversation is dropped without a word when it is full",
}


def option_of(spelling: str) -> Option | None:
    """The option that a canonical spelling belongs to, or None where no plan touches it."""
    return _BY_SPELLING.get(spelling)


def option_of_variable(name: str) -> Option | None:
    """The option that an environment variable sets, or None."""
    return _BY_VARIABLE.get(name)


_BY_SPELLING = {spelling: option for option in ALL for spelling in option.every_spelling}
_BY_VARIABLE = {name: option for option in ALL for name in option.environment}
