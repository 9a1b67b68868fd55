"""What llama.cpp calls the family of a Hugging Face model: the general.architecture of the file that it becomes.

Read from the classes of conversion/*.py and gguf-py/gguf/constants.py of llama.cpp b11434. A family that is not here
has no converter.
"""

from __future__ import annotations

# Written the same in both, or but for `_text` at the end, which marks the language part of a model that also sees.
_SAME = frozenset(
    {
        "afmoe", "apertus", "arcee", "baichuan", "bert", "bitnet", "bloom", "chatglm", "cohere2", "dbrx", "deci",
        "deepseek", "dots1", "ernie4_5", "exaone", "exaone4", "falcon", "gemma", "gemma2", "gemma3", "gemma3n",
        "gemma4", "glm4", "gpt2", "granite", "granitemoe", "internlm2", "jais2", "jamba", "laguna", "lfm2", "llama",
        "llama4", "mamba", "mamba2", "mellum", "minicpm", "minicpm3", "mistral4", "mpt", "nemotron",
        "nemotron_h", "olmo", "olmo2", "olmoe", "phi3", "phimoe", "qwen2", "qwen3", "seed_oss", "smollm3", "stablelm",
        "starcoder2",
    }
)  # fmt: skip

_NAMES = {
    "bailing_hybrid": "bailingmoe3",
    "bamba": "granitehybrid",
    "camembert": "bert",
    "cohere": "command-r",
    "cohere2_moe": "cohere2moe",
    "deepseek_v2": "deepseek2",
    "deepseek_v3": "deepseek2",
    "deepseek_v32": "deepseek32",
    "distilbert": "bert",
    "ernie4_5_moe": "ernie4_5-moe",
    "exaone_moe": "exaone-moe",
    "falcon_h1": "falcon-h1",
    "falcon_mamba": "mamba",
    "glm": "chatglm",
    "glm4_moe": "glm4moe",
    "glm4_moe_lite": "deepseek2",
    "glm4v": "glm4",
    "glm4v_moe": "glm4moe",
    "glm_moe_dsa": "glm-dsa",
    "gpt_bigcode": "starcoder",
    "gpt_neox": "gptneox",
    "gpt_oss": "gpt-oss",
    "granitemoehybrid": "granitehybrid",
    "granitemoeshared": "granitemoe",
    "hunyuan_v1_dense": "hunyuan-dense",
    "hunyuan_v1_moe": "hunyuan-moe",
    "internlm3": "llama",
    "kimi_k2": "deepseek2",
    "kimi_linear": "kimi-linear",
    "lfm2_moe": "lfm2moe",
    "mimo_v2_flash": "mimo2",
    "minimax_m2": "minimax-m2",
    "ministral3": "mistral3",
    "mistral": "llama",
    "mixtral": "llama",
    "modernbert": "modern-bert",
    "nemotron-nas": "deci",
    "nomic_bert": "nomic-bert",
    "olmo3": "olmo2",
    "phi": "phi2",
    "qwen2_5_omni": "qwen2vl",
    "qwen2_5_vl": "qwen2vl",
    "qwen2_moe": "qwen2moe",
    "qwen2_vl": "qwen2vl",
    "qwen3_5": "qwen35",
    "qwen3_5_moe": "qwen35moe",
    "qwen3_moe": "qwen3moe",
    "qwen3_next": "qwen3next",
    "qwen3_omni_moe": "qwen3vlmoe",
    "qwen3_vl": "qwen3vl",
    "qwen3_vl_moe": "qwen3vlmoe",
    "roberta": "bert",
    "sarvam_moe": "bailingmoe2",
    "solar_open": "glm4moe",
    "xlm-roberta": "bert",
}


def gguf_name(model_type: str, *, has_experts: bool) -> str | None:
    """The architecture of the converted file; None where llama.cpp has no converter."""
    family = model_type.removesuffix("_text")
    name = family if family in _SAME else _NAMES.get(family)
    return f"{name}_moe" if name == "nemotron_h" and has_experts else name
