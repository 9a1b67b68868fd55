"""Which divisions of a model vLLM refuses at its start: heads, widths, experts and blocks of quantised weights."""

from __future__ import annotations

from collections.abc import Iterator

from llmops.core.model import ModelSpec
from llmops.core.problem import Split
from llmops.core.version import Since, Timeline, Version

_FIRST = Version((0,))
# Whether experts in float8 whose part of a block is no whole one are refused; else their scales are made finer.
WHOLE_EXPERT_BLOCKS = Timeline(
    (
        Since(_FIRST, value=True, source="vllm 0.28.0, quantization/fp8.py, create_weights of Fp8MoEMethod"),
        Since(
            Version((0, 30, 0)), value=False, source="vllm 0.30.0, fused_moe/oracle/fp8.py, refine_fp8_moe_block_shape"
        ),
    )
)
# Families that take no more cards for each layer than there are experts (vllm 0.32.0, model_executor/models).
_AT_MOST_EXPERTS = frozenset({
    "cohere2_moe", "ernie4_5_moe", "exaone_moe", "laguna", "lfm2_moe", "minimax_m2", "mimo_v2_flash", "qwen2_moe",
    "qwen3_moe", "qwen3_next", "qwen3_vl_moe", "step3_text", "step3p5",
})  # fmt: skip
# Classes whose layers cannot lie on cards one after the other (supports_pp of vllm/model_executor/models/interfaces.py,
# asked of every class of 0.32.0 that could be imported).
_WITHOUT_STAGES = frozenset({
    "AriaForConditionalGeneration", "DeepseekV4ForConditionalGeneration", "Gemma3nForCausalLM",
    "Gemma3nForConditionalGeneration", "HrmTextForCausalLM", "IQuestLoopCoderForCausalLM",
    "Idefics3ForConditionalGeneration", "Mamba2ForCausalLM", "PaddleOCRVLForConditionalGeneration",
    "Phi4MMForCausalLM", "SmolVLMForConditionalGeneration", "Zamba2ForCausalLM",
})  # fmt: skip
# Quantised forms of which each card must hold whole groups of a row (distributed/utils.py).
_GROUPED = frozenset({"awq", "gptq", "compressed-tensors"})


def refused_split(model: ModelSpec, split: Split, version: Version | None) -> str | None:
    """Why a model cannot be divided like that; None where it can."""
    return next(_reasons(model, split, version), None)


def _reasons(model: ModelSpec, split: Split, version: Version | None) -> Iterator[str]:
    yield from _heads(model, split.tensor_parallel)
    if not model.experts:
        yield from _widths(model, split.tensor_parallel)
    else:
        yield from _experts(model, split, version)
    yield from _stages(model, split.pipeline_parallel)


def _stages(model: ModelSpec, stages: int) -> Iterator[str]:
    if stages > model.layers:
        yield f"{model.reference} has {model.layers} layers, fewer than --pipeline-parallel {stages}"
    without = [name for name in model.classes if name in _WITHOUT_STAGES]
    if stages > 1 and without:
        yield f"vLLM cannot divide the layers of {without[0]} among cards one after the other (--pipeline-parallel)"


def _heads(model: ModelSpec, tensor: int) -> Iterator[str]:
    """vllm/config/model.py, verify_with_parallel_config; models/llama.py for keys and values."""
    heads = model.attention_heads
    if heads and heads % tensor:
        yield f"the {heads} attention heads of {model.reference} cannot be divided among --tensor-parallel {tensor}"
    for layer in model.attention_layers:
        few, many = sorted((layer.kv_heads, tensor))
        if not layer.is_latent and few and many % few:
            yield (
                f"the {layer.kv_heads} key and value heads of {model.reference} can neither be divided among nor"
                f" repeated on --tensor-parallel {tensor}"
            )


def _widths(model: ModelSpec, tensor: int) -> Iterator[str]:
    """Layers between attention: whole columns for each card, and whole blocks of quantised ones (fp8_utils.py)."""
    width = model.feed_forward_length
    if tensor == 1 or not width:
        return
    if width % tensor:
        yield (
            f"the {width} inner values of each layer of {model.reference} cannot be divided among --tensor-parallel"
            f" {tensor}"
        )
    block = _block(model)
    if block and (width // tensor) % block:
        yield (
            f"{width // tensor} inner values on each of --tensor-parallel {tensor} are no whole blocks of {block}, in"
            f" which {model.reference} is quantised"
        )


def _block(model: ModelSpec) -> int:
    """Values of a row that must stay together; 0 where any number may be cut off."""
    rows, columns = model.quantization_block
    if model.quantization_method == "fp8":
        return columns if rows > 1 else 0
    return columns if model.quantization_method in _GROUPED else 0


def _experts(model: ModelSpec, split: Split, version: Version | None) -> Iterator[str]:
    """vllm/model_executor/layers/fused_moe/config.py; engines side by side cut experts too."""
    tensor, parts = split.tensor_parallel, split.tensor_parallel * split.data_parallel
    if tensor > model.experts and model.architecture in _AT_MOST_EXPERTS:
        yield f"--tensor-parallel {tensor} is more than the {model.experts} experts of {model.reference}"
    width = model.expert_feed_forward_length or model.feed_forward_length
    if split.expert_parallel or parts == 1 or not width:
        return
    how = f"--tensor-parallel {tensor}" + (f" x --data-parallel {split.data_parallel}" if parts > tensor else "")
    if width % parts:
        yield f"experts of {width} inner values cannot be divided among {how}"
    rows = model.quantization_block[0]
    cut = model.quantization_method == "fp8" and rows > 1 and (width // parts) % rows
    if cut and WHOLE_EXPERT_BLOCKS.at(version):
        yield (
            f"{width // parts} of {width} inner values of an expert on each of {how} are no whole blocks of {rows}, in"
            f" which {model.reference} is quantised"
        )
