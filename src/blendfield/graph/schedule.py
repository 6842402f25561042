"""Which regions may send their messages at the same time, and in which order.

Region r sends to all its parents at once. Two senders may do so together exactly when {r} + P(r) and {s} + P(s) do
not meet; otherwise they conflict. All functions take the edges after relinking, int32 [E'] each, sorted by
(parent, child).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield import _core
from blendfield.graph.parsing import Int32Array, core_faults
from blendfield.graph.region_graph import RegionGraph


def colour_classes(graph: RegionGraph, edge_parents: npt.NDArray[Any], edge_children: npt.NDArray[Any]) -> Int32Array:
    """Class of every region that has parents, -1 for those that send nothing, int32 [R].

    Greedy in breadth-first order of the conflict graph, so that a bipartite one (chains, trees, grids with four
    neighbours) gets two classes. Classes are numbered by increasing number of edges to parents: the largest is last.
    """
    with core_faults():
        return _core.colour_classes(graph.num_regions, _int32(edge_parents), _int32(edge_children))


def forest_classes(
    graph: RegionGraph, edge_parents: npt.NDArray[Any], edge_children: npt.NDArray[Any]
) -> Int32Array | None:
    """Class of every region that has parents, -1 for the others, int32 [R]; None when the edges close a cycle.

    Running classes 0 .. D-1 is an exact upward pass (leaves first), D-2 .. 0 then the downward pass. Roots lie near
    the centres of the trees, which makes D about half the longest path.
    """
    with core_faults():
        return _core.forest_classes(graph.num_regions, _int32(edge_parents), _int32(edge_children))


def components(
    graph: RegionGraph, edge_parents: npt.NDArray[Any], edge_children: npt.NDArray[Any]
) -> tuple[Int32Array, int]:
    """(connected component of every region int32 [R], number of components), numbered by first region."""
    with core_faults():
        return _core.components(graph.num_regions, _int32(edge_parents), _int32(edge_children))


def _int32(edges: npt.NDArray[Any]) -> Int32Array:
    return np.ascontiguousarray(edges, dtype=np.int32)
