"""Sums over chunks that come out the same, bit for bit, wherever the chunks are.

Chunks are the leaves of a binary tree: node (level, k) covers chunks k 2^level up to (k + 1) 2^level, and is the sum of
nodes (level - 1, 2k) and (level - 1, 2k + 1), in that order. Whoever has both adds them. A worker with neighbouring
chunks therefore sends a few sums instead of one answer per chunk, and the driver completes the same tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
Node = tuple[int, int]
"""(level, place)"""


def fold(parts: Mapping[Node, Any], count: int) -> dict[Node, Any]:
    """Add up all neighbours that are there; `count`: number of chunks of the whole set."""
    nodes = dict(parts)
    level, width = 0, count
    while width > 1:
        for left in sorted(place for at, place in nodes if at == level and place % 2 == 0):
            if left + 1 == width:  # without a neighbour
                nodes[level + 1, left // 2] = nodes.pop((level, left))
            elif (level, left + 1) in nodes:
                nodes[level + 1, left // 2] = nodes.pop((level, left)) + nodes.pop((level, left + 1))
        level, width = level + 1, (width + 1) // 2
    return nodes


def total(parts: Iterable[T]) -> T:
    """The sum of what all chunks answered, in chunk order. Added up as they come: few are kept at a time."""
    nodes: list[tuple[int, Any]] = []  # (level, sum) of neighbours, from left to right
    for part in parts:
        level, value = 0, part
        while nodes and nodes[-1][0] == level:
            level, value = level + 1, nodes.pop()[1] + value
        nodes.append((level, value))
    answer: T = nodes.pop()[1]
    while nodes:  # those without a neighbour join the sum on their left
        answer = nodes.pop()[1] + answer
    return answer


def whole(parts: Mapping[Node, Any], count: int) -> Any:
    """The sum over all chunks, from nodes that cover each of them once."""
    (answer,) = fold(parts, count).values()
    return answer
