"""What the weights of a family have besides the sizes in config.json: biases, norms, gates. By model_type.

Read from modeling_*.py of transformers 5; tests compare the counts with those that its classes give.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# A bias is there always, never, or where this key of the file says so.
Bias = bool | str


@dataclass(frozen=True)
class Traits:
    """`norms` of the hidden size in each layer, two more with `post_norms` where use_post_norm says so; `qk_norm` is
    head, full (all heads at once), either with `_if_used` where use_qk_norm decides, or empty.

    `sinks` are in all layers, in those with windows, or nowhere (empty).
    `gate` is how the attention output is gated: doubled (the query matrix holds it), per_head, full or empty.
    `learned_positions` is how many rows more than trained tokens the table of positions has, None without one.
    `expert_bias` counts vectors of the experts and their router, `correction` the router's one vector for balance.
    `draft_copies`: the file repeats embeddings and output for its draft layer. `mlp` names the feed-forward module,
    `experts` that of the experts where they are not in it, `mixer` the one of attention and states where all are alike.
    """

    norms: int = 2
    norm_bias: bool = False
    final_norm: bool = True
    qkv_bias: Bias = False
    o_bias: Bias = False
    mlp_bias: Bias = False
    output_bias: Bias = False
    qk_norm: str = ""
    gated: bool = True
    gate: str = ""
    sinks: str = ""
    learned_positions: int | None = None
    embedding_norm: bool = False
    sub_norms: bool = False
    dense: bool = True
    correction: bool = False
    expert_bias: bool = False
    shared_gate: bool = False
    shared_as_dense: bool = False
    indexer: bool = False
    per_layer_inputs: bool = False
    draft_copies: bool = False
    post_norms: bool = False
    mlp: str = "mlp"
    experts: str = ""
    mixer: str = ""

    @property
    def expert_module(self) -> str:
        """The module that holds the routed experts."""
        return self.experts or f"{self.mlp}.experts"


_LLAMA = Traits(qkv_bias="attention_bias", o_bias="attention_bias", mlp_bias="mlp_bias")
_PLAIN = Traits()
_HEAD_NORM = Traits(qkv_bias="attention_bias", o_bias="attention_bias", qk_norm="head")
_QWEN2 = Traits(qkv_bias=True)
_MLA = Traits(correction=True, draft_copies=True)
_GEMMA3 = Traits(norms=4, qk_norm="head")
_FEED_FORWARD = Traits(mlp="feed_forward")
_GPT = Traits(norm_bias=True, qkv_bias=True, o_bias=True, mlp_bias=True, gated=False)

_QWEN2_NAMES = (
    "mimo",
    "minicpmo",
    "minicpmv",
    "qwen2",
    "qwen2_5_omni_text",
    "qwen2_5_vl",
    "qwen2_5_vl_text",
    "qwen2_vl",
    "qwen2_vl_text",
)
_HEAD_NORM_NAMES = ("mellum", "qwen3", "qwen3_moe", "qwen3_omni_moe_text", "qwen3_vl_moe_text", "qwen3_vl_text")

TRAITS: Mapping[str, Traits] = {
    "arcee": Traits(qkv_bias="attention_bias", o_bias="attention_bias", mlp_bias="mlp_bias", gated=False),
    "nemotron": Traits(
        norm_bias=True, qkv_bias="attention_bias", o_bias="attention_bias", mlp_bias="mlp_bias", gated=False
    ),
    **dict.fromkeys(
        ("gemma", "helium", "mistral", "ministral", "ministral3", "mixtral", "phi3", "granitemoe", "solar_open"), _PLAIN
    ),
    **dict.fromkeys(("granite", "llama", "internlm2", "minicpm", "deepseek"), _LLAMA),
    **dict.fromkeys(("ernie4_5", "smollm3"), Traits(qkv_bias="use_bias", o_bias="use_bias")),
    **dict.fromkeys(_QWEN2_NAMES, _QWEN2),
    **dict.fromkeys(_HEAD_NORM_NAMES, _HEAD_NORM),
    **dict.fromkeys(("qwen3_5_moe_text", "qwen3_5_text", "qwen3_next"),
                    Traits(qk_norm="head", gate="doubled", shared_gate=True)),
    **dict.fromkeys(("deepseek_v2", "mistral4", "minicpm3", "sarvam_mla"), _PLAIN),
    **dict.fromkeys(("deepseek_v3", "kimi_k2", "glm4_moe_lite"), _MLA),
    **dict.fromkeys(("deepseek_v32", "glm_moe_dsa"), Traits(correction=True, draft_copies=True, indexer=True)),
    **dict.fromkeys(("falcon_h1", "bamba", "jamba"), _FEED_FORWARD),
    **dict.fromkeys(("falcon_mamba", "mamba", "mamba2"), Traits(norms=1, dense=False)),
    **dict.fromkeys(("glm", "glm4v_text"), Traits(qkv_bias="attention_bias")),
    **dict.fromkeys(("olmo2", "olmo3"), Traits(qkv_bias="attention_bias", o_bias="attention_bias", qk_norm="full")),
    **dict.fromkeys(("cwm", "vaultgemma", "youtu"), _PLAIN),
    "granite_swa": Traits(qkv_bias="attention_bias", o_bias="attention_bias", mlp_bias="mlp_bias", sinks="all"),
    "granitemoe_swa": Traits(sinks="all"),
    "iquestcoder": _LLAMA,
    **dict.fromkeys(("bailing_moe", "bailing_moe_v2"),
                    Traits(qkv_bias="use_qkv_bias", o_bias="use_bias", mlp_bias="use_bias", qk_norm="head_if_used",
                           correction=True)),
    **dict.fromkeys(("step3p5", "step3p7"), Traits(qk_norm="head", gate="per_head", correction=True)),
    "afmoe": Traits(norms=4, qk_norm="head", gate="full", correction=True),
    "apertus": Traits(qk_norm="head", gated=False, qkv_bias="attention_bias", o_bias="attention_bias"),
    "bailing_hybrid": Traits(correction=True, gate="per_head"),
    "bitnet": Traits(sub_norms=True),
    "bloom": Traits(norm_bias=True, qkv_bias=True, o_bias=True, mlp_bias=True, gated=False, embedding_norm=True),
    "cohere": Traits(norms=1, qk_norm="full_if_used"),
    "cohere2": Traits(norms=1, qk_norm="full_if_used"),
    "dots1": Traits(qk_norm="head", correction=True),
    "ernie4_5_moe": Traits(qkv_bias="use_bias", o_bias="use_bias", correction=True),
    "exaone4": Traits(qk_norm="head"),
    "exaone_moe": Traits(qk_norm="head", correction=True),
    "falcon": Traits(norms=1, norm_bias=True, qkv_bias="bias", o_bias="bias", mlp_bias="bias", gated=False),
    "gemma2": Traits(norms=4),
    "gemma3_text": _GEMMA3,
    "gemma3n_text": Traits(norms=4, qk_norm="head", per_layer_inputs=True),
    "gemma4_text": Traits(norms=4, qk_norm="head", per_layer_inputs=True, experts="experts"),
    "glm4": Traits(norms=4, qkv_bias="attention_bias"),
    "glm4_moe": Traits(qkv_bias="attention_bias", qk_norm="head_if_used", correction=True, draft_copies=True),
    "glm4v_moe_text": Traits(qkv_bias="attention_bias", correction=True),
    "gpt2": Traits(norm_bias=True, qkv_bias=True, o_bias=True, mlp_bias=True, gated=False, learned_positions=0),
    "gpt_bigcode": Traits(norm_bias=True, qkv_bias=True, o_bias=True, mlp_bias=True, gated=False, learned_positions=0),
    "gpt_neox": _GPT,
    "gpt_oss": Traits(qkv_bias="attention_bias", o_bias="attention_bias", sinks="all", expert_bias=True),
    "gptj": Traits(norms=1, norm_bias=True, mlp_bias=True, output_bias=True, gated=False),
    "granitemoehybrid": Traits(dense=False),
    "granitemoeshared": Traits(dense=False),
    "gemma4_unified_text": Traits(norms=4, qk_norm="head"),
    "hy_v3": Traits(qk_norm="head", correction=True),
    "hyperclovax": Traits(qkv_bias="attention_bias", o_bias="attention_bias", mlp_bias="mlp_bias", post_norms=True),
    "longcat_flash": Traits(correction=True),
    "hunyuan_v1_dense": Traits(qk_norm="head"),
    "hunyuan_v1_moe": Traits(qk_norm="head"),
    "internlm3": Traits(qkv_bias="qkv_bias", o_bias="bias", mlp_bias="bias"),
    "jais2": _GPT,
    "kimi_linear": Traits(correction=True),
    "laguna": Traits(qk_norm="head", gate="per_head", correction=True),
    "lfm2": Traits(qk_norm="head", mlp="feed_forward"),
    "lfm2_moe": Traits(qk_norm="head", correction=True, mlp="feed_forward"),
    "llama4_text": Traits(shared_as_dense=True, mlp="feed_forward"),
    "mimo_v2_flash": Traits(correction=True, sinks="windows"),
    "minimax_m2": Traits(qk_norm="full", correction=True),
    "mpt": Traits(gated=False),
    "nemotron-nas": _LLAMA,
    "nemotron_h": Traits(norms=1, gated=False, correction=True, mlp="mixer", mixer="mixer"),
    "olmo": Traits(norms=0, final_norm=False),
    "olmo_hybrid": Traits(qkv_bias="attention_bias", o_bias="attention_bias", qk_norm="full"),
    "olmoe": Traits(qk_norm="full"),
    "opt": Traits(norm_bias=True, qkv_bias=True, o_bias=True, mlp_bias=True, gated=False, learned_positions=2),
    "phi": Traits(norms=1, norm_bias=True, qkv_bias=True, o_bias=True, mlp_bias=True, output_bias=True, gated=False),
    "phimoe": Traits(norm_bias=True, qkv_bias="attention_bias", o_bias="attention_bias", output_bias="lm_head_bias"),
    "qwen2_moe": Traits(qkv_bias=True, shared_gate=True),
    "seed_oss": Traits(qkv_bias="attention_bias", o_bias="attention_out_bias"),
    "stablelm": Traits(norm_bias=True, qkv_bias="use_qkv_bias"),
    "starcoder2": _GPT,
}  # fmt: skip
