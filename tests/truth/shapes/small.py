"""Hybrid models small enough to be loaded and run: weights all zero, a tokenizer of single bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.doubles import gguf_files as made
from tests.truth.shapes import hybrid
from tests.truth.shapes.shape import Shape

_TOKENS = ("<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *(f"token{n}" for n in range(253)))
_KINDS = (2, 3, 3, *(6,) * 256, *(1,) * 253)  # unknown, control, bytes, normal (gguf-py, TokenType)
VOCABULARY, CONTEXT = len(_TOKENS), 8192


def with_bytes(shape: Shape) -> Shape:
    """The same model with a tokenizer that reads any text, one token for each byte."""
    tokenizer = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": made.Array(made.STRING, _TOKENS),
        "tokenizer.ggml.scores": made.Array(made.F32, (0.0,) * VOCABULARY),
        "tokenizer.ggml.token_type": made.Array(made.I32, _KINDS),
    }
    return replace(shape, metadata={**shape.metadata, **tokenizer})


def _qwen35() -> Shape:
    return hybrid.qwen_hybrid(
        "qwen35",
        layers=4,
        embedding=256,
        count=4,
        kv_heads=2,
        length=64,
        key_heads=2,
        value_heads=4,
        state=64,
        width=256,
        vocabulary=VOCABULARY,
        context=CONTEXT,
    )


def _lfm2() -> Shape:
    return hybrid.lfm2(
        attends=(2,), layers=4, embedding=256, count=4, kv_heads=2, width=256, vocabulary=VOCABULARY, context=CONTEXT
    )


def _granite_hybrid() -> Shape:
    return hybrid.granite_hybrid(
        layers=4,
        attends=(2,),
        embedding=256,
        count=4,
        kv_heads=2,
        length=64,
        state=64,
        ssm_heads=8,
        expert_count=0,
        width=256,
        vocabulary=VOCABULARY,
        context=CONTEXT,
    )


SMALL: dict[str, Callable[[], Shape]] = {"qwen35": _qwen35, "lfm2": _lfm2, "granitehybrid": _granite_hybrid}
