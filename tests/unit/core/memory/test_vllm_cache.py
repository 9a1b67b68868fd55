"""The paged cache of vLLM: blocks, groups, tokens and what a request needs, by version."""

from __future__ import annotations

from typing import Any

import pytest

from llmops.core.errors import UnknownArchitecture, UsageError
from llmops.core.memory.vllm_cache import (
    blocks_of,
    bytes_for_requests,
    cache_figures,
    cache_layout,
    needed_bytes,
    request_blocks,
)
from llmops.core.memory.vllm_settings import VllmSettings
from llmops.core.model import AttentionLayer, StateLayer
from llmops.core.units import MIB
from llmops.core.version import Version
from tests.unit.core.memory.vllm_models import full, model, window


def settings(version: tuple[int, ...] = (0, 33, 0), **more: object) -> VllmSettings:
    facts: dict[str, object] = {"version": Version(version), "max_model_len": 2_048, "max_num_batched_tokens": 512}
    return VllmSettings(**{**facts, **more})  # type: ignore[arg-type]


def test_whole_blocks_of_all_layers_fit_and_one_of_them_is_never_given_out() -> None:
    # Seen with 0.32.0 on a processor: 4 layers, 2 heads of 64, 6 MiB, blocks of 128.
    figures = cache_figures(model(full(4)), settings((0, 32, 0), device="cpu"), 6 * MIB)
    assert (figures.blocks, figures.tokens, figures.usable_tokens, figures.max_concurrency) == (24, 3_072, 2_944, 1.5)


def test_a_shard_keeps_its_share_of_the_heads_or_a_copy_of_one() -> None:
    def block(ranks: int) -> int:
        return cache_layout(model(full(4, heads=4)), settings(tensor_parallel=ranks)).largest_block_bytes

    assert [block(ranks) // block(4) for ranks in (1, 2, 4, 8)] == [4, 2, 1, 1]
    with pytest.raises(UsageError, match="3 cards"):
        block(3)


def test_a_latent_vector_is_whole_on_every_shard() -> None:
    latent = model(tuple(AttentionLayer(1, 576, 0, is_latent=True, layer=number) for number in range(3)))
    blocks = {cache_layout(latent, settings(tensor_parallel=ranks)).largest_block_bytes for ranks in (1, 2, 8)}
    assert blocks == {3 * 576 * 2 * 64}


@pytest.mark.parametrize(
    ("cache_type", "token_bytes"),
    [
        ("auto", 512), ("bfloat16", 512), ("fp8", 256), ("fp8_e4m3", 256), ("int8_per_token_head", 272),
        ("int4_per_token_head", 144), ("nvfp4", 144),
    ],
)  # fmt: skip
def test_each_cache_type_has_its_bytes_of_a_token(cache_type: str, token_bytes: int) -> None:
    layout = cache_layout(model(full(1)), settings(cache_dtype=cache_type))
    assert layout.largest_block_bytes == 16 * token_bytes


def test_packed_rows_of_a_latent_cache_have_a_size_of_their_own() -> None:
    latent = model((AttentionLayer(1, 576, 0, is_latent=True, layer=0),))
    sizes = [cache_layout(latent, settings(cache_dtype=one)).largest_block_bytes // 64 for one in ("fp8", "fp8_ds_mla")]
    assert sizes == [576, 656]


def test_a_key_of_an_indexer_has_one_byte_for_each_element_and_its_scale() -> None:
    latent = (AttentionLayer(1, 576, 0, is_latent=True, layer=0), AttentionLayer(1, 128, 0, is_latent=True, layer=0))
    layout = cache_layout(model(latent, layers=1), settings())
    assert layout.largest_block_bytes == 64 * (576 * 2 + 132)
    assert len(layout.groups) == 1


@pytest.mark.parametrize("cache_type", ["turboquant_k8v4", "octave_k3v4", "q8_0"])
def test_an_unknown_cache_type_is_refused(cache_type: str) -> None:
    with pytest.raises(UnknownArchitecture, match=cache_type):
        cache_layout(model(full(1)), settings(cache_dtype=cache_type))


def test_a_latent_cache_of_a_type_for_heads_is_refused() -> None:
    latent = model((AttentionLayer(1, 576, 0, is_latent=True),))
    with pytest.raises(UnknownArchitecture, match="int4"):
        cache_layout(latent, settings(cache_dtype="int4_per_token_head"))


def test_a_checkpoint_decides_the_automatic_type_since_it_is_asked() -> None:
    asking = model(full(1), quantization_method="modelopt", cache_data_type="fp8")
    sizes = [cache_layout(asking, settings(version)).largest_block_bytes for version in ((0, 13, 0), (0, 14, 0))]
    assert sizes == [16 * 512, 16 * 256]


def test_windows_are_in_groups_as_large_as_the_rarest_kind() -> None:
    # Seen with 0.32.0 on a processor: six layers, one of them full, 6 MiB, 512 tokens of a step.
    mixed = model(window(5, 256, heads=1) + full(1, heads=1, first=5))
    figures = cache_figures(mixed, settings((0, 32, 0), device="cpu"), 6 * MIB)
    assert (figures.tokens, f"{figures.max_concurrency:.2f}") == (7_710, "3.76")


def test_a_window_keeps_the_tokens_of_every_batch_that_runs() -> None:
    layer = cache_layout(model(window(1, 1_025)), settings()).layers[0]
    assert blocks_of(layer, 100_000, 512) == (1_024 + 512) // 16 + 1
    flights = [
        cache_layout(model(window(1, 1_025)), settings(version, **more)).in_flight_tokens
        for version, more in (
            ((0, 25, 1), {}), ((0, 26, 0), {}), ((0, 33, 0), {"async_scheduling": False}),
            ((0, 33, 0), {"device": "cpu"}), ((0, 33, 0), {"pipeline_parallel": 2}),
        )
    ]  # fmt: skip
    assert flights == [512, 1_024, 512, 512, 1_536]


def test_smaller_pages_get_larger_blocks_and_since_some_version_padding() -> None:
    halves = model(full(2, length=128) + window(2, 256, length=64, first=2))
    layout = cache_layout(halves, settings())
    assert [group.first.block_tokens for group in layout.groups] == [16, 32]
    with pytest.raises(UnknownArchitecture, match=r"0\.11\.0"):
        cache_layout(halves, settings((0, 11, 0)))
    thirds = model(full(2, length=96) + window(2, 256, length=64, first=2))
    assert {group.page_bytes for group in cache_layout(thirds, settings((0, 24, 0))).groups} == {2 * 16 * 96 * 8}
    with pytest.raises(UnknownArchitecture, match=r"0\.23\.0"):
        cache_layout(thirds, settings((0, 23, 0)))


def test_full_layers_of_several_sizes_share_one_group() -> None:
    layout = cache_layout(model(full(2, length=96) + full(1, length=64, first=2)), settings())
    assert [len(group.layers) for group in layout.groups] == [3]
    assert layout.largest_block_bytes == 16 * (2 * 768 + 512)


@pytest.mark.parametrize(("version", "sizes"), [((0, 11, 0), [12, 7, 6]), ((0, 12, 0), [13, 12])])
def test_a_few_layers_more_of_one_kind_are_padded_instead_of_divided(
    version: tuple[int, ...], sizes: list[int]
) -> None:
    layout = cache_layout(model(window(12, 128) + full(13, first=12)), settings(version))
    assert sorted((len(group.layers) for group in layout.groups), reverse=True) == sizes


def test_windows_count_as_full_without_the_manager_for_hybrids() -> None:
    mixed = model(window(5, 256) + full(1, first=5))
    whole = cache_layout(model(full(6)), settings())
    for old in (settings(hybrid_cache=False), settings((0, 9, 0))):
        assert request_blocks(cache_layout(mixed, old), 2_048) == request_blocks(whole, 2_048)


def test_chunks_beside_full_attention_count_as_full() -> None:
    chunks = tuple(AttentionLayer(2, 64, 64, 256, is_chunked=True, layer=number) for number in range(3))
    assert len(cache_layout(model(chunks + full(1, first=3)), settings()).groups) == 1
    alone = cache_layout(model(chunks), settings())
    assert request_blocks(alone, 2_048) == (256 + 2 * 512) // 16


def test_chunks_were_kept_like_full_attention_before_they_had_caches_of_their_own() -> None:
    chunks = tuple(AttentionLayer(2, 64, 64, 256, is_chunked=True, layer=number) for number in range(3))
    for version, blocks in (((0, 9, 2), 128), ((0, 10, 1), (256 + 512) // 16)):
        layout = cache_layout(model(chunks), settings(version))
        assert needed_bytes(layout, settings(version), 2_048) == blocks * layout.largest_block_bytes


def test_attention_blocks_grow_until_a_page_holds_a_state() -> None:
    # 0.24.0 printed 2,096 tokens for 32 value heads of 128 x 128 in 32 bit beside two heads of 256 in 8 bit.
    states = tuple(StateLayer("gated_delta", 3 * 8_192, 32 * 128 * 128, layer=number) for number in range(3))
    hybrid = model(full(1, heads=2, length=256, first=3), states, state_data_type="float32")
    layout = cache_layout(hybrid, settings((0, 24, 0), cache_dtype="fp8", prefix_caching=True))
    assert layout.attention_block_tokens == 2_096
    assert [len(group.layers) for group in layout.groups] == [1, 1, 1, 1]
    assert request_blocks(layout, 131_072) == 63 + 3 * 2


@pytest.mark.parametrize(
    ("kind", "more", "blocks"),
    [
        ("gated_delta", {"prefix_caching": False}, 1),
        ("gated_delta", {}, 2),
        ("mamba2", {}, 3),
        ("gated_delta", {"prefix_caching": False, "draft_tokens": 3}, 4),
        ("gated_delta", {"prefix_caching": None, "version": (0, 25, 0)}, 1),
    ],
)
def test_a_state_takes_whole_pages(kind: str, more: dict[str, Any], blocks: int) -> None:
    hybrid = model(full(1), (StateLayer(kind, 300, 1_000, layer=1),))
    (state,) = (layer for layer in cache_layout(hybrid, settings(**more)).layers if layer.kind == "state")
    assert state.state_blocks == blocks


def test_states_alone_need_no_attention() -> None:
    layout = cache_layout(model((), (StateLayer("mamba2", 300, 1_000, layer=0),) * 2), settings(prefix_caching=False))
    assert layout.largest_block_bytes == 2 * 2 * 1_300
    assert layout.attention_block_tokens is None


def test_states_are_kept_at_the_end_of_every_block_of_whole_chunks() -> None:
    # vLLM 0.11.1 to 0.27, mode "all": 600,300 bytes of a state over 512 of a token are 1,173 tokens, in chunks 1,280.
    hybrid = model(full(1), (StateLayer("mamba2", 150, 300_000, layer=1, chunk_tokens=256),))
    layout = cache_layout(hybrid, settings((0, 20, 0), prefix_caching=True, draft_tokens=2))
    assert layout.attention_block_tokens == 1_280
    states = next(one for one in layout.layers if one.kind == "states")
    assert (states.block_tokens, states.state_blocks) == (1_280, 0)
    assert [blocks_of(states, tokens, 0) for tokens in (1, 1_280, 1_281, 5_000)] == [1, 1, 2, 4]
    later = cache_layout(hybrid, settings((0, 27, 1), prefix_caching=True, draft_tokens=2))
    assert [blocks_of(one, 1_281, 0) for one in later.layers if one.kind == "states"] == [4]
    off = cache_layout(hybrid, settings((0, 27, 1), prefix_caching=False))
    assert off.attention_block_tokens == 1_184


def test_kernels_without_chunks_count_as_one_of_2048_tokens() -> None:
    hybrid = model(full(1), (StateLayer("mamba", 150, 300_000, layer=1),))
    assert cache_layout(hybrid, settings((0, 26, 0), prefix_caching=True)).attention_block_tokens == 2_048


def test_models_of_states_alone_keep_one_for_each_block_or_one_in_all() -> None:
    alone = model((), (StateLayer("mamba2", 300, 1_000, layer=0, chunk_tokens=256),))
    (kept,) = cache_layout(alone, settings((0, 26, 0), prefix_caching=True)).layers
    assert (kept.kind, kept.block_tokens) == ("states", 16)
    asked = settings((0, 12, 0), prefix_caching=False, max_model_len=2_048)
    figures = cache_figures(alone, asked, 10 * 2_600)
    assert (figures.blocks, figures.tokens, figures.max_concurrency) == (10, 20_480, 10)


def test_a_page_of_a_state_counts_as_the_longest_request_where_that_is_shorter_than_a_block() -> None:
    # Falcon-H1-3B in 0.12.0 printed 41 times 2,048 tokens beside blocks of 2,080.
    hybrid = model(full(1), (StateLayer("mamba2", 150, 300_000, layer=1),))
    asked = settings((0, 12, 0), max_model_len=1_024)
    layout = cache_layout(hybrid, asked)
    assert layout.attention_block_tokens == 1_184
    figures = cache_figures(hybrid, asked, 10 * layout.largest_block_bytes)
    assert figures.tokens == 10 // 2 * 1_024


@pytest.mark.parametrize(
    ("kind", "version"), [("gated_delta", (0, 14, 1)), ("kimi_delta", (0, 11, 2)), ("mamba2", (0, 10, 2))]
)
def test_prefixes_that_a_version_cannot_cache_are_not_cached_whatever_was_asked(
    kind: str, version: tuple[int, ...]
) -> None:
    hybrid = model(full(1), (StateLayer(kind, 300, 1_000, layer=1),))
    states = [one for one in cache_layout(hybrid, settings(version, prefix_caching=True)).layers if one.kind == "state"]
    assert [one.state_blocks for one in states] == [1]


def test_latent_attention_beside_states_takes_multiples_of_128_tokens() -> None:
    hybrid = model(
        (AttentionLayer(1, 576, 0, is_latent=True, layer=0),), (StateLayer("kimi_delta", 300, 300_000, layer=1),)
    )
    assert cache_layout(hybrid, settings()).attention_block_tokens == 1_152
    assert cache_layout(hybrid, settings((0, 25, 0))).attention_block_tokens == 1_088


def test_printed_tokens_are_of_a_group_before_they_are_of_the_concurrency() -> None:
    mixed = model(window(5, 256) + full(1, first=5))
    old, new = (cache_figures(mixed, settings(version), 8 * MIB) for version in ((0, 19, 1), (0, 21, 0)))
    assert old.tokens == old.blocks // 6 * 16
    assert new.tokens == int(new.max_concurrency * 2_048)


def test_what_a_request_needs_changed_with_versions() -> None:
    mixed = model(window(5, 256) + full(1, first=5))
    layouts = {version: cache_layout(mixed, settings(version)) for version in ((0, 13, 0), (0, 17, 0), (0, 20, 0))}
    page = 16 * 512
    needed = [needed_bytes(layout, settings(version), 2_048) for version, layout in layouts.items()]
    windows = (255 + 512 + 15) // 16 + 1
    assert needed == [(5 * windows + 128) * page, windows * page, (5 * windows + 128) * page]


def test_the_check_takes_the_null_block_off_since_0_29() -> None:
    exactly = 4 * 128 * 16 * 512
    starts = [cache_figures(model(full(4)), settings(version), exactly).starts for version in ((0, 28, 0), (0, 29, 0))]
    assert starts == [True, False]


def test_the_longest_request_that_fits_is_the_engines() -> None:
    # 0.32.0 said 1,408 tokens for 3 MiB of the first test's model.
    figures = cache_figures(model(full(4)), settings((0, 32, 0), device="cpu"), 3 * MIB)
    assert not figures.starts
    assert figures.longest_request_tokens == 1_408
    assert cache_figures(model(full(4)), settings(), 0).longest_request_tokens == 0


def test_stages_share_layers_and_the_fullest_limits_the_blocks() -> None:
    layout = cache_layout(model(full(5)), settings(pipeline_parallel=2))
    assert layout.stage_block_bytes == (3 * 16 * 512, 2 * 16 * 512)
    assert cache_figures(model(full(5)), settings(pipeline_parallel=2), 3 * 16 * 512 * 100).blocks == 100


@pytest.mark.parametrize(("version", "stages"), [((0, 13, 0), 1), ((0, 14, 0), 2), ((0, 16, 0), 2), ((0, 17, 0), 1)])
def test_some_versions_compare_all_stages_with_one_cards_memory(version: tuple[int, ...], stages: int) -> None:
    two = settings(version, pipeline_parallel=2)
    layout = cache_layout(model(full(4)), two)
    assert needed_bytes(layout, two, 2_048) == stages * 2 * 128 * 16 * 512
    figures = cache_figures(model(full(4)), two, 2 * 130 * 16 * 512)
    assert figures.starts is (stages == 1)


def test_a_drafters_layers_take_part_of_every_block() -> None:
    drafted = cache_layout(model(full(32)), settings(draft_layers=1))
    assert drafted.largest_block_bytes == 33 * 16 * 512


def test_blocks_for_full_requests_include_the_one_that_is_held_back() -> None:
    layout = cache_layout(model(full(4)), settings())
    size = layout.largest_block_bytes
    assert bytes_for_requests(layout, 3, 2_048) == (3 * 128 + 1) * size
    assert cache_figures(model(full(4)), settings(), bytes_for_requests(layout, 1, 2_048)).starts
    assert bytes_for_requests(cache_layout(model(()), settings()), 3, 2_048) == 0


def test_a_model_without_a_cache_has_no_tokens() -> None:
    figures = cache_figures(model(()), settings(), 8 * MIB)
    assert (figures.tokens, figures.needed_bytes, figures.starts) == (0, 0, True)


def test_a_family_without_a_rule_is_refused() -> None:
    with pytest.raises(UnknownArchitecture, match="deepseek_v4"):
        cache_layout(model(full(1), architecture="deepseek_v4"), settings())


def test_keys_of_an_indexer_beside_heads_are_16_bit_and_whole_on_every_card() -> None:
    # MiniMax M3: 4 heads of 128 and an index key of 128 in blocks of 128 (vllm/models/minimax_m3).
    layers = tuple(
        AttentionLayer(heads, 128, value, is_latent=not value, layer=number)
        for number in range(3)
        for heads, value in ((4, 128), (1, 0))
    )
    for ranks, token in ((1, 2_048 + 256), (4, 512 + 256)):
        layout = cache_layout(model(layers), settings(tensor_parallel=ranks))
        assert layout.largest_block_bytes == 3 * 128 * token
        assert len(layout.groups) == 1 and layout.attention_block_tokens == 128


@pytest.mark.parametrize(
    ("version", "cache_type", "row"),
    [
        ((0, 11, 0), "auto", 656), ((0, 11, 2), "auto", 1_152), ((0, 11, 2), "fp8", 656), ((0, 32, 0), "fp8_e4m3", 656),
        ((0, 32, 0), "bfloat16", 1_152),
    ],
)  # fmt: skip
def test_latent_rows_with_an_indexer_are_packed_where_fp8_is_asked_for(
    version: tuple[int, ...], cache_type: str, row: int
) -> None:
    pair = (
        AttentionLayer(1, 576, 0, is_latent=True, layer=0),
        AttentionLayer(1, 128, 0, is_latent=True, layer=0),
    )
    indexed = cache_layout(model(pair), settings(version, cache_dtype=cache_type))
    assert indexed.largest_block_bytes == 64 * (row + 132)
    plain = cache_layout(model(pair[:1]), settings(version, cache_dtype="fp8"))
    assert plain.largest_block_bytes == 64 * 576
