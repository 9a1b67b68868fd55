"""Predicted decode and prefill rates against published ones: figures.yaml, every row that states its hardware."""

from __future__ import annotations

import json
import re
import statistics
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
from ruamel.yaml import YAML

from llmops.core.hardware import Bandwidth, Cpu, Gpu, Hardware, Memory
from llmops.core.model import AttentionLayer, ModelSpec, StateLayer, TensorGroup
from llmops.core.plan import SpeedRange
from llmops.core.throughput import Rates, predict_rates
from llmops.core.workload import Workload, WorkloadKind
from llmops.models.hf_config import ConfigFacts
from llmops.models.hf_defaults import language_facts
from llmops.models.hf_families import layers_of

HERE = Path(__file__).parent
GIB = 1024**3
# Requests of ShareGPT as vLLM's benchmark sends them, and what vLLM runs at once unless told otherwise on cards of less
# and of more than 70 GiB other than A100.
SHAREGPT = (220, 200)
MOST_SEQUENCES = {"A100 80GB": 256, "H100 SXM": 1024}
# Published words -> config.json of the same model. The tag is a part of the row's model_id.
CONFIGS = (
    ("LLaMA-3 8B", "llama-3.1-8b"),
    ("LLaMA-3 70B", "llama-3.1-70b"),
    ("llama3.1:70b", "llama-3.1-70b"),
    ("llama3.1:8b", "llama-3.1-8b"),
    ("llama 3.2 1B", "llama-3.2-1b"),
    ("llama3.2:3b", "llama-3.2-3b"),
    ("gemma4 31B", "gemma-4-31b"),
    ("gemma4 26B", "gemma-4-26b-a4b"),
    ("qwen35 27B", "qwen3.5_3.6_3.8-27b"),
    ("qwen35moe 35B", "qwen3.5_3.6-35b-a3b"),
    ("qwen35moe 122B", "qwen3.5_3.6-35b-a3b"),
    ("gpt-oss 20B", "gpt-oss-20b"),
    ("gpt-oss-20b", "gpt-oss-20b"),
    ("gpt-oss 120B", "gpt-oss-120b"),
    ("Qwen3-32B", "qwen3-32b"),
    ("GLM-4.7-Flash", "deepseek-v2-lite"),
    ("14B-class", "qwen3-14b"),
    ("mistral:7b", "mistral-7b"),
)
# What the config.json of a relative says otherwise: layers.
OTHER_LAYERS = {"qwen35moe 122B": 48, "GLM-4.7-Flash": 47}
# Parameters that the row does not name: all, and those that one token uses (the model cards' own numbers).
PARAMETERS = {
    "gpt-oss 20B": (20.9e9, 3.6e9),
    "gpt-oss-20b": (20.9e9, 3.6e9),
    "gpt-oss 120B": (116.8e9, 5.1e9),
    "llama 3.2 1B": (1.24e9, 1.24e9),
}
_BILLIONS = re.compile(r"(\d+(?:\.\d+)?)[Bb](?![a-z])")
_ACTIVE = re.compile(r"A(\d+(?:\.\d+)?)B")


@dataclass(frozen=True)
class Row:
    """One published measurement and what is predicted for it."""

    name: str
    device: str
    model: str
    measured: float
    predicted: SpeedRange

    @property
    def is_inside(self) -> bool:
        return self.predicted.low <= self.measured <= self.predicted.high

    @property
    def error(self) -> float:
        return self.predicted.likely / self.measured - 1.0

    def __str__(self) -> str:
        low, likely, high = self.predicted.low, self.predicted.likely, self.predicted.high
        return (
            f"{self.name:5} {self.device[:34]:34} {self.model[:34]:34} measured {self.measured:9.2f}"
            f"  predicted {low:9.2f} {likely:9.2f} {high:9.2f}  likely {self.error:+6.1%}"
            f"{'' if self.is_inside else '  OUTSIDE'}"
        )


@cache
def figures() -> tuple[dict[str, Any], ...]:
    return tuple(YAML(typ="safe").load(HERE / "figures.yaml")["throughput"])


@cache
def config_values(name: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((HERE / "configs" / name / "config.json").read_text())
    return values


def tagged(model_id: str, rows: tuple[tuple[str, Any], ...]) -> Any:
    return next((value for tag, value in rows if tag in model_id), None)


def parameters_of(model_id: str) -> tuple[float, float]:
    known = tagged(model_id, tuple(PARAMETERS.items()))
    if known:
        return known[0], known[1]
    match = _BILLIONS.search(model_id)
    assert match, model_id
    total = float(match.group(1)) * 1e9
    active = _ACTIVE.search(model_id)
    return total, float(active.group(1)) * 1e9 if active else total


def scaled(rows: tuple[Any, ...], count: int, layers: int) -> tuple[Any, ...]:
    """The same mix of layers in a model of another depth."""
    return tuple(rows[place * count // max(layers, 1) % count] for place in range(layers)) if rows else ()


def model_of(row: dict[str, Any]) -> ModelSpec:
    """The layers of the config.json with the bytes of the row."""
    model_id = row["model_id"]
    values = config_values(tagged(model_id, CONFIGS))
    facts = ConfigFacts("config.json", values)
    part = cast("dict[str, Any]", language_facts(facts).values)
    found = layers_of(facts)
    count = tagged(model_id, tuple(OTHER_LAYERS.items())) or found.count
    attention: tuple[AttentionLayer, ...] = found.attention_layers
    states: tuple[StateLayer, ...] = found.state_layers
    if count != found.count:
        attention = scaled(attention, len(attention), len(attention) * count // found.count)
        states = scaled(states, len(states), len(states) * count // found.count)
    total, active = parameters_of(model_id)
    weights = int((row.get("model_size_gib") or 0) * GIB) or int(row["bytes_read_per_token_gb"] * 1e9)
    hidden, vocabulary = int(part.get("hidden_size", 0)), int(part.get("vocab_size", 0))
    read = row.get("bytes_read_per_token_gb")
    experts = int(part.get("num_experts") or part.get("num_local_experts") or part.get("n_routed_experts") or 0)
    used = int(part.get("num_experts_per_tok") or part.get("top_k_experts") or 0)
    is_mixture = active < total
    active_bytes = int(read * 1e9) if read else int(weights * active / total)
    tied = bool(values.get("tie_word_embeddings", part.get("tie_word_embeddings", False)))
    unread = max(weights - active_bytes, 0) if not is_mixture and not tied else 0
    return ModelSpec(
        reference=model_id,
        format="config",
        architecture=str(part.get("model_type", "")),
        name=None,
        layers=count,
        attention_layers=attention,
        embedding_length=hidden,
        feed_forward_length=int(part.get("intermediate_size") or 0),
        attention_heads=int(part.get("num_attention_heads", 1)),
        vocabulary_size=vocabulary,
        context_tokens_trained=int(part.get("max_position_embeddings") or 131072),
        parameters=int(total),
        active_parameters=int(active),
        weights_bytes=max(weights, active_bytes),
        active_weights_bytes=active_bytes,
        file_bytes=weights,
        quantization=row["quant"],
        tensors=(TensorGroup("input", row["quant"], 1, hidden * vocabulary, unread, unread),),
        experts=experts if is_mixture else 0,
        experts_used=used if is_mixture else 0,
        tied_output=tied,
        state_layers=states,
    )


def hardware_of(row: dict[str, Any]) -> Hardware:
    """The machine of a row, as a probe of it would describe it; only the name and the bandwidth are known."""
    bandwidth = round(row["mem_bw_gb_s"] * 1e9)
    if "CPU" in row["device"]:
        cores, flags = (192, ("asimd", "asimddp")) if "Ampere" in row["device"] else (16, ("avx2", "avx512_vnni"))
        read = Bandwidth(bandwidth, 0.0, None, cores, 5, reliable=True, reason=None)
        cpu = Cpu(physical_cores=cores, logical_cpus=cores, usable_threads=cores, flags=flags)
        return Hardware(cpu=cpu, memory=Memory(64 * GIB, 64 * GIB), bandwidth=read)
    name = row["device"].split("(")[0].replace(" x2", "").replace(" x8", "").strip()
    unified = any(word in name for word in ("Apple", "Strix", "GB10", "Jetson"))
    card = Gpu(0, None, name, None, None, bandwidth_bytes_per_second=bandwidth, unified=unified)
    count = row.get("n_dev") or 1
    return Hardware(gpus=tuple(replace(card, index=index) for index in range(count)))


def tokens_of(row: dict[str, Any]) -> tuple[int, int]:
    """(in the cache at the start, generated) of the row's test."""
    if row["kind"] == "single_at_depth":
        return row["depth"], 128
    match = re.search(r"tg(\d+)", row.get("test", ""))
    return 0, int(match.group(1)) if match else 200


def rates_of(row: dict[str, Any], prompt: int, reply: int) -> Rates:
    load = Workload(WorkloadKind.BATCH, 1, None, prompt, reply, prompt + reply)
    on_gpu = "CPU" not in row["device"]
    return predict_rates(hardware_of(row), model_of(row), load, on_gpu=on_gpu, engine=row["engine"])


def is_predictable(row: dict[str, Any]) -> bool:
    """Rows that say which device and how many, and whose model has a config.json or sizes."""
    stated = row.get("mem_bw_gb_s") is not None and row.get("n_dev") is not None and row.get("decode_tok_s")
    sized = row.get("bytes_read_per_token_gb") is not None or row.get("model_size_gib") is not None
    return bool(stated and sized)


def decode_rows() -> list[Row]:
    rows = []
    for row in figures():
        if not is_predictable(row):
            continue
        span = served(row) if row["kind"].startswith("serving") else alone(row)
        rows.append(Row(row["id"], row["device"], f"{row['model_id']} {row['quant']}", row["decode_tok_s"], span))
    return rows


def alone(row: dict[str, Any]) -> SpeedRange:
    rates = rates_of(row, *tokens_of(row))
    low, likely, high = (1.0 / model.step_seconds(1) for model in (rates.low, rates.likely, rates.high))
    return SpeedRange(low, likely, high)


def served(row: dict[str, Any]) -> SpeedRange:
    """Tokens per second of a full server: as many at once as the engine takes and the cache holds."""
    prompt, reply = SHAREGPT
    model = model_of(row)
    pool = row.get("pool_gib", 80 * 0.9 - row["model_size_gib"] - 6.0) * GIB
    room = pool / (sum(layer.cache_bytes_per_token() for layer in model.attention_layers) * (prompt + reply / 2))
    streams = max(1.0, min(room, MOST_SEQUENCES[row["device"]], row["max_concurrency"]))
    load = Workload(WorkloadKind.BATCH, 1, None, prompt, reply, prompt + reply)
    rates = rates_of(row, prompt, reply)
    low, likely, high = (
        streams * reply / one.request_seconds(streams, load) for one in (rates.low, rates.likely, rates.high)
    )
    return SpeedRange(low, likely, high)


def prefill_rows() -> list[Row]:
    rows = []
    for row in figures():
        if not is_predictable(row) or not row.get("prefill_tok_s"):
            continue
        match = re.search(r"pp(\d+)", row.get("test", ""))
        rates = rates_of(row, int(match.group(1)) if match else 512, 1)
        low, likely, high = (one.prefill_tokens_per_second for one in (rates.low, rates.likely, rates.high))
        span = SpeedRange(low, likely, high)
        rows.append(Row(row["id"], row["device"], f"{row['model_id']} {row['quant']}", row["prefill_tok_s"], span))
    return rows


def judge(rows: list[Row]) -> tuple[float, float, str]:
    """Share inside, median error of the likely value, and the table of the rows that are outside."""
    inside = sum(row.is_inside for row in rows) / len(rows)
    median = statistics.median(abs(row.error) for row in rows)
    outside = "\n".join(str(row) for row in rows if not row.is_inside)
    return inside, median, f"{inside:.1%} of {len(rows)} inside, median error {median:.1%}\n{outside}"


def test_decode_lies_inside_the_range_in_nine_of_ten_rows_and_near_the_likely_value() -> None:
    rows = decode_rows()
    assert len(rows) >= 50
    inside, median, table = judge(rows)
    assert inside >= 0.9, table
    assert median <= 0.2, table


def test_prefill_lies_inside_the_range_in_nine_of_ten_rows() -> None:
    inside, _, table = judge(prefill_rows())
    assert inside >= 0.9, table


@pytest.mark.parametrize("word", ["RTX", "A100", "H100", "Apple", "Strix"])
def test_no_kind_of_hardware_is_predicted_worse_than_the_others(word: str) -> None:
    inside, median, table = judge([row for row in decode_rows() if word in row.device])
    assert inside >= 0.8, table
    assert median <= 0.2, table
