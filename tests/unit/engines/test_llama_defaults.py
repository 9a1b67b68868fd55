"""What llama-server chooses by itself: the values that `size` takes for all that is not given."""

from __future__ import annotations

from dataclasses import replace

from llmops.core.hardware import Hardware
from llmops.core.plan import Fixed
from llmops.core.units import GIB
from llmops.core.version import Version
from llmops.engines.found import Installation
from llmops.engines.llama_server.engine import LlamaServer
from llmops.engines.llama_server.help import read_help
from tests.unit.core.example_models import eight_billion_16_bit
from tests.unit.engines.llama_host import OLD_HELP

NEWEST = Installation("llama-server", "absent", ("llama-server",), None, None, None)
MODEL = eight_billion_16_bit()


def chosen(fixed: Fixed, installation: Installation = NEWEST) -> Fixed:
    return LlamaServer().with_defaults(fixed, MODEL, installation, Hardware())


def test_the_defaults_of_today() -> None:
    found = chosen(Fixed(slots=8, context_tokens=8_192))
    assert (found.batch_tokens, found.ubatch_tokens) == (2_048, 512)
    assert (found.prompt_cache_bytes, found.context_checkpoints) == (8 * GIB, 32)
    assert (found.cache_type_k, found.cache_type_v, found.kv_unified) == ("f16", "f16", False)


def test_what_is_given_stays() -> None:
    given = Fixed(
        slots=2, context_tokens=512, cache_type_k="q8_0", cache_type_v="q8_0", batch_tokens=64, ubatch_tokens=32,
        kv_unified=True, swa_full=True, flash_attention="on", repack=False, prompt_cache_bytes=0, context_checkpoints=0,
    )  # fmt: skip
    assert chosen(given) == given


def test_without_a_number_four_slots_share_one_pool_of_the_trained_context() -> None:
    found = chosen(Fixed())
    assert (found.slots, found.kv_unified, found.context_tokens) == (4, True, MODEL.context_tokens_trained // 4)
    assert chosen(Fixed(kv_unified=False)).kv_unified, "the automatic number overrides it"
    before = replace(NEWEST, version=Version((6000,)))
    assert chosen(Fixed(), before).slots == 1


def test_without_a_context_each_slot_has_all_of_it_since_autumn_2026() -> None:
    assert chosen(Fixed(slots=4)).context_tokens == MODEL.context_tokens_trained
    divided = replace(NEWEST, version=Version((10456,)))
    assert chosen(Fixed(slots=4), divided).context_tokens == MODEL.context_tokens_trained // 4


def test_a_binary_without_the_flag_saves_no_prompts() -> None:
    known = read_help(OLD_HELP)
    old = replace(NEWEST, flags=known.flags, valued_flags=known.valued)
    found = chosen(Fixed(slots=1, context_tokens=4_096), old)
    assert (found.prompt_cache_bytes, found.context_checkpoints) == (0, 0)
