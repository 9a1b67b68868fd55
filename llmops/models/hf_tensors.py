"""What the tensors of a Hugging Face model weigh: by role and type, all of them and those that one token reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from llmops.core.model import TensorGroup
from llmops.models.safetensors import Kind
from llmops.models.safetensors_layout import BITS

_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|block|layer)\.(\d{1,6})\.")
# Parts of the names before a layer's number (or of the whole name where there is none) in which pictures or sound are
# read; of Mistral3, Qwen-VL, InternVL, LLaVA, Gemma 3 and 4, Llama 4, Kimi-VL, Phi-4, Qwen-Omni, Ultravox, Voxtral.
_ENCODER = re.compile(
    r"(?:^|[._])(?:vision|visual|vit|image|img|audio|speech|sound|multi|mm|projector|patch|merger|aligner|connector|"
    r"mlp1|perceiver|resampler|talker|token2wav|code2wav|siglip|clip|sam|whisper)(?:$|[._])"
)
_DRAFT = re.compile(r"(?:^|[._])(?:mtp|nextn)(?:$|[._])")
_INPUT = re.compile(
    r"(?:^|\.)(?:embed_tokens\w*|wte|wpe|word_embeddings|tok_embeddings|token_embd|embed_in|embed_positions|embeddings|"
    r"embedding|position_embeddings|token_type_embeddings)(?:\.|$)"
)
_TOKENS = re.compile(
    r"(?:^|\.)(?:embed_tokens|wte|word_embeddings|tok_embeddings|embed_in|embeddings|embedding)\.weight$"
)
_OUTPUT = re.compile(
    r"(?:^|\.)(?:lm_head|output|output_layer|embed_out|norm|ln_f|final_layernorm|final_layer_norm|norm_f|"
    r"final_norm|output_norm|embedding_norm)\.\w+$"
)
_OUTPUT_MATRIX = re.compile(r"(?:^|\.)(?:lm_head|output|output_layer|embed_out)\.(?:weight|qweight|weight_packed)$")
_EXPERTS = re.compile(r"\.experts\.|\.block_sparse_moe\.(?:input|output)_linear\.")
# What a quantised matrix is accompanied by: scales, zero points, orders, tables. No parameters of the model.
_COMPANION = re.compile(
    r"(?:(?:^|[._])(?:scales?|zeros?|qzeros|zero_point|g_idx|absmax|quant_map|nested_absmax|nested_quant_map|"
    r"scale_inv|scale_2|global_scale|weight_shape|SCB|weight_format|biases|input_amax|weight_amax)"
    r"|\.quant_state\.\w{1,64}|\.weight\.(?:absmax|quant_map|nested_absmax|nested_quant_map))$"
)
_PACKED_WORD = re.compile(r"(?:^|\.)(?:qweight|weight_packed|weight|W_q)$")
_PACKED_BYTES = re.compile(r"(?:^|[._])(?:qweight|weight_packed|weight|blocks|W_q|gate_up_proj|down_proj)$")


MOST_DOTS = 16  # real names have at most ten


@dataclass(frozen=True)
class Shape:
    """What is known of a model before its tensors: layers of the main model, experts, and how many a token uses."""

    layers: int
    experts: int = 0
    experts_used: int = 0


@dataclass(frozen=True)
class HfWeights:
    """Sizes of one model's tensors; active is what one decoded token reads."""

    groups: tuple[TensorGroup, ...]
    parameters: int
    active_parameters: int
    stored_bytes: int
    active_bytes: int
    encoder_bytes: int
    draft_bytes: int
    tied_output: bool
    vocabulary_rows: int


# How many bits one weight of a module has where integers hold several; None where they do not.
PackedBits = Callable[[str], int | None]
# Roles of what no token of a text passes through.
_PASSIVE = frozenset({"encoder", "draft"})


@dataclass
class _Sums:
    rows: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    stored: dict[str, int] = field(default_factory=dict)
    idle_elements: int = 0
    idle_bytes: int = 0
    passive_elements: int = 0
    token_rows: int = 0
    token_bytes: int = 0
    has_output: bool = False

    def add(self, kind: Kind, role: str, count: int, elements: int) -> None:
        """Take the tensors of one kind in, which hold `elements` weights together."""
        stored = kind.stored_bytes * count
        row = self.rows.setdefault((role, kind.data_type), [0, 0, 0, 0])
        for column, amount in enumerate((count, elements, stored, stored if len(kind.shape) > 1 else 0)):
            row[column] += amount
        self.stored[role] = self.stored.get(role, 0) + stored
        if role in _PASSIVE:
            self.passive_elements += elements
        elif role == "output":
            self.has_output |= _OUTPUT_MATRIX.search(kind.name) is not None
        elif role == "input" and _TOKENS.search(kind.name) and len(kind.shape) == 2 and kind.shape[0] > self.token_rows:
            self.token_rows, self.token_bytes = kind.shape[0], stored

    def rest(self, kind: Kind, count: int, elements: int, shape: Shape) -> None:
        """Take off what a token does not read of routed experts."""
        self.idle_elements += elements - elements * shape.experts_used // shape.experts
        stored = kind.stored_bytes * count
        self.idle_bytes += stored - stored * shape.experts_used // shape.experts


def weigh_kinds(kinds: Mapping[Kind, int], shape: Shape, packed_bits: PackedBits) -> HfWeights:
    """Sum the tensors of a model.

    A token reads every repeating tensor (of the experts their used share) and the output matrix, which is the token
    embedding where there is no other; of encoders, draft layers and the input embedding it reads nothing that counts.
    """
    sums = _Sums()
    for kind, count in kinds.items():
        role = role_of(kind.name, shape.layers)
        elements = parameters_of(kind, packed_bits) * count
        sums.add(kind, role, count, elements)
        if role == "repeating" and is_expert(kind, shape.experts):
            sums.rest(kind, count, elements, shape)
    parameters = sum(row[1] for row in sums.rows.values())
    read_bytes = sums.stored.get("repeating", 0) + sums.stored.get("output", 0) - sums.idle_bytes
    return HfWeights(
        groups=tuple(TensorGroup(*key, *row) for key, row in sorted(sums.rows.items())),
        parameters=parameters,
        active_parameters=parameters - sums.idle_elements - sums.passive_elements,
        stored_bytes=sum(sums.stored.values()),
        active_bytes=read_bytes + (0 if sums.has_output else sums.token_bytes),
        encoder_bytes=sums.stored.get("encoder", 0),
        draft_bytes=sums.stored.get("draft", 0),
        tied_output=not sums.has_output,
        vocabulary_rows=sums.token_rows,
    )


def role_of(name: str, layers: int) -> str:
    """`repeating`, `input`, `output`, `encoder`, `draft` or `other`; layers after the last one are draft layers."""
    found = _LAYER.search(name)
    before = name[: found.start()] if found else name
    if _ENCODER.search(before):
        return "encoder"
    if _DRAFT.search(before):
        return "draft"
    if found:
        return "repeating" if int(found.group(1)) < layers else "draft"
    if _OUTPUT.search(name):
        return "output"
    return "input" if _INPUT.search(name) else "other"


def is_expert(kind: Kind, experts: int) -> bool:
    """Whether tensors belong to routed experts: by name, or all of a layer's stacked in one of three dimensions."""
    if not experts:
        return False
    return _EXPERTS.search(kind.name) is not None or (len(kind.shape) == 3 and kind.shape[0] == experts)


def parameters_of(kind: Kind, packed_bits: PackedBits) -> int:
    """Weights in one tensor: none in scales and the like, several in each integer of a packed one."""
    if _COMPANION.search(kind.name):
        return 0
    wide = BITS[kind.data_type]
    if kind.name.count(".") > MOST_DOTS:  # no model's: comparing it with a list of modules would take long
        return kind.elements
    if kind.data_type in {"I32", "U32", "I64"}:
        packed = _PACKED_WORD.search(kind.name)
    elif kind.data_type in {"U8", "I8"}:
        packed = _PACKED_BYTES.search(kind.name)
    else:
        return kind.elements
    bits = packed_bits(kind.name) if packed else None
    return kind.elements * wide // bits if bits and bits <= wide else kind.elements
