"""Every option that says what to plan for: the same names on the command line and in llmops.yaml."""

from __future__ import annotations

from llmops.configuration import OptionSpec, ValueKind
from llmops.core.model import CACHE_TYPE_BLOCKS
from llmops.core.overrides import parse_gpu

_K = ValueKind
# No machine or load of one server is beyond these; what is has been mistyped. llama.cpp counts tokens in 32 bits, and
# Linux has at most 8,192 processors (NR_CPUS).
_MOST_USERS, _MOST_CORES, _MOST_TOKENS, _MOST_SECONDS, _MOST_SPEED = 100_000, 8192, 2**31 - 1, 10**9, 10**6
_MOST_CARDS = 1024
# Types that only vLLM has are no llama.cpp types.
GGML_CACHE_TYPES = tuple(name for name in CACHE_TYPE_BLOCKS if name != "fp8")

SUBJECT = (
    OptionSpec(
        "engine",
        _K.CHOICE,
        "Engine to plan for; auto: what runs, else what is installed and suits.",
        choices=("auto", "ollama", "llama-server", "vllm"),
    ),
    OptionSpec("engine-version", _K.TEXT, "Plan for this version instead of the installed one.", "VERSION"),
    OptionSpec(
        "model",
        _K.TEXTS,
        "Model: a .gguf file (its first part), a Hugging Face directory or cached repository, or an Ollama name."
        " Default: what is served.",
        "REF",
    ),
    OptionSpec(
        "mmproj", _K.TEXT, "A file that reads pictures or sound beside the model; its memory is counted.", "PATH"
    ),
    OptionSpec("draft-model", _K.TEXT, "A second, small model that guesses tokens; its memory is counted.", "REF"),
)
LOAD = (
    OptionSpec("users", _K.INTEGER, "People or agents who use the server.", "N", minimum=1, maximum=_MOST_USERS),
    OptionSpec("workload", _K.CHOICE, "Kind of use; sets the next four.", choices=("chat", "rag", "agent", "batch")),
    OptionSpec("turn-seconds", _K.NUMBER, "From one turn of a user to the next.", "S", above=0, maximum=_MOST_SECONDS),
    OptionSpec("prompt-tokens", _K.INTEGER, "Tokens of a typical prompt.", "N", minimum=1, maximum=_MOST_TOKENS),
    OptionSpec("reply-tokens", _K.INTEGER, "Tokens of a typical reply.", "N", minimum=1, maximum=_MOST_TOKENS),
    OptionSpec(
        "context",
        _K.INTEGER,
        "Tokens per request that must fit: a floor, never crossed.",
        "N",
        minimum=1,
        maximum=_MOST_TOKENS,
    ),
    OptionSpec(
        "generation-seconds",
        _K.NUMBER,
        "Seconds that one request is served, if known.",
        "S",
        above=0,
        maximum=_MOST_SECONDS,
    ),
)
FIXED = (
    OptionSpec("slots", _K.INTEGER, "Fix the number of requests served at once.", "N", minimum=1, maximum=_MOST_TOKENS),
    OptionSpec(
        "cache-type",
        _K.CHOICE,
        "Fix the type of the KV cache.",
        choices=("auto", "f16", "bf16", "q8_0", "q4_0", "fp8"),
    ),
    OptionSpec("cache-type-k", _K.CHOICE, "Fix the type of the keys alone.", choices=GGML_CACHE_TYPES),
    OptionSpec("cache-type-v", _K.CHOICE, "Fix the type of the values alone.", choices=GGML_CACHE_TYPES),
    OptionSpec("queue", _K.INTEGER, "Fix the number of requests that may wait.", "N", minimum=0, maximum=_MOST_TOKENS),
    OptionSpec(
        "batch-size", _K.INTEGER, "Fix the tokens of one step (llama-server -b).", "N", minimum=1, maximum=_MOST_TOKENS
    ),
    OptionSpec(
        "ubatch-size",
        _K.INTEGER,
        "Fix the tokens of one pass (llama-server -ub).",
        "N",
        minimum=1,
        maximum=_MOST_TOKENS,
    ),
    OptionSpec("flash-attn", _K.CHOICE, "Fix flash attention (llama-server -fa).", choices=("on", "off", "auto")),
    OptionSpec("kv-unified", _K.FLAG, "One cache pool shared by all slots, or not."),
    OptionSpec("repack", _K.FLAG, "Rearranged copies of weights for this processor, or none."),
    OptionSpec("cache-ram", _K.SIZE, "Fix the memory for saved prompts (llama-server -cram).", "SIZE", minimum=0),
    OptionSpec("ctx-checkpoints", _K.INTEGER, "Fix the checkpoints of a slot (llama-server -ctxcp).", "N", minimum=0),
    OptionSpec("swa-full", _K.FLAG, "Keep the whole context in sliding-window layers."),
    OptionSpec(
        "gpu-layers",
        _K.INTEGER,
        "Fix the layers on cards; the first ones stay with the processor (llama-server -ngl).",
        "N",
        minimum=0,
        maximum=_MOST_TOKENS,
    ),
    OptionSpec(
        "n-cpu-moe",
        _K.INTEGER,
        "Keep the experts of the first layers in main memory (llama-server -ncmoe).",
        "N",
        minimum=0,
        maximum=_MOST_TOKENS,
    ),
    OptionSpec(
        "tensor-split", _K.TEXT, "Fix the shares of the cards in the layers, such as 3,1 (llama-server -ts).", "SHARES"
    ),
)
VLLM = (
    OptionSpec("gpu-memory-utilization", _K.NUMBER, "Fix the share of each card (vLLM).", "F", above=0, maximum=1),
    OptionSpec("kv-memory", _K.SIZE, "Fix the cache memory of each card (vLLM).", "SIZE", above=0),
    OptionSpec(
        "tensor-parallel",
        _K.INTEGER,
        "Fix the cards that share each layer (vLLM).",
        "N",
        minimum=1,
        maximum=_MOST_CARDS,
    ),
    OptionSpec(
        "pipeline-parallel",
        _K.INTEGER,
        "Fix the groups of cards that share the layers (vLLM).",
        "N",
        minimum=1,
        maximum=_MOST_CARDS,
    ),
    OptionSpec(
        "data-parallel",
        _K.INTEGER,
        "Fix the copies of the model that serve side by side (vLLM).",
        "N",
        minimum=1,
        maximum=_MOST_CARDS,
    ),
    OptionSpec("expert-parallel", _K.FLAG, "Whole experts on each card instead of parts of all, or not (vLLM)."),
    OptionSpec(
        "nodes", _K.INTEGER, "Machines like this one that serve together (vLLM).", "N", minimum=1, maximum=_MOST_CARDS
    ),
    OptionSpec(
        "max-num-batched-tokens",
        _K.INTEGER,
        "Fix the tokens of one step (vLLM).",
        "N",
        minimum=1,
        maximum=_MOST_TOKENS,
    ),
    OptionSpec("enable-prefix-caching", _K.FLAG, "Reuse the cache of equal beginnings, or not (vLLM)."),
    OptionSpec("enforce-eager", _K.FLAG, "No CUDA graphs and no compilation (vLLM)."),
)
POLICY = (
    OptionSpec("protect", _K.CHOICE, "Steady streams (itl) or quick first tokens (ttft).", choices=("itl", "ttft")),
    OptionSpec("max-gap-seconds", _K.NUMBER, "Longest stall of a running stream.", "S", above=0, maximum=_MOST_SECONDS),
    OptionSpec("wait-probability", _K.NUMBER, "Share of requests that may have to wait.", "P", above=0, below=1),
    OptionSpec(
        "patience-seconds",
        _K.NUMBER,
        "How long a client waits before it gives up.",
        "S",
        above=0,
        maximum=_MOST_SECONDS,
    ),
    OptionSpec(
        "min-speed", _K.NUMBER, "Least speed of one stream.", "TOKENS_PER_SECOND", minimum=0, maximum=_MOST_SPEED
    ),
)
MACHINE = (
    OptionSpec("hardware", _K.TEXT, "Use this `probe --output json` instead of the machine.", "FILE"),
    OptionSpec("ram", _K.SIZE, "Override the memory, such as 8GiB.", "SIZE", above=0),
    OptionSpec("ram-available", _K.SIZE, "Override the memory that is free.", "SIZE", above=0),
    OptionSpec("swap", _K.SIZE, "Override the swap space.", "SIZE", minimum=0),
    OptionSpec("cores", _K.INTEGER, "Override the physical cores.", "N", minimum=1, maximum=_MOST_CORES),
    OptionSpec("bandwidth", _K.RATE, "Override the memory bandwidth, such as 20GB/s.", "RATE", above=0),
    OptionSpec(
        "gpu",
        _K.TEXTS,
        "Override the cards (repeatable).",
        "NAME:TOTAL[:FREE[:CAPABILITY[:BANDWIDTH]]]",
        check=parse_gpu,
    ),
    OptionSpec("no-gpu", _K.FLAG, "Plan as if there were no card."),
    OptionSpec("links", _K.CHOICE, "Override how the cards are linked.", choices=("nvlink", "pcie")),
)

PLANNING = SUBJECT + LOAD + FIXED + VLLM + POLICY + MACHINE
APPLYING = (
    OptionSpec(
        "drain-seconds",
        _K.NUMBER,
        "Wait this long for requests in flight before a restart.",
        "S",
        minimum=0,
        maximum=_MOST_SECONDS,
    ),
)
CONFIGURABLE = {spec.name: spec for spec in PLANNING + APPLYING}

# Switches that are written as two options on the command line.
SWITCHES = frozenset({"kv-unified", "repack", "enable-prefix-caching", "expert-parallel"})
# One of the two at most; a flag of the command line silences the other one in the file.
CONTRADICTIONS = (
    ("gpu", "no-gpu"),
    ("cache-type", "cache-type-k"),
    ("cache-type", "cache-type-v"),
    ("batch-size", "max-num-batched-tokens"),
)
