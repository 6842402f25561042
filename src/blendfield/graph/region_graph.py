"""The region graph: which tables there are, and which of them must agree."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from blendfield import _core
from blendfield.errors import GraphError, TableSizeError
from blendfield.graph import storage
from blendfield.graph.parsing import (
    MAX_COUNT,
    Int32Array,
    Int64Array,
    core_faults,
    offsets_of,
    parse_edges,
    parse_integers,
    parse_regions,
)
from blendfield.graph.ragged import Ragged

MAX_TABLE_SIZE = 2**40  # entries of one region's table
MAX_TOTAL_SIZE = 2**62  # entries of all tables together

Array = TypeVar("Array", bound=npt.NDArray[Any])
Rows = Sequence[Sequence[int]] | Sequence[npt.NDArray[Any]] | npt.NDArray[Any]


class RegionGraph:
    """Variables, regions (tuples of variables) and edges from larger regions to smaller ones.

    cardinalities: number of labels of each variable, [V].
    regions: a sequence of tuples of variables, or an int array [n, k] with one region per row, or a list of such
        arrays. A region's table has one axis per variable, in the order written. Every variable that has no region of
        its own gets one, appended in increasing variable; all indices below count these too.
    edges: "hasse" (every region to the largest regions inside it), "variables" (every larger region to its
        single variables), or pairs (parent, child) of region indices.

    Attributes, all arrays read-only:
        num_variables V, num_regions R, num_given (regions given, before the appended ones), num_edges E
        cardinalities int32 [V]
        region_offsets int64 [R + 1], region_variables int32: region r has the variables
            region_variables[region_offsets[r] : region_offsets[r + 1]]
        edge_parents, edge_children int32 [E], sorted by (parent, child)
        table_sizes int64 [R], table_offsets int64 [R + 1]: entries of each table, and where it starts when all tables
            lie one after the other, each in C order
    """

    cardinalities: Int32Array
    region_offsets: Int64Array
    region_variables: Int32Array
    edge_parents: Int32Array
    edge_children: Int32Array
    table_sizes: Int64Array
    table_offsets: Int64Array
    num_given: int

    def __init__(
        self,
        cardinalities: Sequence[int] | npt.NDArray[Any],
        regions: Rows,
        edges: str | Rows = "hasse",
    ) -> None:
        sizes = parse_integers(cardinalities, "cardinalities").copy()  # not the caller's own array
        wrong = np.flatnonzero(sizes < 1)
        if wrong.size:
            raise GraphError(f"variable {wrong[0]}: expected at least one label, got {sizes[wrong[0]]}")
        offsets, variables = parse_regions(regions)
        with core_faults():
            _core.check_regions(offsets, variables, len(sizes))
        _refuse_duplicates(offsets, variables)
        num_given = len(offsets) - 1
        offsets, variables = _append_missing_singles(offsets, variables, len(sizes))
        parents, children = _make_edges(edges, offsets, variables, len(sizes))
        self._set(sizes, offsets, variables, parents, children, num_given)

    @classmethod
    def from_checked_arrays(
        cls,
        cardinalities: Int32Array,
        region_offsets: Int64Array,
        region_variables: Int32Array,
        edge_parents: Int32Array,
        edge_children: Int32Array,
        num_given: int,
    ) -> RegionGraph:
        """A graph that takes over arrays known to be valid and complete: nothing but the table sizes is checked."""
        graph = cls.__new__(cls)
        graph._set(cardinalities, region_offsets, region_variables, edge_parents, edge_children, num_given)
        return graph

    def _set(
        self,
        cardinalities: Int32Array,
        region_offsets: Int64Array,
        region_variables: Int32Array,
        edge_parents: Int32Array,
        edge_children: Int32Array,
        num_given: int,
    ) -> None:
        self.cardinalities = _read_only(cardinalities)
        self.region_offsets = _read_only(region_offsets)
        self.region_variables = _read_only(region_variables)
        self.edge_parents = _read_only(edge_parents)
        self.edge_children = _read_only(edge_children)
        self.num_given = num_given
        self.table_sizes = _read_only(_table_sizes(cardinalities, region_offsets, region_variables))
        self.table_offsets = _read_only(offsets_of(self.table_sizes))

    @property
    def num_variables(self) -> int:
        return len(self.cardinalities)

    @property
    def num_regions(self) -> int:
        return len(self.region_offsets) - 1

    @property
    def num_edges(self) -> int:
        return len(self.edge_parents)

    @property
    def regions(self) -> Ragged:
        """The variables of every region, in the order written."""
        return Ragged(self.region_offsets, self.region_variables)

    @cached_property
    def children(self) -> Ragged:
        """The children of every region, increasing."""
        counts = np.bincount(self.edge_parents, minlength=self.num_regions)
        return Ragged(_read_only(offsets_of(counts)), self.edge_children)

    @cached_property
    def parents(self) -> Ragged:
        """The parents of every region, increasing."""
        counts = np.bincount(self.edge_children, minlength=self.num_regions)
        by_child = np.argsort(self.edge_children, kind="stable")
        return Ragged(_read_only(offsets_of(counts)), _read_only(self.edge_parents[by_child]))

    @cached_property
    def region_orders(self) -> Int32Array:
        """Number of variables of every region, int32 [R]."""
        return _read_only(np.diff(self.region_offsets).astype(np.int32))

    @cached_property
    def single_regions(self) -> Int32Array:
        """Index of the single-variable region of every variable, int32 [V]."""
        singles = np.flatnonzero(self.region_orders == 1).astype(np.int32)
        regions = np.empty(self.num_variables, np.int32)
        regions[self.region_variables[self.region_offsets[singles]]] = singles
        return _read_only(regions)

    def shape(self, region: int) -> tuple[int, ...]:
        """Shape of a region's table: the cardinalities of its variables, in the order written."""
        return tuple(self.cardinalities[list(self.regions[region])].tolist())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the graph to an .npz file, which is either complete or not there."""
        storage.save(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> RegionGraph:
        """Reads a graph written by `save`; FileFormatError when the file is anything else."""
        return storage.load(path)

    def __repr__(self) -> str:
        return f"RegionGraph({self.num_variables} variables, {self.num_regions} regions, {self.num_edges} edges)"

    def __reduce__(self) -> tuple[Any, ...]:
        arrays = (self.region_offsets, self.region_variables, self.edge_parents, self.edge_children)
        return RegionGraph.from_checked_arrays, (self.cardinalities, *arrays, self.num_given)


def _read_only(array: Array) -> Array:
    array.setflags(write=False)
    return array


def _refuse_duplicates(offsets: Int64Array, variables: Int32Array) -> None:
    first = _core.first_with_same_variables(offsets, variables)
    again = np.flatnonzero(first != np.arange(len(first), dtype=np.int32))
    if again.size:
        rows, region = Ragged(offsets, variables), int(again[0])
        raise GraphError(
            f"region {region} {rows[region]} has the same variables as region {first[region]} "
            f"{rows[int(first[region])]}; expected every set of variables once"
        )


def _append_missing_singles(
    offsets: Int64Array, variables: Int32Array, num_variables: int
) -> tuple[Int64Array, Int32Array]:
    single = np.diff(offsets) == 1
    is_missing = np.ones(num_variables, bool)
    is_missing[variables[offsets[:-1][single]]] = False
    missing = np.flatnonzero(is_missing).astype(np.int32)
    if len(single) + len(missing) > MAX_COUNT:
        raise GraphError(f"expected at most 2^31 - 1 regions, got {len(single) + len(missing)}")
    appended = offsets[-1] + np.arange(1, len(missing) + 1)
    return np.concatenate([offsets, appended]), np.concatenate([variables, missing])


def _make_edges(
    edges: Any, offsets: Int64Array, variables: Int32Array, num_variables: int
) -> tuple[Int32Array, Int32Array]:
    if isinstance(edges, str):
        if edges not in ("hasse", "variables"):
            raise GraphError(f"edges: expected 'hasse', 'variables' or pairs (parent, child), got {edges!r:.60}")
        make = _core.hasse_edges if edges == "hasse" else _core.variable_edges
        with core_faults():
            return make(offsets, variables, num_variables)
    parents, children = parse_edges(edges)
    with core_faults():
        return _core.checked_edges(offsets, variables, parents, children)


def _table_sizes(cardinalities: Int32Array, offsets: Int64Array, variables: Int32Array) -> Int64Array:
    if len(offsets) == 1:
        return np.zeros(0, np.int64)
    labels = cardinalities[variables]
    # First in floating point, which cannot overflow (at most 32 factors below 2^31).
    sizes = np.multiply.reduceat(labels, offsets[:-1], dtype=np.float64)
    too_large = np.flatnonzero(sizes > MAX_TABLE_SIZE)
    if too_large.size:
        region = int(too_large[0])
        row = slice(offsets[region], offsets[region + 1])
        raise TableSizeError(
            f"region {region} {tuple(variables[row].tolist())} has a table of {math.prod(labels[row].tolist())} "
            f"entries; expected at most 2^40"
        )
    if sizes.sum() > MAX_TOTAL_SIZE:
        raise TableSizeError(f"the tables have {sizes.sum():.3g} entries together; expected at most 2^62")
    return sizes.astype(np.int64)  # exact: integers up to 2^53
