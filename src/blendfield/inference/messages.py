"""The messages that `infer` returns and can start from."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield.backends.protocol import RealArray
from blendfield.graph import RegionGraph
from blendfield.inference.program import Models


class Messages:
    """The messages lambda of the relinked graph, E' edges; pass them (or the Result) as `initial=` to start from them.

    `messages[child, parent]` is the table sent from the child region to the parent, in the child's axes as written.
    """

    def __init__(
        self, graph: RegionGraph, edge_parents: npt.NDArray[Any], edge_children: npt.NDArray[Any], values: RealArray
    ) -> None:
        self.graph = graph
        self.edge_parents = edge_parents
        """int32 [E'], sorted by (parent, child)"""
        self.edge_children = edge_children
        """int32 [E']"""
        self.values = values
        """float [sum over edges of the child's table size]: edge after edge, in C order"""
        sizes = graph.table_sizes[edge_children]
        self._ends = np.cumsum(sizes, dtype=np.int64)

    @property
    def edges(self) -> list[tuple[int, int]]:
        """(child, parent) of every edge, in the order of `values`."""
        return list(zip(self.edge_children.tolist(), self.edge_parents.tolist(), strict=True))

    @property
    def keys(self) -> npt.NDArray[np.int64]:
        """int64 [E'], increasing: one number per edge, parent * num_regions + child."""
        keys: npt.NDArray[np.int64] = self.edge_parents.astype(np.int64) * self.graph.num_regions + self.edge_children
        return keys

    def __len__(self) -> int:
        return len(self.edge_parents)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self.edges)

    def __getitem__(self, edge: tuple[int, int]) -> RealArray:
        try:
            child, parent = (operator.index(region) for region in edge)
        except (TypeError, ValueError):
            raise KeyError(edge) from None
        first = int(np.searchsorted(self.edge_parents, parent, side="left"))
        last = int(np.searchsorted(self.edge_parents, parent, side="right"))
        place = first + int(np.searchsorted(self.edge_children[first:last], child))
        if place >= last or self.edge_children[place] != child:
            raise KeyError(edge)
        end = int(self._ends[place])
        return self.values[end - int(self.graph.table_sizes[child]) : end].reshape(self.graph.shape(child))

    def copy_from(self, other: Messages) -> None:
        """Take the values of `other`, messages of the same graph, on the edges both have (relinking may differ)."""
        if np.array_equal(self.keys, other.keys):
            self.values[:] = other.values
            return
        _, mine, theirs = np.intersect1d(self.keys, other.keys, assume_unique=True, return_indices=True)
        self.values[self._entries(mine)] = other.values[other._entries(theirs)]

    def _entries(self, edges: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """int64: the places in `values` of the tables of `edges`, one edge after the other."""
        sizes = self.graph.table_sizes[self.edge_children[edges]]
        within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        entries: npt.NDArray[np.int64] = np.repeat(self._ends[edges] - sizes, sizes) + within
        return entries

    def __repr__(self) -> str:
        return f"Messages({len(self)} edges, {len(self.values)} entries, {self.values.dtype})"


def model_messages(models: Models, model: int, flat: RealArray) -> Messages:
    """The messages of one model; the values are a view of `flat`, float [message layout of all models together]."""
    program = models.program
    start, stop = (int(r) for r in models.region_starts[model : model + 2])
    first, last = (int(e) for e in np.searchsorted(program.edge_parents, [start, stop]))
    ends = models.message_ends
    return Messages(
        models.graphs[model],
        program.edge_parents[first:last] - np.int32(start),
        program.edge_children[first:last] - np.int32(start),
        flat[int(ends[first]) : int(ends[last])],
    )
