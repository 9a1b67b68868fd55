"""Hostile GGUF files: whole models with their counts, lengths, types, offsets, texts and parts changed."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from hypothesis import strategies as st

from llmops.models.gguf_families import RULES
from tests.doubles import gguf_files as made
from tests.fuzz.gguf_pieces import Piece, pieces
from tests.fuzz.trees import Entry, File, Folder, Link, Pipe

Case = tuple[str, Mapping[str, Entry]]

NUMBERS = (
    0,
    1,
    2,
    3,
    8,
    9,
    12,
    31,
    32,
    64,
    255,
    512,
    513,
    1024,
    1025,
    4097,
    16_385,
    32_769,
    10**9,
    2**20,
    2**28,
    2**31,
)
BORDERS = (2**31 - 1, 2**32 - 1, 2**32, 2**40, 2**61, 2**62, 2**63 - 1, 2**63, 2**64 - 8, 2**64 - 1)
TEXTS = (b"", b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80" * 9, b"\x1b[2J", b"general.alignment",
         b"general.architecture", b"token_embd.weight", b"blk.99999999.x", b"blk.\xd9\xa3.ffn_up.\xd9\xa3.weight",
         b"a" * 64, b"\xe2\x80\xae", b"split.count")  # fmt: skip
HOLES = (1 << 24, 1 << 24, 0, 1 << 12, 1 << 40, 1 << 24, 1 << 24)
WINDOWED = ("gemma3", "llama4", "exaone4", "gpt-oss", "granite_swa", "llama", "qwen3moe")
OTHER_MEMORIES = ("deepseek2", "glm-dsa", "gemma4", "qwen35", "nemotron_h", "lfm2", "kimi-linear", "mamba2", "rwkv7")
UNKNOWN = ("clip", "deepseek4", "x\x1b[2J", "", "\u202e", "general")
ARCHITECTURES = (*WINDOWED, *sorted(RULES), *UNKNOWN * 2, *WINDOWED, *OTHER_MEMORIES * 2)
OWN_KEYS = (
    "block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count",
    "attention.head_count_kv", "attention.key_length", "attention.value_length", "attention.key_length_swa",
    "attention.value_length_swa", "attention.sliding_window", "attention.sliding_window_pattern", "expert_count",
    "expert_used_count", "expert_feed_forward_length", "nextn_predict_layers", "attention.key_length_mla",
    "attention.value_length_mla", "attention.indexer.key_length", "attention.indexer.types", "attention.indexer.top_k",
    "attention.shared_kv_layers", "attention.recurrent_layers", "full_attention_interval", "leading_dense_block_count",
    "ssm.conv_kernel", "ssm.inner_size", "ssm.state_size", "ssm.group_count", "kda.head_dim", "shortconv.l_cache",
    "wkv.head_size", "token_shift_count",
)  # fmt: skip
OTHER_KEYS = (
    "general.alignment", "general.architecture", "general.file_type", "general.name", "general.type", "split.count",
    "split.no", "split.tensors.count", "tokenizer.chat_template", "tokenizer.ggml.merges", "tokenizer.ggml.tokens",
)  # fmt: skip
_WIDTHS = {made.U8: 8, made.I8: 8, made.U16: 16, made.I16: 16, made.U32: 32, made.I32: 32, made.U64: 64, made.I64: 64}
_SIGNED = (made.I8, made.I16, made.I32, made.I64)


numbers = st.one_of(st.sampled_from(NUMBERS + BORDERS), st.integers(0, 2**64 - 1))


def seeds() -> tuple[bytes, ...]:
    """Headers of small whole models: dense, experts, windows by layer, big endian, version 2, one of two parts."""
    dense, experts = made.model_tensors(layers=1), made.model_tensors(layers=1, experts=4, tied=True)
    listed = made.model_metadata(
        "gemma3", layers=1, kv_heads=[2], attention__sliding_window=64, attention__sliding_window_pattern=[True]
    )
    part = {"split.no": made.Typed(made.U16, 0), "split.count": made.Typed(made.U16, 2)}
    return (
        made.header(made.model_metadata(layers=1), dense),
        made.header(made.model_metadata("qwen3moe", layers=1, expert_count=4, expert_used_count=2), experts),
        made.header(listed, dense),
        made.header(made.model_metadata(layers=1), dense, big_endian=True),
        made.header({**made.model_metadata(layers=1), "general.alignment": 4096}, dense, version=2, alignment=4096),
        made.header({**made.model_metadata(layers=1), **part}, dense),
    )


SEEDS = seeds()
_PIECES = tuple(pieces(seed) for seed in SEEDS)
change = st.tuples(
    st.sampled_from(("number", "number", "text", "text+", "drop", "twice", "swap", "byte")),
    st.integers(0, 4095),
    numbers,
)


@st.composite
def changed_headers(draw: st.DrawFn) -> bytes:
    """A whole header with up to six of its fields changed, perhaps cut or with the end of another."""
    number = draw(st.integers(0, len(SEEDS) - 1))
    parts, order = list(_PIECES[number]), ">" if SEEDS[number][7] else "<"
    for kind, position, value in draw(st.lists(change, min_size=1, max_size=6)):
        _apply(parts, order, kind, position, value)
    content = b"".join(piece.content for piece in parts)
    if draw(st.integers(0, 8)) == 4:
        content = content[: draw(st.integers(0, len(content)))]
    if draw(st.integers(0, 16)) == 8:
        content += draw(st.sampled_from(SEEDS))[draw(st.integers(0, 200)) :]
    return content


def _apply(parts: list[Piece], order: str, kind: str, position: int, value: int) -> None:
    wanted = {"number": "number", "text": "text", "text+": "text"}.get(kind)
    places = [place for place, piece in enumerate(parts) if wanted in (None, piece.kind)]
    if not places:
        return
    place = places[position % len(places)]
    content = parts[place].content
    if kind == "number":
        parts[place] = Piece("number", _packed(order, value, len(content)))
    elif kind == "text":
        text = TEXTS[value % len(TEXTS)]
        parts[place] = Piece("text", text[: len(content)].ljust(len(content), b"x"))
    elif kind == "text+" and place:
        text = TEXTS[value % len(TEXTS)]
        parts[place - 1 : place + 1] = [Piece("number", struct.pack(order + "Q", len(text))), Piece("text", text)]
    elif kind == "drop":
        del parts[place : place + 1 + value % 4]
    elif kind == "twice":
        parts[place:place] = parts[place : place + 1 + value % 12]
    elif kind == "swap":
        other = value % len(parts)
        parts[place], parts[other] = parts[other], parts[place]
    elif content:
        flipped = bytearray(content)
        flipped[value % len(content)] ^= 1 << (value % 8)
        parts[place] = Piece(parts[place].kind, bytes(flipped))


def _packed(order: str, value: int, width: int) -> bytes:
    return (value % (1 << 8 * width)).to_bytes(width, "big" if order == ">" else "little")


@st.composite
def hostile_values(draw: st.DrawFn) -> object:
    """One value of the metadata: any type, any size, arrays of every length that a limit is about, nested ones."""
    shape = draw(
        st.sampled_from(
            ("small", "small", "list", "number", "array", "text", "strings", "float", "raw", "nested", "list", "small")
        )
    )
    kind = draw(st.sampled_from(sorted(_WIDTHS)))
    if shape == "small":
        return made.Typed(made.U32, draw(st.sampled_from((0, 1, 2, 3, 4, 5, 64, 4096))))
    if shape == "list":
        return made.Array(
            draw(st.sampled_from((made.U32, made.BOOL))), [draw(st.integers(0, 1))] * draw(st.sampled_from((1, 2, 64)))
        )
    if shape == "number":
        return made.Typed(kind, _within(kind, draw(numbers)))
    if shape == "array":
        length = draw(st.sampled_from((0, 1, 2, 3, 512, 513, 1024, 1025)))
        return made.Array(kind, [_within(kind, draw(numbers))] * length)
    if shape == "strings":
        return made.Strings(draw(st.integers(0, 40)))
    if shape == "float":
        return draw(st.sampled_from((made.Typed(made.F64, float("nan")), made.Typed(made.F32, -1.0), True, False)))
    if shape == "raw":
        return made.Raw(draw(st.integers(0, 14)), draw(st.binary(max_size=40)))
    if shape == "nested":
        depth = draw(st.sampled_from((1, 3, 200, 5000)))
        return made.Raw(made.ARRAY, struct.pack("<IQ", made.ARRAY, 1) * depth)
    return draw(st.sampled_from(TEXTS)).decode("utf-8", "replace") * draw(st.sampled_from((1, 1, 3, 600)))


def _within(kind: int, value: int) -> int:
    width = _WIDTHS[kind]
    value %= 1 << width
    return value - (1 << width) if kind in _SIGNED and value >> (width - 1) else value


@st.composite
def strange_models(draw: st.DrawFn) -> bytes:
    """A well-formed header whose facts contradict each other, of every family."""
    architecture = draw(st.sampled_from(ARCHITECTURES))
    layers = draw(st.sampled_from((1, 2, 64, 512)))
    metadata = made.model_metadata(architecture, layers=layers)
    keys = st.one_of(st.sampled_from(OWN_KEYS).map(lambda key: f"{architecture}.{key}"), st.sampled_from(OTHER_KEYS))
    metadata.update(draw(st.dictionaries(keys, hostile_values(), max_size=5)))
    tensors = made.model_tensors(layers=min(layers, 2), experts=draw(st.sampled_from((0, 0, 4))))
    if draw(st.integers(0, 4)) == 2:
        shapes = st.lists(st.sampled_from((0, 1, 31, 32, 256, 2**16, 2**31, 2**32)), max_size=5).map(tuple)
        names = st.sampled_from(TEXTS).map(lambda text: text.decode("utf-8", "replace"))
        stored = st.sampled_from((made.F16_TENSOR, made.Q4_K, made.MXFP4))
        others = st.builds(made.Tensor, names, shapes, stored).filter(lambda tensor: tensor.stored_bytes < 2**60)
        tensors[draw(st.integers(0, 3)) :] = draw(st.lists(others, max_size=4))
    alignment = draw(st.sampled_from((32, 32, 1, 64, 32, 32)))
    return made.header(metadata, tensors, alignment=alignment, version=draw(st.sampled_from((2, 3))))


one_file = st.tuples(st.one_of(changed_headers(), strange_models()), st.sampled_from(HOLES)).map(
    lambda drawn: ("m.gguf", {"m.gguf": File(*drawn)})
)


@st.composite
def split_models(draw: st.DrawFn) -> Case:
    """Parts that miscount, repeat, contradict or link to each other, or are no files at all."""
    parts = draw(st.integers(1, 4))
    claimed = draw(st.sampled_from((parts,) * 8 + (0, 1, 2, 3, 999, 1000, 1001, 65_535) + (parts,) * 8))
    tensors = made.model_tensors(layers=1)
    tree: dict[str, Entry] = {}
    for number in range(parts):
        name = f"m-{number + 1:05d}-of-{claimed:05d}.gguf"
        strange = draw(st.integers(0, 12)) == 6
        own = tensors[number::parts]
        tree[name] = draw(_strange_entries(claimed)) if strange else _part(draw, number, claimed, own)
    first = draw(st.sampled_from((*[next(iter(tree))] * 8, *tree, next(iter(tree)))))
    return first, tree


def _part(draw: st.DrawFn, number: int, claimed: int, tensors: list[made.Tensor]) -> Entry:
    own: dict[str, object] = {"split.no": made.Typed(made.U16, number), "split.count": made.Typed(made.U16, claimed)}
    if draw(st.integers(0, 12)) == 6:
        own[draw(st.sampled_from(("split.no", "split.count", "split.tensors.count")))] = draw(hostile_values())
    metadata = {**made.model_metadata(layers=1), **own} if number == 0 else own
    return File(
        made.header(metadata, tensors), made.data_bytes(tensors) - draw(st.sampled_from((0, 0, 0, 64, 0, 0, 0)))
    )


def _strange_entries(claimed: int) -> st.SearchStrategy[Entry]:
    targets = (
        "/dev/zero",
        "/proc/self/mem",
        "/",
        "nowhere",
        *(f"m-{n:05d}-of-{claimed:05d}.gguf" for n in range(1, 4)),
    )
    return st.one_of(
        st.sampled_from(targets).map(Link), st.just(Pipe()), st.just(Folder()), st.just(File(b"", 1 << 40))
    )


cases: st.SearchStrategy[Case] = st.one_of(one_file, one_file, one_file, split_models())
