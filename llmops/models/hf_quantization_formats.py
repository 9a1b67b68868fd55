"""The formats of quantised checkpoints: what each one's configuration says of its matrices.

Read from vLLM 0.33 (model_executor/layers/quantization), transformers 5 (utils/quantization_config.py) and the
documentation of compressed-tensors, AutoAWQ, GPTQModel and ModelOpt.
"""

from __future__ import annotations

from llmops.models.hf_config import ConfigFacts
from llmops.models.hf_patterns import ALL, Patterns, patterns
from llmops.models.hf_scheme import QUANTISED_ROLES, Quantization, Rule, Scheme

MOST_GROUPS = 256
SKIP_KEYS = ("ignore", "ignored_layers", "modules_to_not_convert", "exclude_modules", "llm_int8_skip_modules")


def skipped(part: ConfigFacts) -> Patterns:
    """The modules that the checkpoint leaves as they were."""
    listed = [item for key in SKIP_KEYS for item in part.texts(key) or ()]
    return patterns(part, "ignore", listed)


def float8(part: ConfigFacts) -> Quantization:
    """FP8 with one scale for each matrix, or for each block of weight_block_size."""
    block = part.integers("weight_block_size", least=1)
    rows, columns = (block[0], block[1]) if block and len(block) == 2 else (0, 0)
    return Quantization("fp8", "fp8", (Rule(ALL, Scheme(8, "F8_E4M3", rows, columns, 4)),), skipped(part))


def float8_rows(part: ConfigFacts) -> Quantization:
    """FBGEMM: FP8 with one scale for each row."""
    scheme = Scheme(8, "F8_E4M3", 1, 0, 4)
    return Quantization("fbgemm_fp8", "fp8", (Rule(ALL, scheme),), skipped(part))


def integers(part: ConfigFacts) -> Quantization:
    """AWQ, GPTQ and AutoRound: packed integers with a 16-bit scale and a zero point for each group of a row."""
    method = (part.text("quant_method") or "").lower()
    bits = _bits(part, part.integer("bits", part.integer("w_bit", 4)))
    group = part.find("group_size")[1] if part.has("group_size") else part.find("q_group_size")[1]
    columns = 0 if group in (None, -1) else part.whole_number("group_size", group, 1)
    default = packed_integers(bits, columns)
    rules: list[Rule] = []
    ignored = [*(item for key in SKIP_KEYS for item in part.texts(key) or ())]
    dynamic = part.part("dynamic")
    for name in _few(part, "dynamic", dynamic):
        if name.startswith("-:"):
            ignored.append(f"re:{name[2:]}")
        else:
            other = dynamic.part(name) if dynamic is not None else None
            width = _bits(part, other.integer("bits", bits)) if other is not None else bits
            named = patterns(part, "dynamic", (f"re:{name.removeprefix('+:')}",))
            rules.append(Rule(named, packed_integers(width, columns)))
    rules.append(Rule(ALL, default))
    roles = QUANTISED_ROLES | ({"output"} if part.switch("lm_head", default=False) else set())
    listed = patterns(part, "modules_to_not_convert", ignored)
    return Quantization(method, f"{method} {bits}-bit", tuple(rules), listed, roles)


def _few(part: ConfigFacts, key: str, groups: ConfigFacts | None) -> tuple[str, ...]:
    names = tuple(groups.values) if groups is not None else ()
    if len(names) > MOST_GROUPS:
        raise part.wrong(f"the length of {key}", len(names))
    return names


def packed_integers(bits: int, columns: int) -> Scheme:
    """Integers packed into words of 32 bits; each group has a 16-bit scale and a zero point of its own."""
    return Scheme(bits, "I32", 1, columns, 2 + bits / 8, is_packed=True)


def _bits(part: ConfigFacts, bits: int) -> int:
    if bits not in {2, 3, 4, 8}:
        raise part.wrong("bits", bits)
    return bits


def bitsandbytes(part: ConfigFacts) -> Quantization:
    """4 bits with a scale for each 64 weights (a second quantisation makes it 8 bits), or 8 bits by row."""
    if part.switch("load_in_4bit", default=part.switch("_load_in_4bit", default=False)):
        twice = part.switch("bnb_4bit_use_double_quant", default=False)
        scheme = Scheme(4, "U8", 1, 64, 1 + 4 / 256 if twice else 4, is_packed=True)
    else:
        scheme = Scheme(8, "I8", 1, 0, 4)
    return Quantization("bitsandbytes", f"bitsandbytes {scheme.bits}-bit", (Rule(ALL, scheme),), skipped(part))


def affine(part: ConfigFacts) -> Quantization:
    """MLX: every matrix, the vocabulary's too, with a 16-bit scale and offset for each group of a row."""
    bits = part.integer("bits", least=1)
    if bits not in {2, 3, 4, 5, 6, 8}:
        raise part.wrong("bits", bits)
    scheme = Scheme(bits, "U32", 1, part.integer("group_size", least=1), 4, is_packed=True)
    rules: list[Rule] = []
    for name in _few(part, "quantization", part):
        other = part.part(name)
        if other is not None:
            width = other.integer("bits", bits, least=1)
            own = Scheme(width, "U32", 1, other.integer("group_size", scheme.block_columns, least=1), 4, is_packed=True)
            rules.append(Rule(patterns(part, "quantization", (name,)), own))
    roles = QUANTISED_ROLES | {"output", "embedding"}
    return Quantization("mlx", f"mlx {bits}-bit", (*rules, Rule(ALL, scheme)), roles=roles)


def mxfp4(part: ConfigFacts) -> Quantization:
    """gpt-oss: only the experts, in blocks of 32 weights with a one-byte scale."""
    experts = frozenset({"experts"})
    return Quantization("mxfp4", "mxfp4", (Rule(ALL, MXFP4),), skipped(part), experts)


def bitnet(part: ConfigFacts) -> Quantization:
    """Ternary weights, four in each byte, with one scale for each matrix."""
    scheme = Scheme(2, "U8", 0, 0, 2, is_packed=True)
    return Quantization("bitnet", "bitnet 2-bit", (Rule(ALL, scheme),), skipped(part))


MXFP4 = Scheme(4, "U8", 1, 32, 1, is_packed=True)
NVFP4 = Scheme(4, "U8", 1, 16, 1, is_packed=True)
FP8_TENSOR = Scheme(8, "F8_E4M3", 0, 0, 4)


def modelopt(part: ConfigFacts) -> Quantization:
    """ModelOpt: one algorithm for all, or one for each module (MIXED_PRECISION)."""
    algorithm = (part.text("quant_algo") or "").upper()
    cache = (part.text("kv_cache_quant_algo") or "").lower() or _cache_of(part.part("kv_cache_scheme"))
    rules = _by_module(part, part.part("quantized_layers"))
    scheme = _MODELOPT.get(algorithm)
    if scheme is not None:
        rules.append(Rule(ALL, scheme))
    method = "modelopt_fp4" if "FP4" in algorithm else "modelopt"
    label = algorithm.lower() or method
    return Quantization(method, label, tuple(rules), skipped(part), QUANTISED_ROLES, cache, is_known=bool(rules))


def _by_module(part: ConfigFacts, layers: ConfigFacts | None) -> list[Rule]:
    named: dict[str, list[str]] = {}
    for name in layers.values if layers is not None else ():
        one = layers.part(name) if layers is not None else None
        named.setdefault((one.text("quant_algo") or "").upper() if one is not None else "", []).append(name)
    return [
        Rule(patterns(part, "quantized_layers", names), _MODELOPT.get(algorithm)) for algorithm, names in named.items()
    ]


_MODELOPT = {
    "FP8": FP8_TENSOR,
    "FP8_PER_CHANNEL_PER_TOKEN": Scheme(8, "F8_E4M3", 1, 0, 4),
    "FP8_PB_WO": Scheme(8, "F8_E4M3", 128, 128, 4),
    "MXFP8": Scheme(8, "F8_E4M3", 1, 32, 1),
    "NVFP4": NVFP4,
    "NVFP4_AWQ": NVFP4,
    "W4A16_NVFP4": NVFP4,
    "W4A8_NVFP4_FP8": NVFP4,
    "MXFP4": MXFP4,
    "W4A16_AWQ": packed_integers(4, 128),
    "W4A8_AWQ": packed_integers(4, 128),
    "W4A8_MXFP4_FP8": MXFP4,
}


def compressed_tensors(part: ConfigFacts) -> Quantization:
    """Groups of modules, each with the type, bits and blocks of its weights."""
    groups = part.part("config_groups")
    rules: list[Rule] = []
    for name in _few(part, "config_groups", groups):
        group = groups.part(name) if groups is not None else None
        if group is None:
            raise part.wrong("config_groups", name)
        rules.append(Rule(patterns(group, "targets", group.texts("targets") or ("Linear",)), _weights_of(group)))
    roles = QUANTISED_ROLES | {"output"}  # the output matrix is a Linear too, and on the list of those ignored
    cache = _cache_of(part.part("kv_cache_scheme"))
    schemes = [rule.scheme for rule in rules if rule.scheme is not None]
    label = f"compressed-tensors {min(scheme.bits for scheme in schemes)}-bit" if schemes else "compressed-tensors"
    return Quantization("compressed-tensors", label, tuple(rules), skipped(part), roles, cache)


def _weights_of(group: ConfigFacts) -> Scheme | None:
    weights = group.part("weights")
    if weights is None:
        return None
    bits = weights.integer("num_bits", least=1)
    is_float = weights.text("type") == "float"
    rows, columns = _block_of(weights)
    if is_float and bits == 4:
        return Scheme(4, "U8", rows, columns, 1, is_packed=True)
    if bits == 8:
        return Scheme(8, "F8_E4M3" if is_float else "I8", rows, columns, 4 if rows != 1 or not columns else 2)
    zero_point = 0 if weights.switch("symmetric", default=True) else bits / 8
    return Scheme(_bits(weights, bits), "I32", rows, columns, 2 + zero_point, is_packed=True)


def _block_of(weights: ConfigFacts) -> tuple[int, int]:
    strategy = weights.text("strategy") or "tensor"
    if strategy == "block":
        block = weights.integers("block_structure", least=1)
        if block is None or len(block) != 2:
            raise weights.wrong("block_structure", block)
        return block[0], block[1]
    if strategy in {"group", "tensor_group"}:
        return 1, weights.integer("group_size", least=1)
    return (1, 0) if strategy == "channel" else (0, 0)


def _cache_of(scheme: ConfigFacts | None) -> str | None:
    if scheme is None or scheme.integer("num_bits", 16) != 8:
        return None
    return "fp8" if (scheme.text("type") or "float") == "float" else "int8"
