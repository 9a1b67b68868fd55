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

# The build of llama.cpp that it wraps: LLAMA_CPP_VERSION of its tags, and what later releases say when they start.
WRAPPED_BUILD = Timeline(
    (
        Since(_since("0.30.0"), Version((9452,)), "LLAMA_CPP_VERSION at v0.30.0"),
        Since(_since("0.31.0"), Version((9840,)), "LLAMA_CPP_VERSION at v0.31.0"),
        Since(_since("0.32.0"), Version((9888,)), "LLAMA_CPP_VERSION at v0.32.0"),
        Since(_since("0.32.15"), Version((10_488,)), "LLAMA_CPP_VERSION at v0.32.15"),
        Since(_since("0.33.3"), Version((10_760,)), "a published start of 0.33.3"),
        Since(_since("0.34.2"), Version((10_969,)), "a published start of 0.34.2"),
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

# Families that its own engine ran before 0.30; llama.cpp's runner had the others (OllamaEngineRequired).
_OWN_06 = frozenset({"gemma3"})
_OWN_07 = _OWN_06 | {"mistral3", "llama4", "mllama", "qwen25vl"}
_OWN_11 = _OWN_07 | {"gemma3n", "gptoss", "gpt-oss"}
_OWN_12 = _OWN_11 | {"qwen3", "qwen3moe"}
_OWN_13 = _OWN_12 | {"qwen3vl", "qwen3vlmoe", "deepseekocr", "deepseek2", "olmo3", "bert"}
_OWN_15 = _OWN_13 | {"glm4moelite", "glmocr", "lfm2", "qwen3next"}
_OWN_17 = _OWN_15 | {"nemotron_h", "nemotron_h_moe", "qwen35", "qwen35moe", "lfm2moe"}
OWN_ENGINE_FAMILIES: Timeline[frozenset[str]] = Timeline(
    (
        Since(OLDEST, frozenset(), "llm/server.go at v0.5.13"),
        Since(_since("0.6.0"), _OWN_06, "fs/ggml/ggml.go at v0.6.0"),
        Since(_since("0.6.8"), _OWN_06 | {"mistral3", "llama4"}, "fs/ggml/ggml.go at v0.6.8"),
        Since(_since("0.7.0"), _OWN_07, "fs/ggml/ggml.go at v0.7.0"),
        Since(_since("0.9.6"), _OWN_07 | {"gemma3n"}, "fs/ggml/ggml.go at v0.9.6"),
        Since(_since("0.11.0"), _OWN_11, "fs/ggml/ggml.go at v0.11.0"),
        Since(_since("0.12.0"), _OWN_11 | {"qwen3"}, "fs/ggml/ggml.go at v0.12.0"),
        Since(_since("0.12.3"), _OWN_12, "fs/ggml/ggml.go at v0.12.3"),
        Since(_since("0.13.0"), _OWN_13 - {"olmo3", "bert"}, "fs/ggml/ggml.go at v0.13.0"),
        Since(_since("0.13.5"), _OWN_13, "fs/ggml/ggml.go at v0.13.5"),
        Since(_since("0.14.3"), _OWN_15 - {"glmocr", "qwen3next"}, "fs/ggml/ggml.go at v0.14.3"),
        Since(_since("0.15.6"), _OWN_15, "fs/ggml/ggml.go at v0.15.6"),
        Since(_since("0.17.7"), _OWN_17, "fs/ggml/ggml.go at v0.17.7"),
        Since(_since("0.20.0"), _OWN_17 | {"gemma4"}, "fs/ggml/ggml.go at v0.20.0"),
        Since(_since("0.22.1"), _OWN_17 | {"gemma4", "laguna", "nemotron_h_omni"}, "fs/ggml/ggml.go at v0.22.1"),
    )
)

# Families with flash attention where OLLAMA_FLASH_ATTENTION is not set; before 0.30 the others had none.
_FLASH_126 = frozenset({"gptoss", "gpt-oss", "gemma3", "qwen3", "qwen3moe"})
_FLASH_1211 = _FLASH_126 | {"qwen3vl", "qwen3vlmoe"}
_FLASH_135 = _FLASH_1211 | {"bert", "mistral3", "olmo3"}
_FLASH_156 = _FLASH_135 | {"glm4moelite", "lfm2", "glmocr", "qwen3next"}
_FLASH_177 = _FLASH_156 | {"qwen35", "qwen35moe", "nemotron_h", "nemotron_h_moe", "nemotron_h_omni", "lfm2moe"}
FLASH_ATTENTION_FAMILIES: Timeline[frozenset[str]] = Timeline(
    (
        Since(OLDEST, frozenset(), "envconfig/config.go: off unless it is asked for"),
        Since(_since("0.11.8"), frozenset({"gptoss", "gpt-oss"}), "fs/ggml/ggml.go at v0.11.8"),
        Since(_since("0.12.6"), _FLASH_126, "fs/ggml/ggml.go at v0.12.6"),
        Since(_since("0.12.11"), _FLASH_1211, "fs/ggml/ggml.go at v0.12.11"),
        Since(_since("0.13.5"), _FLASH_135, "fs/ggml/ggml.go at v0.13.5"),
        Since(_since("0.14.3"), _FLASH_156 - {"glmocr", "qwen3next"}, "fs/ggml/ggml.go at v0.14.3"),
        Since(_since("0.15.6"), _FLASH_156, "fs/ggml/ggml.go at v0.15.6"),
        Since(_since("0.17.7"), _FLASH_177, "fs/ggml/ggml.go at v0.17.7"),
        Since(_since("0.20.7"), _FLASH_177 | {"gemma4"}, "fs/ggml/ggml.go at v0.20.7"),
    )
)

# Whether its own engine is placed by an estimate too; later by what it really allocates in a trial.
ESTIMATES_OWN_ENGINE = Timeline(
    (
        Since(OLDEST, value=True, source="llm/memory.go, EstimateGPULayers"),
        Since(_since("0.11.11"), value=False, source="llm/server.go: fit, alloc and commit"),
    )
)
# Whether layers go to all cards by turns; later in proportion to what is free.
LAYERS_BY_TURNS = Timeline(
    (
        Since(OLDEST, value=True, source="llm/memory.go, EstimateGPULayers"),
        Since(_since("0.11.11"), value=False, source="llm/server.go, findBestFit"),
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
