"""Where ggml would place the tensors of a graph: sizes, users and lifetimes in, bytes of the compute buffer out.

The rules are those of ggml/src/ggml-alloc.c: inputs first, then every node in its order; the best fitting hole, else
the end; an operation that can work in place takes over a source of its own size that nothing else needs.
"""

from __future__ import annotations

from typing import NamedTuple

ALIGNMENT_BYTES = 128  # of a CUDA buffer; the processor's is smaller


class Node(NamedTuple):
    """One tensor; 0 bytes is an operation that writes elsewhere, such as into the cache."""

    size_bytes: int
    sources: tuple[int, ...]
    in_place: bool
    kept: bool


class Graph:
    """Tensors in the order in which they are computed; a tensor is known by its number.

    Views and reshapes are their source: name the source where one is used.
    """

    def __init__(self) -> None:
        self._nodes: list[Node] = []

    def _add(self, size_bytes: int, sources: tuple[int, ...], *, in_place: bool = False, kept: bool = False) -> int:
        aligned = -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        self._nodes.append(Node(aligned, sources, in_place, kept))
        return len(self._nodes) - 1

    def kept(self, size_bytes: int, *sources: int) -> int:
        """A tensor that stays to the end of the graph: an input of every layer, or one that nothing reads."""
        return self._add(size_bytes, sources, kept=True)

    def new(self, size_bytes: int, *sources: int) -> int:
        """The result of an operation that needs memory of its own."""
        return self._add(size_bytes, sources)

    def over(self, size_bytes: int, *sources: int) -> int:
        """The result of an operation that may work in place."""
        return self._add(size_bytes, sources, in_place=True)

    def read(self, *sources: int) -> None:
        """An operation whose result lies outside the compute buffer."""
        self._add(0, sources)

    def peak_bytes(self) -> int:
        """The highest address that is ever used."""
        users = [0] * len(self._nodes)
        for node in self._nodes:
            for source in node.sources:
                users[source] += 1
        space = _Space()
        places: dict[int, tuple[int, int]] = {}
        for number, node in enumerate(self._nodes):
            places[number] = self._place(node, users, places, space)
            for source in node.sources:
                users[source] -= 1
                if not users[source] and source in places and not self._nodes[source].kept:
                    space.free(*places.pop(source))
        return space.highest

    def _place(
        self, node: Node, users: list[int], places: dict[int, tuple[int, int]], space: _Space
    ) -> tuple[int, int]:
        """Offset and size of a node, in the place of a source where that is possible."""
        if node.in_place:
            for source in node.sources:
                alone = users[source] == 1 and not self._nodes[source].kept
                if alone and source in places and self._nodes[source].size_bytes == node.size_bytes:
                    return places.pop(source)
        return space.take(node.size_bytes), node.size_bytes


class _Space:
    """Free holes below the highest address, sorted: (offset, size); what lies above the last tensor is endless."""

    def __init__(self) -> None:
        self.highest = 0
        self._holes: list[tuple[int, int]] = []
        self._end = 0

    def take(self, size: int) -> int:
        """The offset of a new tensor: the last of the smallest holes that are large enough, else the end."""
        if not size:
            return self._end
        fitting = [hole for hole in self._holes if hole[1] >= size]
        if not fitting:
            offset = self._end
            self._end += size
            self.highest = max(self.highest, self._end)
            return offset
        offset, room = min(reversed(fitting), key=lambda hole: hole[1])
        self._holes.remove((offset, room))
        if room > size:
            self._holes.append((offset + size, room - size))
            self._holes.sort()
        return offset

    def free(self, offset: int, size: int) -> None:
        """Give a tensor's room back, joined with the holes beside it."""
        if not size:
            return
        before = next((hole for hole in self._holes if hole[0] + hole[1] == offset), None)
        after = next((hole for hole in self._holes if hole[0] == offset + size), None)
        if before:
            self._holes.remove(before)
            offset, size = before[0], size + before[1]
        if after:
            self._holes.remove(after)
            size += after[1]
        if offset + size == self._end:
            self._end = offset
        else:
            self._holes.append((offset, size))
            self._holes.sort()
