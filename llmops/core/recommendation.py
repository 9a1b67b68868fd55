"""Which engine suits a load, and why: first more slots of the engine that is there, then another engine.

vLLM pays with a supported card that has room and more than about four requests really in flight. Nothing here changes
an engine: it is said, and a person decides.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from llmops.core.hardware import Hardware
from llmops.core.memory.vllm_facts import UTILIZATION
from llmops.core.model import ModelSpec
from llmops.core.units import GIB, format_bytes
from llmops.core.vllm_cards import card_limits, old_driver, why_not_these_cards

VLLM = "vllm"
# Up to about so many really in flight, slots of llama-server or Ollama serve as well, with less to look after.
FEW_IN_FLIGHT = 4.0
# A machine this small without a card has no room for vLLM: its own processes take 1.7 to 2.3 GiB before any model.
SMALL_MACHINE_BYTES = 8 * GIB
# Besides weights and cache a card holds kernels, work spaces and graphs.
_ROOM_FOR_THE_REST = 1.1
# What sets how many are served at once, by engine.
SLOT_SETTINGS = {"ollama": "OLLAMA_NUM_PARALLEL", "llama-server": "--parallel"}


class Step(str, Enum):
    """What to do next."""

    KEEP = "keep"
    RAISE_SLOTS = "raise_slots"
    CONSIDER_VLLM = "consider_vllm"
    NOT_VLLM = "not_vllm"


@dataclass(frozen=True)
class Circumstances:
    """What a recommendation rests on: a plan for `engine` with so many `slots`, and `served_slots` now if known.

    `context_tokens` is what one request may have; `on_a_card` is for a plan for cards that nobody described.
    `is_here` is whether vLLM is installed beside that engine.
    `not_served` says why vLLM cannot serve the model at all; None where it can, or where that is not known.
    """

    engine: str
    hardware: Hardware
    model: ModelSpec
    in_flight: float
    slots: int
    context_tokens: int
    served_slots: int | None = None
    on_a_card: bool = False
    not_served: str | None = None
    is_here: bool = False


@dataclass(frozen=True)
class Recommendation:
    """The engine that suits, the next step, one sentence, and the reasons for it."""

    engine: str
    step: Step
    message: str
    reasons: tuple[str, ...]

    @property
    def asks_for_something(self) -> bool:
        """Whether a person has something to decide."""
        return self.step is not Step.KEEP


def recommend(found: Circumstances) -> Recommendation:
    """Keep the engine, raise its slots first, look at vLLM, or leave vLLM alone."""
    against = tuple(reasons_against_vllm(found))
    if found.engine == VLLM:
        return _asked_for_vllm(found, against)
    setting, now = SLOT_SETTINGS.get(found.engine), found.served_slots
    if setting is not None and now is not None and now < min(found.slots, math.ceil(found.in_flight)):
        reasons = (
            f"{found.in_flight:.1f} requests are in flight and {now} can be served at once: the others wait in line",
            "more slots cost nothing but memory that is there, and one file; another engine is a new installation",
        )
        message = f"raise {setting} from {now} to {found.slots} first; measure again before thinking of another engine"
        return Recommendation(found.engine, Step.RAISE_SLOTS, message, reasons)
    if against:
        return Recommendation(found.engine, Step.KEEP, f"{found.engine} suits this load", against)
    return Recommendation(VLLM, Step.CONSIDER_VLLM, _consider(found), tuple(_reasons_for_vllm(found)))


def _asked_for_vllm(found: Circumstances, against: tuple[str, ...]) -> Recommendation:
    if not against:
        return Recommendation(VLLM, Step.KEEP, "vLLM suits this load", tuple(_reasons_for_vllm(found)))
    message = "vLLM does not pay here: llama-server or Ollama with parallel slots serve this load with less"
    return Recommendation("llama-server", Step.NOT_VLLM, message, against)


def _consider(found: Circumstances) -> str:
    message = f"where {found.slots} slots of {found.engine} are not enough, vLLM pays here"
    if found.model.format == "gguf":
        message += "; it needs the model as a checkpoint (config.json and safetensors), not as GGUF"
    return f"{message}; it is installed here: --engine {VLLM} plans for it" if found.is_here else message


def reasons_against_vllm(found: Circumstances) -> Iterator[str]:
    """Why vLLM does not pay, the strongest reason first."""
    cards, memory = found.hardware.gpus, found.hardware.memory.total_bytes
    if found.not_served is not None:
        yield found.not_served
    if not cards and not found.on_a_card:
        if memory is not None and memory <= SMALL_MACHINE_BYTES:
            yield (
                f"a machine of {format_bytes(memory)} without a card: vLLM's own processes take about 2 GiB of it"
                " before any model, and it does not read the 4-bit GGUF files that fit such a machine"
            )
        else:
            yield "no supported graphics card: on a processor llama-server does more with the same memory and cores"
    refused = why_not_these_cards(cards, found.model.quantization_method)
    if refused is not None:
        yield refused
    if found.in_flight <= FEW_IN_FLIGHT:
        yield (
            f"{found.in_flight:.1f} requests are really in flight: up to about {FEW_IN_FLIGHT:g} parallel slots of"
            " llama-server or Ollama serve as well"
        )
    elif short := _too_little_room(found):
        yield short


def _reasons_for_vllm(found: Circumstances) -> Iterator[str]:
    cards = ", ".join(dict.fromkeys(card.name for card in found.hardware.gpus))
    yield f"{found.in_flight:.1f} requests are really in flight, more than about {FEW_IN_FLIGHT:g}"
    if cards:
        yield f"{cards}: vLLM runs on it, with room for the model and that many requests"
    yield "its requests take blocks of one pool as they grow, instead of a slot of fixed size each"
    yield from card_limits(found.hardware.gpus, found.model.quantization_method)
    driver = old_driver(found.hardware.driver_version)
    if driver is not None:
        yield driver


def _too_little_room(found: Circumstances) -> str | None:
    """A plan for vLLM knows how many it holds; for another engine, what they take against what vLLM may take."""
    requests = math.ceil(found.in_flight)
    if found.engine == VLLM:
        held = f"its cache holds {found.slots} requests of {found.context_tokens:,} tokens at once"
        return f"{held}, and {requests} are in flight" if found.slots <= FEW_IN_FLIGHT else None
    room = vllm_room_bytes(found.hardware)
    if room is None:
        return None
    cache = requests * found.context_tokens * found.model.cache_bytes_per_token
    needed = round((found.model.weights_bytes + cache) * _ROOM_FOR_THE_REST)
    if needed <= room:
        return None
    return (
        f"the cards have no room: about {format_bytes(needed)} for the model and {requests} requests of"
        f" {found.context_tokens:,} tokens, and vLLM may take {format_bytes(room)}"
    )


def vllm_room_bytes(hardware: Hardware) -> int | None:
    """What it may take of the cards together, each alike; None without cards, or where a size is not known."""
    share = UTILIZATION.at(None)
    rooms = [_room_of(card.total_bytes, card.usable_bytes, share) for card in hardware.gpus]
    known = [room for room in rooms if room is not None]
    return min(known) * len(rooms) if rooms and len(known) == len(rooms) else None


def _room_of(total_bytes: int | None, usable_bytes: int | None, share: float) -> int | None:
    bounds = [bound for bound in (total_bytes and round(total_bytes * share), usable_bytes) if bound is not None]
    return min(bounds, default=None)
