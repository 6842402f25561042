"""Cutting one region graph into parts, for machines that each hold one of them (mathematics §7).

Every outer region goes to one part, and takes everything below it along. Regions below outer regions of several parts
are shared: they are what the cut costs.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield.errors import GraphError, MissingExtraError
from blendfield.graph.region_graph import RegionGraph

IntArray = npt.NDArray[np.int32]
LongArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Edges = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]


def partition(graph: RegionGraph, parts: int, positions: Any = None, method: str = "auto") -> IntArray:
    """int32 [V]: the part, from 0 to parts - 1, of every variable; parts hold about the same number of table entries.

    method
        "geometric": halved again and again across the longer axis of `positions`, float [V, d]; for grids, (row,
        column) of every pixel. "metis": as few cut pairs as METIS finds (needs `pip install 'blendfield[partition]'`).
        "order": runs of neighbouring indices, which are strips of rows on a grid. "auto": the first of these that can
        be had.
    """
    if method not in ("auto", "geometric", "metis", "order"):
        raise GraphError(f"method must be 'auto', 'geometric', 'metis' or 'order'; got {method!r:.60}")
    if isinstance(parts, bool) or not isinstance(parts, (int, np.integer)) or not 1 <= parts <= graph.num_variables:
        raise GraphError(f"parts must be from 1 to the number of variables, {graph.num_variables}; got {parts!r:.60}")
    weights = _work(graph)
    if method == "geometric" or (method == "auto" and positions is not None):
        places = np.asarray(positions, dtype=np.float64) if positions is not None else np.zeros(0)
        if places.ndim != 2 or len(places) != graph.num_variables or not np.isfinite(places).all():
            raise GraphError(
                f"positions must be finite numbers [{graph.num_variables} variables, d]; got {places.shape}"
            )
        return _bisected(places, weights, parts)
    if method == "metis" or (method == "auto" and importlib.util.find_spec("pymetis") is not None):
        return _metis(graph, weights, parts)
    return _runs(weights, np.arange(graph.num_variables), parts)


def _work(graph: RegionGraph) -> LongArray:
    """int64 [V]: table entries of every variable's regions, each shared equally among its variables."""
    share = graph.table_sizes // np.maximum(1, graph.region_orders) + 1
    of_region = np.repeat(share, graph.region_orders).astype(np.float64)
    return np.bincount(graph.region_variables, weights=of_region, minlength=graph.num_variables).astype(np.int64)


def _runs(weights: LongArray, order: LongArray, parts: int) -> IntArray:
    """Variables in this order, cut where the weight is."""
    before = np.cumsum(weights[order]) - weights[order] / 2.0
    found = np.zeros(len(weights), dtype=np.int32)
    found[order] = np.minimum(parts - 1, before * parts / max(1, weights.sum())).astype(np.int32)
    return found


def _bisected(positions: npt.NDArray[np.float64], weights: LongArray, parts: int) -> IntArray:
    found = np.zeros(len(weights), dtype=np.int32)
    todo = [(np.arange(len(weights)), 0, parts)]
    while todo:
        some, first, count = todo.pop()
        if count == 1 or len(some) == 0:
            found[some] = first
            continue
        places = positions[some]
        axis = int((places.max(axis=0) - places.min(axis=0)).argmax())
        order = some[np.lexsort((some, places[:, axis]))]
        low = count // 2
        reached = np.cumsum(weights[order])
        cut = int(np.searchsorted(reached, reached[-1] * low / count))
        todo += [(order[:cut], first, low), (order[cut:], first + low, count - low)]
    return found


def _metis(graph: RegionGraph, weights: LongArray, parts: int) -> IntArray:
    try:
        import pymetis
    except ImportError as fault:
        raise MissingExtraError("method 'metis' needs pymetis: pip install 'blendfield[partition]'") from fault
    from scipy.sparse import csr_array

    variables, size = graph.region_variables, graph.num_variables
    regions = np.repeat(np.arange(graph.num_regions), graph.region_orders)
    members = csr_array((np.ones(len(variables)), (regions, variables)), shape=(graph.num_regions, size))
    together = csr_array(members.T @ members)
    together.setdiag(0)
    together.eliminate_zeros()
    if parts == 1:
        return np.zeros(size, dtype=np.int32)
    _, found = pymetis.part_graph(
        parts,
        pymetis.CSRAdjacency(together.indptr.tolist(), together.indices.tolist()),
        vweights=np.maximum(1, weights).tolist(),
        eweights=together.data.astype(np.int64).tolist(),
    )
    return np.asarray(found, dtype=np.int32)


@dataclass(frozen=True)
class Cut:
    """Which regions each part has. R regions, P parts (those that have any)."""

    graph: RegionGraph
    members: list[LongArray]
    """int64 [regions of the part] for every part, increasing"""
    copies: LongArray
    """int64 [R]: how many parts have the region"""
    offsets: LongArray
    """int64 [R + 1]: where a shared region's table begins among those of all shared regions; no room for others"""

    @property
    def shared(self) -> BoolArray:
        """bool [R]"""
        return self.copies > 1

    def report(self) -> CutReport:
        """What the cut costs."""
        sizes = self.graph.table_sizes
        entries = [int(sizes[own].sum()) for own in self.members]
        return CutReport(
            parts=len(self.members),
            regions=self.graph.num_regions,
            shared_regions=int(self.shared.sum()),
            entries=entries,
            copied=sum(entries) - int(sizes.sum()),
            exchanged=8 * 2 * int((sizes * self.copies)[self.shared].sum()),
        )


@dataclass(frozen=True)
class CutReport:
    """What a cut costs."""

    parts: int
    regions: int
    shared_regions: int
    entries: list[int]
    """table entries of every part"""
    copied: int
    """table entries that are there more than once, beyond the first"""
    exchanged: int
    """bytes sent and received by all parts together in one exchange"""

    @property
    def imbalance(self) -> float:
        """The largest part over the mean: by how much the others wait."""
        return max(self.entries) * len(self.entries) / max(1, sum(self.entries))

    def __str__(self) -> str:
        share = self.copied / max(1, sum(self.entries) - self.copied)
        return (
            f"{self.parts} parts of {min(self.entries):,} to {max(self.entries):,} table entries (largest over mean "
            f"{self.imbalance:.3f}); {self.shared_regions:,} of {self.regions:,} regions shared, {100 * share:.3g} % "
            f"more entries; {self.exchanged:,} bytes per exchange"
        )


def cut(graph: RegionGraph, edges: Edges, part_of_variable: IntArray) -> Cut:
    """The parts of a graph whose messages go over `edges`, (parents, children) int32 [E'] each, relinked.

    An outer region goes to the part of most of its variables (of these the lowest); what is below it goes along, and so
    do the single-variable regions of its variables.
    """
    parents, children = edges
    parts = int(part_of_variable.max(initial=0)) + 1
    outer = np.ones(graph.num_regions, dtype=bool)
    outer[children] = False
    inside = np.zeros((graph.num_regions, parts), dtype=bool)
    regions = np.repeat(np.arange(graph.num_regions), graph.region_orders)
    votes = np.zeros((graph.num_regions, parts), dtype=np.int32)
    np.add.at(votes, (regions, part_of_variable[graph.region_variables]), 1)
    inside[outer, votes[outer].argmax(axis=1)] = True
    while True:
        below = inside.copy()
        np.logical_or.at(below, children, inside[parents])
        for part in range(parts):
            variables = np.unique(graph.region_variables[np.repeat(inside[:, part], graph.region_orders)])
            below[graph.single_regions[variables], part] = True
        if (below == inside).all():
            break
        inside = below
    members = [np.flatnonzero(inside[:, part]) for part in range(parts) if inside[:, part].any()]
    copies = inside.sum(axis=1).astype(np.int64)
    room = np.where(copies > 1, graph.table_sizes, 0)
    return Cut(graph, members, copies, np.concatenate([[0], np.cumsum(room)]))


def subgraph(graph: RegionGraph, edges: Edges, members: LongArray) -> RegionGraph:
    """The regions `members`, int64 [n], increasing, with the edges that go out from them; all variables that they have
    are numbered anew, in order. Every such variable's single region has to be among them.
    """
    orders = graph.region_orders[members]
    offsets = np.concatenate([[0], np.cumsum(orders)]).astype(np.int64)
    place = np.repeat(graph.region_offsets[members] - offsets[:-1], orders) + np.arange(offsets[-1])
    variables, numbers = np.unique(graph.region_variables[place], return_inverse=True)
    number = np.full(graph.num_regions, -1, dtype=np.int32)
    number[members] = np.arange(len(members), dtype=np.int32)
    parents, children = edges
    kept = number[parents] >= 0
    return RegionGraph.from_checked_arrays(
        np.ascontiguousarray(graph.cardinalities[variables]),
        offsets,
        numbers.reshape(-1).astype(np.int32),
        number[parents[kept]],
        number[children[kept]],
        len(members),
    )
