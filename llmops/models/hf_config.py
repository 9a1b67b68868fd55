"""config.json of a Hugging Face model: typed look-ups by one name for what its families name differently."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from reprlib import repr as brief
from typing import TYPE_CHECKING

from llmops.core.errors import UnreadableInput
from llmops.models.gguf_facts import MAX_LAYERS, MAX_VALUE
from llmops.models.gguf_reader import unreadable
from llmops.models.json_file import read_json_object

if TYPE_CHECKING:
    from llmops.host import Host

# One name here, then those of other families: attribute_map and configuration_*.py of transformers 5, configs/*.py of
# vLLM 0.33. The first that is there counts.
ALIASES: Mapping[str, tuple[str, ...]] = {
    "hidden_size": ("n_embd", "d_model", "dim", "model_dim"),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers", "num_transformer_layers"),
    "num_attention_heads": ("n_head", "n_heads", "num_heads", "num_query_heads"),
    "num_key_value_heads": ("num_kv_heads", "n_head_kv", "n_kv_heads", "num_attention_groups", "multi_query_group_num"),
    "head_dim": ("attention_head_dim", "kv_channels", "v_channels"),
    "intermediate_size": ("ffn_dim", "n_inner", "d_ff", "ffn_hidden_size", "hidden_dim", "d_inner"),
    "vocab_size": ("padded_vocab_size", "n_vocab"),
    "max_position_embeddings": (
        "n_positions", "n_ctx", "max_seq_len", "max_sequence_length", "seq_length", "model_max_length",
    ),
    "num_experts": ("n_routed_experts", "num_local_experts", "moe_num_experts", "num_moe_experts"),
    "num_experts_per_tok": (
        "num_experts_per_token", "experts_per_token", "moe_topk", "moe_k", "moe_top_k", "top_k_experts",
        "num_selected_experts",
    ),
    "dtype": ("torch_dtype",),
}  # fmt: skip
# Where models that also see or hear keep their language model; a thinker keeps its own one level deeper.
LANGUAGE_PARTS = ("text_config", "llm_config", "language_config", "language_model", "thinker_config")
ENCODER_PARTS = ("vision_config", "audio_config", "vision_tower", "audio_encoder_config", "speech_config")
# What the whole model says for its language part where that one is silent.
_SHARED = ("dtype", "torch_dtype", "quantization_config", "compression_config", "tie_word_embeddings", "architectures")
_HINT = "the file is damaged or of a kind that this llmops does not know: download it again"


class ConfigFacts:
    """The values of one config.json, or of one part of it; null is the same as absent.

    Every name may be one of `ALIASES`, which then stands for the others too. `whole` is the file that a part is of.
    """

    def __init__(
        self, path: str, values: Mapping[str, object], where: str = "", whole: ConfigFacts | None = None
    ) -> None:
        self.path = path
        self.values = values
        self.where = where
        self.whole = whole or self

    @property
    def model_type(self) -> str:
        """The family's own name; empty where it has none."""
        return self.text("model_type") or ""

    @property
    def architectures(self) -> tuple[str, ...]:
        """The classes that hold the model, as it names them."""
        return self.texts("architectures") or ()

    @property
    def has_own_code(self) -> bool:
        """Whether a class beside the file holds the model."""
        classes = self.values.get("auto_map")
        return isinstance(classes, dict) and any(str(name).startswith("AutoModel") for name in classes)

    def language(self) -> ConfigFacts:
        """The part that is the language model: a nested one, or this one itself."""
        for name in LANGUAGE_PARTS:
            part = self.part(name)
            if part is not None:
                return part.language()
        return self

    def encoders(self) -> Iterator[ConfigFacts]:
        """The parts that read pictures or sound, also those beside a nested language model."""
        for name in ENCODER_PARTS:
            part = self.part(name)
            if part is not None and part.values:
                yield part
        thinker = self.part("thinker_config")
        if thinker is not None:
            yield from thinker.encoders()

    def part(self, key: str) -> ConfigFacts | None:
        """A nested object as facts of its own; None where there is none."""
        value = self.values.get(key)
        if not isinstance(value, dict):
            return None
        return ConfigFacts(self.path, value, f"{self.where}{key}.", self.whole)

    def find(self, key: str) -> tuple[str, object]:
        """The name under which a value is there, and the value; (key, None) where it is absent."""
        for name in (key, *ALIASES.get(key, ())):
            value = self.values.get(name)
            if value is None and name in _SHARED and self.whole is not self:
                value = self.whole.values.get(name)
            if value is not None:
                return name, value
        return key, None

    def has(self, key: str) -> bool:
        """Whether the key is there, under any of its names, and not null."""
        return self.find(key)[1] is not None

    def first_of(self, *keys: str) -> str:
        """The first of several names that the file uses; the first of all where it uses none."""
        return next((key for key in keys if self.has(key)), keys[0])

    def wrong(self, key: str, value: object) -> UnreadableInput:
        """The complaint about a value that cannot be true."""
        return unreadable(self.path, f"{self.where}{key} is {_shown(value)}, which cannot be", _HINT)

    def missing(self, key: str) -> UnreadableInput:
        """The complaint about a value that is needed and absent."""
        return unreadable(self.path, f"{self.where}{key} is missing", _HINT)

    def integer(self, key: str, default: int | None = None, *, least: int = 0) -> int:
        """One whole number of at least `least`; the default where the key is absent, required without one."""
        name, value = self.find(key)
        if value is None:
            if default is None:
                raise self.missing(key)
            return default
        return self.whole_number(name, value, least)

    def whole_number(self, key: str, value: object, least: int = 0) -> int:
        """A value as a whole number from `least` to 2^31 - 1; 4.0 is one, True is none."""
        if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_VALUE:
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MAX_VALUE:
            raise self.wrong(key, value)
        return value

    def layers(self, key: str = "num_hidden_layers") -> int:
        """A count of layers: at least one, at most as many as any engine takes."""
        count = self.integer(key, least=1)
        if count > MAX_LAYERS:
            raise self.wrong(self.find(key)[0], count)
        return count

    def number(self, key: str, default: float | None = None) -> float:
        """One finite number; the default where the key is absent, required without one."""
        name, value = self.find(key)
        if value is None:
            if default is None:
                raise self.missing(key)
            return default
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise self.wrong(name, value)
        if not abs(value) <= 2.0**63 or not math.isfinite(value):
            raise self.wrong(name, value)
        return float(value)

    def text(self, key: str) -> str | None:
        """A string; None where the key is absent."""
        name, value = self.find(key)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, value)
        return value

    def switch(self, key: str, *, default: bool | None = None) -> bool:
        """Yes or no; the default where the key is absent, required without one."""
        name, value = self.find(key)
        if value is None:
            if default is None:
                raise self.missing(key)
            return default
        if not isinstance(value, bool):
            raise self.wrong(name, value)
        return value

    def items(self, key: str) -> tuple[object, ...] | None:
        """A list of anything, of any length; None where the key is absent."""
        name, value = self.find(key)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.wrong(name, value)
        return tuple(value)

    def integers(self, key: str, *, least: int = 0) -> tuple[int, ...] | None:
        """A list of whole numbers; None where the key is absent."""
        items = self.items(key)
        return None if items is None else tuple(self.whole_number(key, item, least) for item in items)

    def texts(self, key: str) -> tuple[str, ...] | None:
        """A list of strings; None where the key is absent."""
        items = self.items(key)
        if items is None:
            return None
        for item in items:
            if not isinstance(item, str):
                raise self.wrong(key, item)
        return tuple(str(item) for item in items)

    def parts(self, key: str) -> tuple[ConfigFacts, ...] | None:
        """A list of objects, such as one configuration for each layer; None where the key is absent."""
        items = self.items(key)
        if items is None:
            return None
        found: list[ConfigFacts] = []
        for number, item in enumerate(items):
            if not isinstance(item, dict):
                raise self.wrong(key, item)
            found.append(ConfigFacts(self.path, item, f"{self.where}{key}[{number}].", self.whole))
        return tuple(found)

    def per_layer(self, key: str, layers: int, default: int | None = None, *, least: int = 0) -> tuple[int, ...]:
        """One whole number for each layer: a list of exactly that length, or one number for all."""
        name, value = self.find(key)
        if not isinstance(value, list):
            return (self.integer(key, default, least=least),) * layers
        self.require_length(name, len(value), layers)
        return tuple(self.whole_number(name, item, least) for item in value)

    def require_length(self, key: str, length: int, layers: int) -> None:
        """Raise UnreadableInput for a list that is not one value for each layer."""
        if length != layers:
            raise unreadable(self.path, f"{self.where}{key} has {length} values for {layers} layers", _HINT)


def _shown(value: object) -> str:
    """A value as it may stand in a message: short, printable; numbers of any size too."""
    if isinstance(value, int) and abs(value) > 10**18:
        return "a number of more than 18 digits"
    return brief(value)


def read_config(host: Host, path: str) -> ConfigFacts:
    """The facts of a config.json; raises UnreadableInput or NoPermission."""
    return ConfigFacts(path, read_json_object(host, path))
