"""Models and settings drawn by chance: layers, heads, lengths, windows, slots, contexts, batches and cache types.

    for case in draw(seed=1, count=200): case.name, case.shape, case.settings

The same seed gives the same cases. States are kept small enough to be allocated, for the engine's pass does that.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from llmops.core.memory.ggml_settings import GgmlSettings
from tests.truth.shapes import attention, hybrid, latent
from tests.truth.shapes.shape import Shape

CACHE_TYPES = ("f16", "bf16", "f32", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl")
WIDE_TYPES = ("f16", "bf16", "f32")
LENGTHS = (64, 96, 128, 192, 256)
WINDOWS = (64, 128, 512, 1000, 1024, 2047, 4096)
VOCABULARY, CONTEXT = 32_000, 131_072


@dataclass(frozen=True)
class Case:
    """One model with one way to serve it."""

    name: str
    shape: Shape
    settings: GgmlSettings


def draw(seed: int, count: int) -> Iterator[Case]:
    """`count` cases, every family in turn."""
    chance = random.Random(seed)
    names = sorted(FAMILIES)
    for number in range(count):
        name = names[number % len(names)]
        yield Case(f"{number}-{name}", FAMILIES[name](chance), _settings(chance, latent_cache=name in LATENT))


def _settings(chance: random.Random, *, latent_cache: bool) -> GgmlSettings:
    flash = chance.random() < 0.8
    key = chance.choice(CACHE_TYPES)
    value = key if latent_cache else chance.choice(CACHE_TYPES if flash else WIDE_TYPES)
    flash = flash or value not in WIDE_TYPES
    ubatch = chance.choice((32, 64, 128, 256, 500, 512, 1024, 2048))
    return GgmlSettings(
        slots=chance.choice((1, 1, 2, 3, 4, 5, 8, 16)),
        context_tokens_per_slot=chance.choice((256, 300, 1024, 4096, 5000, 8192, 16_384, 40_960)),
        kv_unified=chance.random() < 0.4,
        cache_type_k=key,
        cache_type_v=value,
        batch_tokens=max(2048, ubatch),
        ubatch_tokens=ubatch,
        flash_attention=flash,
        swa_full=chance.random() < 0.1,
        prompt_cache_bytes=0,
        context_checkpoints=0,
    )


def _common(chance: random.Random) -> dict[str, Any]:
    return {
        "layers": chance.randint(2, 40),
        "embedding": 256 * chance.randint(2, 16),
        "vocabulary": VOCABULARY,
        "context": CONTEXT,
    }


def _heads(chance: random.Random) -> dict[str, Any]:
    kv_heads = chance.choice((1, 2, 3, 4, 8))
    return {"kv_heads": kv_heads, "count": kv_heads * chance.choice((1, 2, 4, 7))}


def _llama(chance: random.Random) -> Shape:
    return attention.llama(**_common(chance), **_heads(chance), length=chance.choice(LENGTHS), width=1024)


def _qwen3(chance: random.Random) -> Shape:
    return attention.qwen3(**_common(chance), **_heads(chance), length=chance.choice(LENGTHS), width=1024)


def _qwen3moe(chance: random.Random) -> Shape:
    length = chance.choice(LENGTHS)
    return attention.qwen3moe(**_common(chance), **_heads(chance), length=length, expert_count=8, used=2, width=256)


def _gemma(architecture: str) -> Callable[[random.Random], Shape]:
    def make(chance: random.Random) -> Shape:
        window, length = chance.choice(WINDOWS), chance.choice(LENGTHS)
        return attention.gemma(
            architecture, **_common(chance), **_heads(chance), length=length, width=1024, window=window
        )

    return make


def _gemma3n(chance: random.Random) -> Shape:
    own = {**_common(chance), "layers": chance.choice((22, 30, 35))}
    return attention.gemma3n(**own, **_heads(chance), length=256, width=1024, window=chance.choice(WINDOWS))


def _gemma4(chance: random.Random) -> Shape:
    period, shared = chance.choice((3, 5, 6)), chance.choice((0, 0, 3, 6))
    own = {**_common(chance), "layers": period * chance.randint(2, 6) + shared}  # the last one that caches is full
    return attention.gemma4(
        **own,
        count=8,
        kv_heads=(chance.choice((1, 2, 4)), chance.choice((1, 2, 4, 8))),
        lengths=(chance.choice((256, 512)), chance.choice((128, 256))),
        width=1024,
        window=chance.choice(WINDOWS),
        period=period,
        shared=shared,
        inner=chance.choice((0, 256)),
    )


def _gpt_oss(chance: random.Random) -> Shape:
    length, window = chance.choice((64, 96, 128)), chance.choice(WINDOWS)
    return attention.gpt_oss(
        **_common(chance), **_heads(chance), length=length, window=window, expert_count=4, used=2, width=256
    )


def _cohere2(chance: random.Random) -> Shape:
    kv_heads, length = chance.choice((1, 2, 4, 8)), chance.choice(LENGTHS)
    count = kv_heads * chance.choice((1, 2, 4))
    own = {**_common(chance), "embedding": count * length}
    return attention.cohere2(**own, count=count, kv_heads=kv_heads, width=1024, window=chance.choice(WINDOWS))


def _llama4(chance: random.Random) -> Shape:
    return attention.llama4(**_common(chance), **_heads(chance), length=128, expert_count=2, width=256)


def _glm4moe(chance: random.Random) -> Shape:
    drafts = chance.choice((0, 1, 2))
    return attention.glm4moe(
        **_common(chance),
        **_heads(chance),
        draft_layers=drafts,
        length=chance.choice(LENGTHS),
        expert_count=4,
        used=2,
        expert_width=256,
        width=1024,
    )


def _openelm(chance: random.Random) -> Shape:
    counts = [(kv * chance.choice((1, 2, 4)), kv) for kv in chance.choices((1, 2, 3, 4, 5), k=chance.randint(4, 24))]
    return attention.openelm(counts=counts, length=chance.choice((64, 128)), embedding=1280, vocabulary=VOCABULARY)


def _deci(chance: random.Random) -> Shape:
    kv_heads = [8, *chance.choices((0, 1, 2, 4, 8), k=chance.randint(4, 30))]
    return attention.deci(kv_heads=kv_heads, embedding=2048, count=16, width=1024, vocabulary=VOCABULARY)


def _deepseek2(architecture: str, *, split: bool = True) -> Callable[[random.Random], Shape]:
    def make(chance: random.Random) -> Shape:
        own = {**_common(chance), "layers": chance.randint(3, 25), "embedding": 1024}  # 26 and 27 mean a lite model
        return latent.deepseek2(
            architecture,
            **own,
            count=chance.choice((4, 8, 16)),
            rank=chance.choice((256, 512)),
            rope=chance.choice((32, 64)),
            plain=128,
            value=chance.choice((64, 128)),
            query_rank=512,
            expert_count=4,
            used=2,
            expert_width=256,
            width=1024,
            dense=1,
            split=split,
            indexer=(8, chance.choice((64, 128))),
        )

    return make


def _minicpm3(chance: random.Random) -> Shape:
    own = {**_common(chance), "embedding": 1024}
    return latent.minicpm3(**own, count=chance.choice((4, 8, 20)), rank=256, width=1024)


def _qwen_hybrid(architecture: str) -> Callable[[random.Random], Shape]:
    def make(chance: random.Random) -> Shape:
        own = {**_common(chance), "layers": chance.choice((8, 12, 15, 24))}
        return hybrid.qwen_hybrid(
            architecture,
            **own,
            **_heads(chance),
            interval=chance.choice((2, 3, 4)),
            length=chance.choice((128, 256)),
            key_heads=8,
            value_heads=chance.choice((8, 16)),
            state=128,
            expert_count=4,
            used=2,
            expert_width=256,
            width=1024,
        )

    return make


def _granite_hybrid(chance: random.Random) -> Shape:
    own = {**_common(chance), "layers": 16, "embedding": 1024}
    attends = tuple(sorted(chance.sample(range(16), chance.randint(1, 6))))
    return hybrid.granite_hybrid(
        **own, attends=attends, state=chance.choice((64, 128)), ssm_heads=32, expert_count=chance.choice((0, 4)), used=2
    )


def _nemotron_h(architecture: str) -> Callable[[random.Random], Shape]:
    def make(chance: random.Random) -> Shape:
        pattern = "M" + "".join(chance.choices("M*-", k=14)) + "*"
        return hybrid.nemotron_h(
            architecture,
            pattern=pattern,
            embedding=1024,
            count=16,
            kv_heads=chance.choice((2, 4)),
            inner=2048,
            state=chance.choice((64, 128)),
            ssm_heads=32,
            width=1024,
            expert_count=4,
            used=2,
            shared=512,
            vocabulary=VOCABULARY,
        )

    return make


def _jamba(chance: random.Random) -> Shape:
    own = {**_common(chance), "layers": 16, "embedding": 1024}
    return hybrid.jamba(**own, count=8, kv_heads=chance.choice((2, 4)), interval=chance.choice((4, 8)), width=512)


def _lfm2(architecture: str) -> Callable[[random.Random], Shape]:
    def make(chance: random.Random) -> Shape:
        attends = tuple(sorted(chance.sample(range(1, 12), chance.randint(1, 6))))
        own = {**_common(chance), "layers": 12, "embedding": 1024}
        return hybrid.lfm2(
            architecture,
            **own,
            attends=attends,
            count=16,
            kernel=chance.choice((3, 4)),
            width=512,
            expert_count=4,
            used=2,
        )

    return make


def _falcon_h1(chance: random.Random) -> Shape:
    own = {**_common(chance), "layers": chance.randint(4, 16), "embedding": 1024}
    return hybrid.falcon_h1(**own, inner=1024, state=chance.choice((64, 128)), ssm_heads=16, width=1024)


def _kimi_linear(chance: random.Random) -> Shape:
    own = {**_common(chance), "layers": chance.choice((8, 12)), "embedding": 1024}
    return hybrid.kimi_linear(
        **own, interval=chance.choice((2, 4)), count=chance.choice((4, 8)), expert_count=4, used=2, expert_width=256
    )


def _mamba2(chance: random.Random) -> Shape:
    own = {**_common(chance), "layers": 12, "embedding": 1024}
    return hybrid.mamba2(**own, inner=2048, state=chance.choice((64, 128)), ssm_heads=32, groups=chance.choice((1, 8)))


def _mamba(chance: random.Random) -> Shape:
    own = {**_common(chance), "layers": 12, "embedding": 1024}
    return hybrid.mamba(**own, state=chance.choice((16, 32)), rank=64)


FAMILIES: dict[str, Callable[[random.Random], Shape]] = {
    "cohere2": _cohere2,
    "deci": _deci,
    "deepseek2": _deepseek2("deepseek2"),
    "deepseek2-old": _deepseek2("deepseek2", split=False),
    "deepseek32": _deepseek2("deepseek32"),
    "falcon-h1": _falcon_h1,
    "gemma2": _gemma("gemma2"),
    "gemma3": _gemma("gemma3"),
    "gemma3n": _gemma3n,
    "gemma4": _gemma4,
    "glm-dsa": _deepseek2("glm-dsa"),
    "glm4moe": _glm4moe,
    "gpt-oss": _gpt_oss,
    "granitehybrid": _granite_hybrid,
    "jamba": _jamba,
    "kimi-linear": _kimi_linear,
    "lfm2": _lfm2("lfm2"),
    "lfm2moe": _lfm2("lfm2moe"),
    "llama": _llama,
    "llama4": _llama4,
    "mamba": _mamba,
    "mamba2": _mamba2,
    "minicpm3": _minicpm3,
    "nemotron_h": _nemotron_h("nemotron_h"),
    "nemotron_h_moe": _nemotron_h("nemotron_h_moe"),
    "openelm": _openelm,
    "qwen3": _qwen3,
    "qwen35": _qwen_hybrid("qwen35"),
    "qwen35moe": _qwen_hybrid("qwen35moe"),
    "qwen3moe": _qwen3moe,
    "qwen3next": _qwen_hybrid("qwen3next"),
}
LATENT = frozenset({"deepseek2", "deepseek32", "glm-dsa", "kimi-linear"})
