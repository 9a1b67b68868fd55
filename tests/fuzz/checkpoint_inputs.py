"""Hostile Hugging Face models: tensors that lie, configurations of every family changed, caches full of links."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

from hypothesis import strategies as st

from llmops.models.hf_families import RULES
from tests.doubles import safetensors_files as made
from tests.fuzz.trees import Entry, File, Folder, Link, Pipe

Case = tuple[str, Mapping[str, Entry]]
Json = dict[str, object]

REAL = Path(__file__).parents[1] / "truth" / "configs"
COMMIT, OTHER = "a" * 40, "b" * 40
CONFIG: Json = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096,
    "vocab_size": 32, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
}  # fmt: skip
TENSORS: made.Shapes = {
    "model.embed_tokens.weight": ("BF16", (32, 64)),
    "model.layers.0.self_attn.q_proj.weight": ("F8_E4M3", (64, 64)),
    "model.layers.0.self_attn.q_proj.weight_scale_inv": ("F32", (1, 1)),
    "model.layers.0.mlp.experts.0.up_proj.qweight": ("I32", (8, 128)),
    "model.layers.0.mlp.experts.1.up_proj.qweight": ("I32", (8, 128)),
    "model.layers.1.eh_proj.weight": ("F4", (64, 128)),
    "vision_tower.x.weight": ("U8", (64,)),
    "model.norm.weight": ("BF16", (64,)),
}
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
SIZES = (
    0,
    1,
    2,
    3,
    7,
    8,
    16,
    64,
    127,
    255,
    512,
    513,
    4096,
    2**16,
    2**24,
    2**31 - 1,
    2**31,
    2**53,
    2**63,
    2**64,
    10**30,
)
SCALARS: tuple[object, ...] = (
    None, True, False, -1, 0.5, 1e308, float("nan"), float("inf"), 4.0, 10**400, "", "auto", "full_attention",
    "sliding_attention", "linear_attention", "\ud800", "\x1b[2J", "\u202e", "a" * 5000, "re:(a+)+$", "[", "F16", "I4",
    "__metadata__", "../x.safetensors", *SIZES, *SIZES,
)  # fmt: skip
KEYS = (
    "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "layer_types",
    "sliding_window", "sliding_window_pattern", "text_config", "vision_config", "quantization_config", "num_experts",
    "num_experts_per_tok", "moe_intermediate_size", "kv_lora_rank", "qk_rope_head_dim", "vocab_size", "model_type",
    "num_nextn_predict_layers", "rope_scaling", "block_configs", "hybrid_override_pattern", "linear_attn_config",
    "intermediate_size", "full_attention_interval", "num_kv_shared_layers", "attn_layer_period", "mamba_d_state",
    "torch_dtype", "dtype", "architectures", "max_position_embeddings", "tie_word_embeddings", "layers_block_type",
)  # fmt: skip
QUANTISED: tuple[Json, ...] = (
    {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"},
    {"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {"-:.*": {}}},
    {"quant_method": "awq", "bits": 4, "group_size": 32, "modules_to_not_convert": ["lm_head"]},
    {"quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head", "re:.*gate$"],
     "config_groups": {"group_0": {
         "targets": ["Linear", "re:.*(a+)+$"],
         "weights": {"num_bits": 4, "type": "int", "group_size": 128, "strategy": "group"}}}},
    {"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head*"]},
    {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
    {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]},
    {"quant_method": "bitnet"}, {"quant_method": "\x1b"},
)  # fmt: skip


def _dumped(document: object) -> bytes:
    return json.dumps(document).encode("utf-8", "surrogatepass")


def _real_configs() -> tuple[Json, ...]:
    texts = (path.read_text(encoding="utf-8") for path in sorted(REAL.glob("*/config.json")))
    return (CONFIG, *(json.loads(text) for text in texts if len(text) < 20_000))


CONFIGS = _real_configs()


def _value(chance: Random) -> object:
    kind = chance.choice(("scalar",) * 6 + ("list", "numbers", "object", "deep"))
    if kind == "list":
        return [chance.choice(SCALARS)] * chance.choice((0, 1, 2, 48, 513, 5000))
    if kind == "numbers":
        return [chance.randint(0, 4) for _ in range(chance.choice((1, 12, 48)))]
    if kind == "object":
        return {chance.choice(KEYS): chance.choice(SCALARS) for _ in range(chance.randint(0, 3))}
    if kind == "deep":
        value: object = 1
        for _ in range(chance.choice((3, 40, 500))):
            value = [value] if chance.random() < 0.5 else {"text_config": value}
        return value
    return chance.choice(SCALARS)


def _damaged(chance: Random, text: bytes) -> bytes:
    kind = chance.choice(("whole",) * 24 + ("cut", "byte", "byte", "deep", "mark", "double", "bytes", "number"))
    if kind == "cut":
        return text[: chance.randint(0, len(text))]
    if kind == "byte" and text:
        at = chance.randrange(len(text))
        return text[:at] + chance.randbytes(chance.randint(0, 3)) + text[at + 1 :]
    if kind == "deep":
        return chance.choice((b"[", b'{"a":', b'{"text_config":')) * chance.choice((10, 300, 5000, 60_000))
    if kind == "mark":
        return chance.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\0", b" " * 5000)) + text
    if kind == "double":
        return text.replace(b"{", b'{"model_type":"llama",', 1)
    if kind == "number":
        return text.replace(b"64", b"9" * chance.choice((20, 400, 5000)), 1)
    return chance.randbytes(chance.randint(0, 64)) if kind == "bytes" else text


def _places(document: Json) -> list[Json]:
    """The object itself and those inside it, lists of objects too."""
    found = [document]
    for value in document.values():
        for inner in value if isinstance(value, list) else (value,):
            if isinstance(inner, dict):
                found += _places(inner)
    return found


def changed_config(chance: Random) -> bytes:
    """A real configuration with some of its values changed, left out, or of another family."""
    document: Json = json.loads(json.dumps(chance.choice(CONFIGS)))
    if chance.random() < 0.3:
        document["quantization_config"] = json.loads(json.dumps(chance.choice(QUANTISED)))
    if chance.random() < 0.3:
        chance.choice(_places(document))["model_type"] = chance.choice((*sorted(RULES), "nobody"))
    for _ in range(chance.choice((0, 1, 1, 2, 4))):
        place = chance.choice(_places(document))
        key = chance.choice((*KEYS, *place)) if chance.random() < 0.3 or not place else chance.choice(sorted(place))
        if chance.random() < 0.15:
            place.pop(key, None)
        else:
            place[key] = _value(chance)
    return _damaged(chance, _dumped(document))


def _config_case(number: int) -> Case:
    chance = Random(number)
    tree: dict[str, Entry] = {"m/config.json": File(changed_config(chance))}
    if chance.random() < 0.2:
        tree |= _weights(TENSORS)
    if chance.random() < 0.1:
        tree["m/hf_quant_config.json"] = File(_damaged(chance, _dumped({"quantization": chance.choice(QUANTISED)})))
    if chance.random() < 0.1:
        tree["m/tokenizer_config.json"] = File(_damaged(chance, b'{"chat_template": "x"}'), chance.choice((0, 1 << 30)))
    return "m", tree


def _weights(tensors: made.Shapes) -> dict[str, Entry]:
    return {"m/model.safetensors": File(made.header(tensors, {"format": "pt"}), made.data_bytes(tensors))}


def _index(chance: Random, shards: Mapping[str, made.Shapes]) -> bytes:
    weight_map: Json = {name: shard for shard, tensors in shards.items() for name in tensors}
    for _ in range(chance.choice((0, 0, 0, 1, 2))):
        weight_map[chance.choice((*TENSORS, "x", "\x1b"))] = chance.choice((*SHARDS, *SCALARS))
    document: Json = {"metadata": {"total_size": chance.choice(SIZES)}, "weight_map": weight_map}
    if chance.random() < 0.1:
        document[chance.choice(("metadata", "weight_map", "more"))] = _value(chance)
    return _damaged(chance, json.dumps(document, indent=chance.choice((None, 2))).encode())


def _header(chance: Random, tensors: made.Shapes) -> bytes:
    """A header with some entries changed, in any order of their fields."""
    entries: Json = dict(made.entries(tensors))
    for _ in range(chance.choice((0, 0, 1, 2))):
        name = chance.choice((*entries, "__metadata__", "x"))
        entry = entries.get(name)
        if isinstance(entry, dict) and chance.random() < 0.8:
            entry[chance.choice(("dtype", "shape", "data_offsets", "more"))] = chance.choice(
                (
                    _value(chance),
                    [chance.choice(SIZES) for _ in range(chance.randint(0, 9))],
                    chance.choice(sorted(made.BITS)),
                )
            )
        else:
            entries[name] = _value(chance)
    if chance.random() < 0.2:
        entries = {"__metadata__": {"format": "pt", "a": '}"\\'}, **entries}
    blanks = chance.choice(((",", ":"), (", ", ": ")))
    return _damaged(chance, json.dumps(entries, separators=blanks, sort_keys=chance.random() < 0.2).encode())


def _file(chance: Random, tensors: made.Shapes) -> File:
    header = _header(chance, tensors)
    length = len(header).to_bytes(8, "little")
    if chance.random() < 0.1:
        length = chance.choice((2**64 - 1, 2**63, 10**8, 10**8 + 1, 2**31, 0, 1, len(header) + 1)).to_bytes(8, "little")
    hole = made.data_bytes(tensors)
    return File(length + header, hole if chance.random() < 0.9 else chance.choice((0, hole - 1, hole + 1, 1 << 40)))


def _tensors_case(number: int) -> Case:
    chance = Random(number)
    tree: dict[str, Entry] = {"m/config.json": File(_dumped(CONFIG))}
    if chance.random() < 0.4:
        names = list(TENSORS)
        halves = (names[:4], names[4:])
        shards = {shard: {name: TENSORS[name] for name in half} for shard, half in zip(SHARDS, halves, strict=True)}
        tree["m/model.safetensors.index.json"] = File(_index(chance, shards))
        tree |= {f"m/{shard}": _file(chance, tensors) for shard, tensors in shards.items()}
    else:
        tree["m/model.safetensors"] = _file(chance, TENSORS)
    if chance.random() < 0.1:
        tree[chance.choice(sorted(tree))] = chance.choice(ENTRIES)
    return "m", tree


HUB = "hub/models--o--n"
SNAPSHOT = f"{HUB}/snapshots/{COMMIT}"
LINKS = ("/", "/dev/zero", "/proc/self/mem", ".", "..", "nowhere", "../../blobs/0", "../../blobs/config",
         "config.json",
         "../../../../../outside/secret", "a" * 300, "../" * 40 + "proc/self/environ", "/dev/stdin",
         "\x1b[2J")  # fmt: skip
ENTRIES: tuple[Entry, ...] = (
    *map(Link, LINKS), Pipe(), Folder(), File(b""), File(b"", 1 << 40), File(b"{", 1 << 19), File(b"{}"),
)  # fmt: skip
REVISIONS = ("main", "refs/pr/1", COMMIT[:8], COMMIT, OTHER, "v1", "nothing")
REFERENCES = ("o/n", "o/n", "o/n", *(f"o/n@{revision}" for revision in REVISIONS))


def cache_tree(reference: bytes = COMMIT.encode()) -> dict[str, Entry]:
    """A cache with one model, as the hub's downloader leaves it."""
    header = made.header(TENSORS)
    return {
        f"{HUB}/refs/main": File(reference),
        f"{HUB}/blobs/config": File(_dumped(CONFIG)),
        f"{HUB}/blobs/weights": File(header, made.data_bytes(TENSORS)),
        f"{SNAPSHOT}/config.json": Link("../../blobs/config"),
        f"{SNAPSHOT}/model.safetensors": Link("../../blobs/weights"),
        "outside/secret": File(_dumped(CONFIG)),
    }


def _cache_case(number: int) -> Case:
    chance = Random(number)
    tree = cache_tree(chance.choice((COMMIT.encode(),) * 6 + (OTHER.encode(), b"../..", b"", b"\xff" * 40, b"A" * 40)))
    if chance.random() < 0.3:
        tree[f"{HUB}/snapshots/{OTHER}/config.json"] = Link("../../blobs/config")
    if chance.random() < 0.2:
        tree[f"{HUB}/refs/{chance.choice(REVISIONS)}"] = File(chance.choice((OTHER, COMMIT, "x")).encode())
    if chance.random() < 0.5:
        places = (*tree, HUB, f"{HUB}/refs", f"{HUB}/snapshots", f"{HUB}/blobs", SNAPSHOT, "hub")
        place = chance.choice(places)
        tree = {place: chance.choice(ENTRIES), **{name: entry for name, entry in tree.items() if name != place}}
    strays = ("model.safetensors.index.json", "tokenizer_config.json", "m.gguf", "\x1b[2J", "chat_template.jinja")
    if chance.random() < 0.3:
        tree[f"{SNAPSHOT}/{chance.choice(strays)}"] = chance.choice(ENTRIES)
    return chance.choice(REFERENCES), tree


def _numbered(make: Callable[[int], Case]) -> st.SearchStrategy[Case]:
    return st.integers(0, 2**64 - 1).map(make)


config_cases = _numbered(_config_case)
tensors_cases = _numbered(_tensors_case)
cache_cases = _numbered(_cache_case)


def config_from_bytes(data: bytes) -> Case:
    """A configuration as it is; beside it, where the first byte is odd, tensors."""
    tree: dict[str, Entry] = {"m/config.json": File(data[1:])}
    return "m", tree | _weights(TENSORS) if data[:1] and data[0] & 1 else tree


def tensors_from_bytes(data: bytes) -> Case:
    """By the first byte: a header with the length and data that it says, a whole file, or an index of whole files."""
    kind, rest = (data[0] % 4 if data else 0), data[1:]
    tree: dict[str, Entry] = {"m/config.json": File(_dumped(CONFIG))}
    if kind == 3:
        return "m", {**tree, "m/model.safetensors.index.json": File(rest), **_shards()}
    if kind == 2:
        return "m", {**tree, "m/model.safetensors": File(rest[1:], 1 << rest[0] % 41 if rest else 0)}
    ends = [int(end) for end in re.findall(rb"(\d{1,12})\s*\]", rest)]
    return "m", {**tree, "m/model.safetensors": File(made.framed(rest), min(max(ends, default=0), 1 << 40))}


def _shards() -> dict[str, Entry]:
    entry = File(made.header(TENSORS), made.data_bytes(TENSORS))
    return {f"m/{shard}": entry for shard in SHARDS}


def cache_from_bytes(data: bytes) -> Case:
    """Bytes choose what is where: one for the reference, then pairs of a place and what stands there."""
    tree = cache_tree()
    places = (*tree, HUB, f"{HUB}/refs", f"{HUB}/snapshots", f"{HUB}/blobs", SNAPSHOT, f"{SNAPSHOT}/m.gguf",
              f"{HUB}/refs/v1", f"{HUB}/snapshots/{OTHER}", f"{SNAPSHOT}/model.safetensors.index.json")  # fmt: skip
    for place, what in zip(data[1:9:2], data[2:10:2], strict=False):
        name = places[place % len(places)]
        entry = ENTRIES[what % len(ENTRIES)] if what & 1 else File(data[10:])
        tree = {name: entry, **{other: old for other, old in tree.items() if other != name}}
    return (REFERENCES[data[0] % len(REFERENCES)] if data else "o/n"), tree


CONFIG_SEEDS = tuple(b"\0" + _dumped(config) for config in CONFIGS) + tuple(
    b"\1" + _dumped(CONFIG | {"quantization_config": quantised}) for quantised in QUANTISED
)
TENSORS_SEEDS = (
    b"\0" + made.header(TENSORS)[8:],
    b"\0" + made.header(TENSORS, {"format": "pt"})[8:],
    b"\1" + json.dumps(made.entries(TENSORS), sort_keys=True, indent=1).encode(),
    b"\2\x14" + made.header(TENSORS),
    b"\3" + _dumped({"metadata": {"total_size": 1}, "weight_map": dict.fromkeys(TENSORS, SHARDS[0])}),
)
CACHE_SEEDS = (
    b"\0",
    b"\0" + bytes((0, 0, 2, 3, 4, 5, 6, 7)) + COMMIT.encode(),
    b"\4\x0b\0" + bytes(6) + OTHER.encode(),
)
