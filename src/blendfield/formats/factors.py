"""Between the factors of a file and the regions of a graph: equal scopes merged, constants kept."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NoReturn, cast

import numpy as np

from blendfield.errors import FileFormatError, GraphError
from blendfield.formats.compressed import Path
from blendfield.formats.numbers import FloatArray, IntArray
from blendfield.graph import RegionGraph, factor_graph
from blendfield.graph.parsing import MAX_ORDER, offsets_of
from blendfield.graph.ragged import Ragged
from blendfield.inference import memory
from blendfield.model.potentials import flatten_potentials

MAX_SPARSE_TABLE = 2**28
"""Entries of a table that a file need not list one by one: it can be far larger than the file."""

Model = tuple[RegionGraph, list[FloatArray | None]]


def table_sizes(cardinalities: IntArray, offsets: IntArray, variables: IntArray) -> FloatArray:
    """Entries of every factor's table, [factors], 1 for a constant; in floating point, which cannot overflow."""
    sizes = np.ones(len(offsets) - 1)
    filled = np.flatnonzero(np.diff(offsets) > 0)
    if filled.size:
        with np.errstate(over="ignore"):
            products = np.multiply.reduceat(cardinalities[variables].astype(np.float64), offsets[filled])
        sizes[filled] = products
    return sizes


def first_fault(offsets: IntArray, variables: IntArray) -> tuple[int, str] | None:
    """(factor, what was expected) for the first scope that no region can have; None if all are fine."""
    orders = np.diff(offsets)
    faults = [(int(k), f"at most {MAX_ORDER} variables") for k in np.flatnonzero(orders > MAX_ORDER)[:1]]
    factor = np.repeat(np.arange(len(orders)), orders)
    order = np.lexsort((variables, factor))
    same = (np.diff(factor[order]) == 0) & (np.diff(variables[order]) == 0)
    faults += [(int(factor[order[k]]), "different variables") for k in np.flatnonzero(same)[:1]]
    return min(faults, default=None)


def assemble(
    path: Path, cardinalities: IntArray, offsets: IntArray, variables: IntArray, flat: FloatArray, edges: Any
) -> Model:
    """The graph and one table per region, from factors with scopes variables[offsets[k] : offsets[k + 1]].

    flat: float64, their tables of scores one after the other, each in C order in the axes of its scope.

    Regions are the different scopes in the order of the file. Tables of equal scopes are added up, in the axes of the
    first. A constant, a factor without variables, is added to the first region's table, so that scores and values
    include it.
    """
    try:
        graph, region_of = factor_graph(cardinalities, Ragged(offsets, variables.astype(np.int32)), edges)
    except GraphError as fault:
        raise FileFormatError(f"{path}: {fault}") from fault
    sizes = table_sizes(cardinalities, offsets, variables).astype(np.int64)
    starts = offsets_of(sizes)
    constant = float(flat[starts[:-1][region_of < 0]].sum())
    first = np.zeros(len(sizes), bool)
    first[np.unique(region_of, return_index=True)[1]] = True
    first &= region_of >= 0
    tables = flat if first.all() else flat[np.repeat(first, sizes)]
    for factor in np.flatnonzero(~first & (region_of >= 0)).tolist():
        scope = variables[offsets[factor] : offsets[factor + 1]]
        region = int(region_of[factor])
        kept = graph.regions[region]
        table = flat[starts[factor] : starts[factor + 1]].reshape(cardinalities[scope])
        place = {variable: axis for axis, variable in enumerate(scope.tolist())}
        start = int(graph.table_offsets[region])
        tables[start : start + table.size] += table.transpose([place[i] for i in kept]).ravel()
    return graph, _with_constant(path, graph, _views(graph, tables), constant)


def _with_constant(path: Path, graph: RegionGraph, tables: list[Any], constant: float) -> list[FloatArray | None]:
    if constant == 0:
        return tables
    if graph.num_variables == 0:
        raise FileFormatError(f"{path}: expected a variable: a constant has no place in a model without any")
    if not tables:  # no regions were given: the first variable's own has it
        tables = [np.zeros(graph.shape(0)), *[None] * (graph.num_regions - 1)]
    tables[0] += constant
    return tables


def _views(graph: RegionGraph, flat: FloatArray) -> list[Any]:
    """One array per given region, views of `flat`; regions of the same shape in a row are cut at once."""
    count = graph.num_given
    if not count:
        return []
    orders, sizes = graph.region_orders[:count], graph.table_sizes[:count]
    differs = (np.diff(orders) != 0) | (np.diff(sizes) != 0)
    alike = np.flatnonzero(np.diff(orders) == 0)
    for axis in range(int(orders.max())):
        some = alike[orders[alike] > axis]
        labels = graph.cardinalities[graph.region_variables[graph.region_offsets[some] + axis]]
        after = graph.cardinalities[graph.region_variables[graph.region_offsets[some + 1] + axis]]
        differs[some] |= labels != after
    ends = [0, *(np.flatnonzero(differs) + 1).tolist(), count]
    views: list[Any] = []
    for start, stop in pairwise(ends):
        block = flat[graph.table_offsets[start] : graph.table_offsets[stop]]
        views.extend(block.reshape(stop - start, *graph.shape(start)))
    return views


def refuse_table(path: Path, line: int, size: float) -> NoReturn:
    raise FileFormatError(f"{path}:{line}: expected tables of fewer than 2^28 entries, got one of {int(size)}")


def require_entries(path: Path, entries: float) -> None:
    """NotEnoughMemoryError when tables of so many entries, and one copy, do not fit."""
    memory.require(int(16 * entries), f"{path}: its tables of {int(entries)} entries")


def disassemble(graph: RegionGraph, potentials: Any, all_variables: bool = False) -> tuple[int, FloatArray]:
    """(number of regions to write, their tables of scores one after the other), for writers.

    Those given, and all appended single-variable regions if one of them has a score, or, with `all_variables`, if one
    of the variables is in no region given.
    """
    flat = cast(FloatArray, flatten_potentials(graph, potentials))
    end = int(graph.table_offsets[graph.num_given])
    named = np.unique(graph.region_variables[: graph.region_offsets[graph.num_given]])
    if flat[end:].any() or (all_variables and len(named) < graph.num_variables):
        return graph.num_regions, flat
    return graph.num_given, flat[:end]
