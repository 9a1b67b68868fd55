"""Which graphics cards vLLM runs on, and which data types and quantised checkpoints on which of them.

A compute capability is NVIDIA's number of a card's generation: 7.5 is Turing (T4), 8.0 and 8.6 Ampere, 8.9 Ada, 9.0
Hopper, 10.0 and 12.0 Blackwell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmops.core.hardware import Gpu

Capability = tuple[int, int]


@dataclass(frozen=True)
class CardRule:
    """What needs which generation at least, what to do with an older one, and who says so."""

    what: str
    least: Capability
    instead: str
    source: str


# The packages on PyPI; older cards only with packages for CUDA before 12.8, which are no longer made.
RUNS = CardRule(
    "vLLM", (7, 5), "serve it with llama-server", "vllm 0.33.0, docs/getting_started/installation/gpu.cuda.inc.md"
)
BFLOAT16 = CardRule("bfloat16", (8, 0), "--dtype half", "vllm 0.33.0, vllm/platforms/cuda.py: check_if_supports_dtype")
# Families that the server refuses in float16; in float32 they would take twice the memory.
# vllm 0.33.0, vllm/config/model.py: _FLOAT16_NOT_SUPPORTED_MODELS
NO_FLOAT16 = ("gemma2", "gemma3", "gemma3_text", "glm4", "plamo2")
# Below it no attention of vLLM takes a cache in 8 bits; from the second rule on all that a plan may choose do.
FP8_CACHE = CardRule(
    "a cache in fp8", (8, 0), "leave --cache-type fp8 out", "vllm 0.33.0, vllm/v1/attention/backends/flashinfer.py"
)
EVERY_FP8_CACHE = CardRule(
    "a cache in fp8 with every attention", (8, 9), "the model's own type", "vllm 0.33.0, vllm/platforms/cuda.py"
)
# Older cards take such a checkpoint too, as a store: its weights are widened for every multiplication.
FP8_COMPUTE = CardRule("computing in fp8", (8, 9), "it only saves memory", "vllm 0.33.0, supports_fp8 in cuda.py")

# What a checkpoint says its weights are in (quant_method), and the least that the server takes it on. The server
# refuses below it: vllm/config/vllm.py, _get_quantization_config.
_METHODS = "vllm 0.32.0, vllm/model_executor/layers/quantization"
QUANTIZATIONS: dict[str, CardRule] = {
    "awq": CardRule("AWQ", (7, 5), "a GPTQ checkpoint", f"{_METHODS}/auto_awq.py"),
    "gptq": CardRule("GPTQ", (6, 0), "llama-server", f"{_METHODS}/auto_gptq.py"),
    "fp8": CardRule("an fp8 checkpoint", (7, 5), "an AWQ checkpoint", f"{_METHODS}/fp8.py"),
    "fbgemm_fp8": CardRule("an FBGEMM fp8 checkpoint", (8, 0), "an AWQ checkpoint", f"{_METHODS}/fbgemm_fp8.py"),
    "compressed-tensors": CardRule(
        "compressed-tensors", (7, 0), "an AWQ checkpoint", f"{_METHODS}/compressed_tensors/compressed_tensors.py"
    ),
    "modelopt": CardRule("ModelOpt in fp8", (8, 0), "an AWQ checkpoint", f"{_METHODS}/modelopt.py"),
    "modelopt_fp4": CardRule("ModelOpt in NVFP4", (7, 5), "an AWQ checkpoint", f"{_METHODS}/modelopt.py"),
    "modelopt_mxfp8": CardRule("ModelOpt in MXFP8", (8, 0), "an AWQ checkpoint", f"{_METHODS}/modelopt.py"),
    "mxfp4": CardRule("MXFP4", (8, 0), "llama-server, which has it too", f"{_METHODS}/mxfp4.py"),
    "experts_int8": CardRule("experts in int8", (8, 0), "an AWQ checkpoint", f"{_METHODS}/experts_int8.py"),
    "torchao": CardRule("torchao", (7, 5), "an AWQ checkpoint", f"{_METHODS}/torchao.py"),
    "quark": CardRule("Quark", (7, 0), "an AWQ checkpoint", f"{_METHODS}/quark/quark.py"),
}
# The AMD cards that its packages for ROCm are made for (vllm 0.33.0,
# docs/getting_started/installation/gpu.rocm.inc.md).
AMD_ARCHITECTURES = frozenset({
    "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1101", "gfx1150", "gfx1151", "gfx1200", "gfx1201",
})  # fmt: skip
# The first driver that runs programs made for CUDA 13 (its release notes), which the package of 0.33.0 on PyPI is: it
# depends on cu13 packages.
LEAST_DRIVER = 580


def why_not_these_cards(cards: Sequence[Gpu], quantization_method: str | None = None) -> str | None:
    """The first reason for which vLLM would not start on these cards; None where none is known."""
    found = (_why_not(card) or _why_not_quantized(card, quantization_method) for card in cards)
    return next((reason for reason in found if reason is not None), None)


def _why_not(card: Gpu) -> str | None:
    if card.vendor == "nvidia":
        return _below(card, RUNS)
    if card.vendor == "amd":
        known = card.architecture is None or card.architecture in AMD_ARCHITECTURES
        return None if known else f"{card.name} ({card.architecture}) is none of the AMD cards that vLLM is made for"
    return f"{card.name} is neither from NVIDIA nor from AMD: llmops does not plan vLLM for it"


def _why_not_quantized(card: Gpu, method: str | None) -> str | None:
    rule = QUANTIZATIONS.get(method or "")
    return None if rule is None or card.vendor != "nvidia" else _below(card, rule)


def _below(card: Gpu, rule: CardRule) -> str | None:
    if card.compute_capability is None or card.compute_capability >= rule.least:
        return None
    return (
        f"{card.name} has compute capability {_dotted(card.compute_capability)}, and {rule.what} needs"
        f" {_dotted(rule.least)}: {rule.instead}"
    )


def card_limits(cards: Sequence[Gpu], quantization_method: str | None = None) -> tuple[str, ...]:
    """What these cards can do only in part, in words; they run vLLM all the same."""
    said: list[str] = []
    for card in cards:
        capability = card.compute_capability
        if card.vendor != "nvidia" or capability is None or capability < RUNS.least:
            continue
        if capability < BFLOAT16.least:
            said.append(f"{card.name} cannot compute in bfloat16: {BFLOAT16.instead}, and no cache in fp8")
        if quantization_method == "fp8" and capability < FP8_COMPUTE.least:
            said.append(f"{card.name} does not compute in fp8: such a checkpoint only saves memory there")
    return tuple(dict.fromkeys(said))


def old_driver(version: str | None) -> str | None:
    """Why the package on PyPI would not run with this NVIDIA driver; None where it would, or is not known."""
    first = (version or "").split(".", maxsplit=1)[0]
    if not first.isdecimal() or int(first) >= LEAST_DRIVER:
        return None
    return f"driver {version} is older than {LEAST_DRIVER}, which CUDA 13 and so vLLM's package on PyPI needs"


def _dotted(capability: Capability) -> str:
    return f"{capability[0]}.{capability[1]}"
