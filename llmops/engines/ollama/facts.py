"""What Ollama does, and since when: read from the tags v0.5.13 to v0.33.0-rc2 of github.com/ollama/ollama.

0.30.0 replaced Ollama's own runners by upstream llama-server; there is no 0.25 to 0.29.
"""

from __future__ import annotations

from llmops.core.units import GIB, MIB
from llmops.core.version import Since, Timeline, Version


def _since(text: str) -> Version:
    version = Version.parse(text)
    if version is None:
        raise ValueError(text)
    return version


OLDEST = _since("0.5.13")
OLDEST_SOURCE = "OLLAMA_CONTEXT_LENGTH came with 0.5.13 (envconfig/config.go)"

# One llama-server for every loaded model, which inherits the environment and so every LLAMA_ARG_ variable.
RUNS_LLAMA_SERVER = Timeline(
    (
        Since(OLDEST, value=False, source="llm/server.go: own runners, `ollama runner`"),
        Since(_since("0.30.0"), value=True, source="llm/llama_server.go, PR 16031"),
    )
)

# Resident bytes of Ollama's own processes, beside what the engine holds: low end, high end. Reported, not measured:
# 50 MB for the server of 0.4.2 (issue 7754). Before 0.30 the runner of a model is the same program a second time.
OWN_PROCESSES: Timeline[tuple[int, int]] = Timeline(
    (
        Since(OLDEST, (40 * MIB, 200 * MIB), "llm/server.go: `ollama serve` starts `ollama runner`"),
        Since(_since("0.30.0"), (20 * MIB, 100 * MIB), "llm/llama_server.go: `ollama serve` starts llama-server"),
    )
)

# Types of the cache that are obeyed; earlier versions ignore others with a warning, later ones do not load.
CACHE_TYPES: Timeline[tuple[str, ...]] = Timeline(
    (
        Since(OLDEST, ("f16", "q8_0", "q4_0"), "fs/ggml/ggml.go, SupportsKVCacheType"),
        Since(
            _since("0.30.0"),
            ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"),
            "passed on as --cache-type-k and --cache-type-v (llm/llama_server.go)",
        ),
    )
)

# Whether a cache of fewer bits is dropped without a word to the client unless flash attention is on.
QUANTISED_CACHE_NEEDS_FLASH_ATTENTION = Timeline(
    (
        Since(OLDEST, value=True, source="llm/server.go: OLLAMA_FLASH_ATTENTION must be enabled"),
        Since(_since("0.30.0"), value=False, source="llama-server turns it on by itself for a quantised cache"),
    )
)

# Families that get one slot whatever OLLAMA_NUM_PARALLEL says (server/sched.go).
_MLLAMA = frozenset({"mllama"})
_QWEN3VL = _MLLAMA | {"qwen3vl", "qwen3vlmoe"}
_LFM2 = _QWEN3VL | {"qwen3next", "lfm2", "lfm2moe"}
_NEMOTRON = _LFM2 | {"nemotron_h", "nemotron_h_moe", "qwen35", "qwen35moe"}
ONE_SLOT_FAMILIES: Timeline[frozenset[str]] = Timeline(
    (
        Since(OLDEST, _MLLAMA, "server/sched.go: mllama does not support parallel requests"),
        Since(_since("0.12.7"), _QWEN3VL, "server/sched.go at v0.12.7"),
        Since(_since("0.15.5"), _LFM2, "server/sched.go at v0.15.5"),
        Since(_since("0.17.1"), _NEMOTRON, "server/sched.go at v0.17.1"),
        Since(_since("0.22.1"), _NEMOTRON | {"nemotron_h_omni"}, "server/sched.go at v0.22.1"),
    )
)

# Prompt tokens of one step by the tokens of all slots together, largest first; it is also the physical batch.
BATCHES: Timeline[tuple[tuple[int, int], ...]] = Timeline(
    (
        Since(OLDEST, ((0, 512),), "api/types.go: num_batch 512"),
        Since(_since("0.30.0"), ((32_768, 2048), (4_096, 1024), (0, 512)), "server/sched.go, automatic num_batch"),
    )
)

# Slots where OLLAMA_NUM_PARALLEL is not set. Versions that chose by memory are taken at what they try first.
DEFAULT_SLOTS = Timeline(
    (
        Since(OLDEST, 4, "envconfig/config.go: 0 is automatic, 4 where they fit"),
        Since(_since("0.6.7"), 2, "server/sched.go, commit fe5b9bb21"),
        Since(_since("0.10.0"), 1, "envconfig/config.go, commit 20c3266e9"),
    )
)

# Context of a request that names none, by the memory of all cards together, largest first.
DEFAULT_CONTEXT_TIERS: Timeline[tuple[tuple[int, int], ...]] = Timeline(
    (
        Since(OLDEST, ((0, 2_048),), "envconfig/config.go at v0.5.13"),
        Since(_since("0.6.7"), ((0, 4_096),), "envconfig/config.go at v0.6.7"),
        Since(
            _since("0.15.5"),
            ((47 * GIB, 262_144), (23 * GIB, 32_768), (0, 4_096)),
            "server/routes.go, commit 0334ffa62",
        ),
    )
)

DEFAULT_PROMPT_CACHE_MIB, DEFAULT_CHECKPOINTS = 8192, 32  # llama-server's own (common/common.h)
DEFAULT_FIT_TARGET_MIB = 1024  # what --fit leaves free of every card (common/fit.cpp)
