"""Where tensors of a graph are placed: holes, work in place, what stays."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from llmops.core.memory.ggml_graph import ALIGNMENT_BYTES, Graph

A, B = 10 * ALIGNMENT_BYTES, 30 * ALIGNMENT_BYTES


def test_a_chain_needs_two_places() -> None:
    graph = Graph()
    state = graph.new(A)
    for _ in range(10):
        state = graph.new(A, state)
    assert graph.peak_bytes() == 2 * A


def test_an_operation_in_place_needs_none() -> None:
    graph = Graph()
    graph.over(A, graph.over(A, graph.new(A)))
    assert graph.peak_bytes() == A


def test_a_source_that_is_read_again_is_not_taken_over() -> None:
    graph = Graph()
    source = graph.new(A)
    graph.over(A, source)
    graph.read(source)
    assert graph.peak_bytes() == 2 * A


def test_kept_tensors_stay_and_are_not_taken_over() -> None:
    graph = Graph()
    kept = graph.kept(A)
    graph.over(A, kept)
    graph.new(A)
    assert graph.peak_bytes() == 3 * A


def test_a_small_tensor_goes_into_the_smallest_hole() -> None:
    graph = Graph()
    large, wall, small = graph.new(B), graph.new(A), graph.new(A)
    end = graph.new(A)
    graph.read(large, small)
    graph.read(graph.new(A), end, wall)
    assert graph.peak_bytes() == B + 3 * A


def test_neighbouring_holes_join() -> None:
    graph = Graph()
    first, second = graph.new(A), graph.new(A)
    end = graph.new(A)
    graph.read(first)
    graph.read(second)
    graph.read(graph.new(2 * A), end)
    assert graph.peak_bytes() == 3 * A


def test_sizes_are_aligned() -> None:
    graph = Graph()
    graph.new(1)
    assert graph.peak_bytes() == ALIGNMENT_BYTES


@given(st.lists(st.tuples(st.integers(0, 5_000), st.booleans(), st.lists(st.integers(0, 8), max_size=3)), max_size=30))
def test_the_peak_is_between_the_largest_tensor_and_all_of_them(
    nodes: list[tuple[int, bool, list[int]]],
) -> None:
    graph = Graph()
    sizes: list[int] = []
    for number, (size, in_place, back) in enumerate(nodes):
        sources = {number - 1 - step for step in back if step < number}
        (graph.over if in_place else graph.new)(size, *sources)
        sizes.append(-(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES)
    assert max(sizes, default=0) <= graph.peak_bytes() <= sum(sizes)
