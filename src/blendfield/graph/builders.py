"""Region graphs of common shapes.

All pairwise builders give the pairs as regions, so that region `graph.num_given + i` is the single variable i.
`labels` is the number of labels: one integer for all variables, or an array with one entry per variable.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield import _core
from blendfield.errors import GraphError
from blendfield.graph.parsing import (
    MAX_COUNT,
    Int32Array,
    core_faults,
    offsets_of,
    parse_integers,
    parse_regions,
)
from blendfield.graph.ragged import Ragged
from blendfield.graph.region_graph import RegionGraph, Rows

Labels = int | Sequence[int] | npt.NDArray[Any]


def chain_graph(length: int, labels: Labels) -> RegionGraph:
    """Variables 0 .. length-1, region t is the pair (t, t + 1)."""
    length = _count(length, "length", smallest=0)
    first = np.arange(max(length - 1, 0), dtype=np.int32)
    return RegionGraph(_cardinalities(labels, (length,)), np.stack([first, first + 1], axis=1))


def tree_graph(parents: Sequence[int] | npt.NDArray[Any], labels: Labels) -> RegionGraph:
    """One variable per entry of `parents` [V], joined to the variable named there; -1 for a root. Any number of roots.

    The regions are the pairs (parents[i], i) in increasing i.
    """
    above = parse_integers(parents, "parents")
    count = len(above)
    outside = np.flatnonzero((above < -1) | (above >= count))
    if outside.size:
        variable = outside[0]
        raise GraphError(
            f"parent of variable {variable}: expected -1 or a variable below {count}, got {above[variable]}"
        )
    below = np.flatnonzero(above >= 0).astype(np.int32)
    # Each non-root brings one pair; without cycles, each pair joins two components.
    if _core.components(count, above[below], below)[1] != count - len(below):
        raise GraphError("parents: expected a forest, but following the parents leads around a cycle")
    return RegionGraph(_cardinalities(labels, (count,)), np.stack([above[below], below], axis=1))


def grid_graph(shape: Sequence[int], labels: Labels, neighbours: int = 4) -> RegionGraph:
    """Variable `row * width + column` for every pixel of a [height, width] grid, and pairs of neighbouring pixels.

    The regions are the pairs to the right, then downwards, and with 8 neighbours the two diagonals; each kind in
    reading order, each pair the upper (or left) pixel first. `labels` may have the grid's shape.
    """
    if not isinstance(shape, Sequence) or isinstance(shape, str) or len(shape) != 2:
        raise GraphError(f"shape: expected (height, width), got {_describe(shape)}")
    height, width = (_count(size, "shape", smallest=0) for size in shape)
    if height * width > MAX_COUNT:
        raise GraphError(f"shape: expected at most 2^31 - 1 pixels, got {height * width}")
    cardinalities = _cardinalities(labels, (height, width))
    pixel = np.arange(height * width, dtype=np.int32).reshape(height, width)
    directions = [(pixel[:, :-1], pixel[:, 1:]), (pixel[:-1], pixel[1:])]
    if neighbours == 8:
        directions += [(pixel[:-1, :-1], pixel[1:, 1:]), (pixel[:-1, 1:], pixel[1:, :-1])]
    elif neighbours != 4:
        raise GraphError(f"neighbours: expected 4 or 8, got {_describe(neighbours)}")
    return RegionGraph(cardinalities, [np.stack([a.ravel(), b.ravel()], axis=1) for a, b in directions])


def superpixel_graph(label_map: npt.NDArray[Any], labels: Labels) -> RegionGraph:
    """One variable per superpixel, and a pair for every two that touch.

    label_map: the superpixel of every pixel (numbers from 0), [height, width] or [depth, height, width]. Pixels touch
    along the axes. The regions are the pairs, smaller number first, in lexicographic order. The number of variables is
    the largest number plus one, or the length of `labels`.
    """
    try:
        superpixel = np.asarray(label_map)
    except (ValueError, OverflowError):
        raise GraphError("label_map: expected an array of integers") from None
    if superpixel.dtype.kind not in "iu" or superpixel.ndim not in (2, 3):
        raise GraphError(
            f"label_map: expected integers in two or three dimensions, "
            f"got {superpixel.dtype} of shape {superpixel.shape}"
        )
    least, largest = (int(superpixel.min()), int(superpixel.max())) if superpixel.size else (0, -1)
    if least < 0 or largest >= MAX_COUNT:
        raise GraphError(f"label_map: expected superpixels from 0 to 2^31 - 2, got {least if least < 0 else largest}")
    has_length = isinstance(labels, Sequence) or (isinstance(labels, np.ndarray) and labels.ndim > 0)
    count = max(len(labels), largest + 1) if has_length else largest + 1  # type: ignore[arg-type]
    pairs = []
    for axis in range(superpixel.ndim):
        along = np.moveaxis(superpixel, axis, 0)
        before, after = along[:-1], along[1:]
        differs = before != after
        a, b = before[differs].astype(np.int64), after[differs].astype(np.int64)
        pairs.append(np.unique(np.minimum(a, b) * count + np.maximum(a, b)))
    code = np.unique(np.concatenate(pairs))
    return RegionGraph(_cardinalities(labels, (count,)), np.stack(np.divmod(code, max(count, 1)), axis=1))


def factor_graph(
    cardinalities: Sequence[int] | npt.NDArray[Any], scopes: Rows, edges: str | Rows = "hasse"
) -> tuple[RegionGraph, Int32Array]:
    """(graph, region of every factor int32 [number of scopes]) for a list of factors, some perhaps over the same set.

    Scopes with the same set of variables share one region, whose axes are those of the first of them; an empty scope
    (a constant) has region -1. cardinalities and edges: as for RegionGraph.
    """
    num_variables = len(parse_integers(cardinalities, "cardinalities"))
    offsets, variables = parse_regions(scopes)
    with core_faults():
        _core.check_regions(offsets, variables, num_variables, "factor", may_be_empty=True)
    orders = np.diff(offsets)
    first = _core.first_with_same_variables(offsets, variables)
    kept = (first == np.arange(len(first))) & (orders > 0)
    region_of_kept = np.cumsum(kept, dtype=np.int32) - 1
    region_of_factor = np.where(orders > 0, region_of_kept[first], -1).astype(np.int32)
    regions = Ragged(offsets_of(orders[kept]), variables[np.repeat(kept, orders)])
    return RegionGraph(cardinalities, regions, edges), region_of_factor


def graph_from_networkx(nx_graph: Any, labels: Labels | str) -> RegionGraph:
    """One variable per node, in the order of `nx_graph.nodes`; one pair per edge, in the order of `nx_graph.edges`.

    labels: number of labels, an array in the order of the nodes, or the name of a node attribute that holds it.
    Directions are ignored and parallel edges merged; loops are an error.
    """
    try:
        place = {node: k for k, node in enumerate(nx_graph.nodes)}
        ends = [(place[edge[0]], place[edge[1]]) for edge in nx_graph.edges]
    except (AttributeError, TypeError, KeyError, IndexError):
        raise GraphError(f"expected a networkx graph, got {type(nx_graph).__name__}") from None
    if isinstance(labels, str):
        missing = [node for node in place if labels not in nx_graph.nodes[node]]
        if missing:
            raise GraphError(f"node {missing[0]!r:.60} has no attribute {labels!r:.60} (its number of labels)")
        labels = [nx_graph.nodes[node][labels] for node in place]
    pairs = np.array(ends, np.int32).reshape(-1, 2)
    loops = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if loops.size:
        node = list(place)[pairs[loops[0], 0]]
        raise GraphError(f"node {node!r:.60} has a loop; expected edges between different nodes")
    if len(pairs):
        _, first = np.unique(np.sort(pairs, axis=1), axis=0, return_index=True)
        pairs = pairs[np.sort(first)]
    return RegionGraph(_cardinalities(labels, (len(place),)), pairs)


def _count(number: Any, what: str, smallest: int) -> int:
    try:
        if isinstance(number, bool | np.bool_):
            raise TypeError
        count = operator.index(number)
    except TypeError:
        raise GraphError(f"{what}: expected an integer, got {_describe(number)}") from None
    if not smallest <= count <= MAX_COUNT:
        raise GraphError(f"{what}: expected a number from {smallest} to 2^31 - 1, got {_describe(count)}")
    return count


def _describe(thing: Any) -> str:
    """Short, and safe for whatever it is (the digits of a huge integer, for one, cannot be printed)."""
    if isinstance(thing, str):
        return f"{thing!r:.60}"
    return str(thing) if isinstance(thing, int | float) and abs(thing) < 2**63 else type(thing).__name__


def _cardinalities(labels: Any, shape: tuple[int, ...]) -> Int32Array:
    """Number of labels of every variable, int32 [V], from one number or an array of the given (or flat) shape."""
    num_variables = int(np.prod(shape))
    if isinstance(labels, np.ndarray):
        if labels.ndim and labels.shape not in (shape, (num_variables,)):
            raise GraphError(f"labels: expected shape {shape} or ({num_variables},), got {labels.shape}")
        labels = labels.ravel() if labels.ndim else labels[()]
    if isinstance(labels, Sequence | np.ndarray):
        cardinalities = parse_integers(labels, "labels")
        if len(cardinalities) != num_variables:
            raise GraphError(f"labels: expected one entry per variable, {num_variables}; got {len(cardinalities)}")
        return cardinalities
    return np.full(num_variables, _count(labels, "labels", smallest=1), np.int32)
