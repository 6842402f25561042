"""Models in the format of libDAI, `.fg`. A table's FIRST variable runs fastest; what is not listed is 0."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield.formats import factors
from blendfield.formats.compressed import Path, read_text, write_text
from blendfield.formats.factors import (
    Model,
    assemble,
    disassemble,
    first_fault,
    table_sizes,
)
from blendfield.formats.numbers import FloatArray, IntArray, Numbers, power_text
from blendfield.graph import RegionGraph
from blendfield.graph.parsing import offsets_of

_COMMENT = re.compile(rb"#[^\n]*")


def read_fg(path: Path, edges: Any = "hasse") -> Model:
    """(graph, potentials) of a libDAI factor graph, as `read_uai` gives them.

    Variables are 0 up to the largest one named; a number that no factor names becomes a variable with one label.
    """
    text = _COMMENT.sub(lambda comment: b" " * len(comment.group()), read_text(path))
    numbers = Numbers(path, text)
    numbers.parse()
    places, counts_at = _blocks(numbers)
    orders = numbers.values[places].astype(np.int64)
    offsets = offsets_of(orders)
    first = np.repeat(places + 1 - offsets[:-1], orders) + np.arange(offsets[-1])
    variables = _integers(numbers, first, "a variable", 0, len(numbers.values) + 1000)
    labels_at = first + np.repeat(orders, orders)
    cardinalities = _cardinalities(numbers, variables, labels_at)
    if fault := first_fault(offsets, variables):
        numbers.fail(int(places[fault[0]]), f"{fault[1]} in factor {fault[0]}")
    sizes = table_sizes(cardinalities, offsets, variables)
    for factor in np.flatnonzero(sizes >= factors.MAX_SPARSE_TABLE)[:1].tolist():
        factors.refuse_table(path, numbers.line(int(places[factor])), sizes[factor])
    factors.require_entries(path, sizes.sum())
    tables = _tables(numbers, places, counts_at, sizes.astype(np.int64))
    starts = offsets_of(sizes.astype(np.int64)).tolist()
    for factor in np.flatnonzero(orders > 1).tolist():
        shape = cardinalities[variables[offsets[factor] : offsets[factor + 1]]]
        table = tables[starts[factor] : starts[factor + 1]]
        table[:] = table.reshape(shape, order="F").ravel()
    return assemble(path, cardinalities, offsets, variables, tables, edges)


def _blocks(numbers: Numbers) -> tuple[IntArray, IntArray]:
    """Where the file has each factor's number of variables, and of entries: int64 [factors] both."""
    count = numbers.integer("the number of factors")
    values, end = memoryview(numbers.values), len(numbers.values)  # type: ignore[arg-type]
    position = numbers.position
    places, counts_at = [], []
    for factor in range(count):
        order = values[position] if position < end else -1
        if not 0 <= order <= end or order != int(order):
            numbers.fail(position, f"the number of variables of factor {factor}")
        places.append(position)
        position += 1 + 2 * int(order)
        entries = values[position] if position < end else -1
        if not 0 <= entries <= end or entries != int(entries):
            numbers.fail(position, f"the number of entries of factor {factor} that are not 0")
        counts_at.append(position)
        position += 1 + 2 * int(entries)
        if position > end:
            numbers.fail(end, f"{int(entries)} entries of factor {factor}, each an index and a number")
    numbers.position = position
    numbers.end()
    return np.array(places, np.int64), np.array(counts_at, np.int64)


def _integers(numbers: Numbers, places: IntArray, what: str, least: int, most: int) -> IntArray:
    """The numbers at `places` of the file."""
    values = numbers.values[places]
    good = (values >= least) & (values <= most) & (values == np.floor(values))
    if not good.all():
        numbers.fail(int(places[good.argmin()]), f"{what} from {least} to {most}")
    return values.astype(np.int64)


def _cardinalities(numbers: Numbers, variables: IntArray, places: IntArray) -> IntArray:
    """int64 [V]; every factor repeats those of its variables, at `places` of the file."""
    labels = _integers(numbers, places, "a number of labels", 1, 2**31 - 1)
    cardinalities = np.ones(int(variables.max(initial=-1)) + 1, np.int64)
    cardinalities[variables[::-1]] = labels[::-1]  # the first factor's count stays
    for k in np.flatnonzero(cardinalities[variables] != labels)[:1].tolist():
        before = cardinalities[variables[k]]
        numbers.fail(int(places[k]), f"{before} labels of variable {variables[k]} as before")
    return cardinalities


def _tables(numbers: Numbers, places: IntArray, counts_at: IntArray, sizes: IntArray) -> FloatArray:
    """float64, all tables of scores one after the other, the first variable fastest."""
    counts = numbers.values[counts_at].astype(np.int64)
    before = offsets_of(counts)[:-1]
    factor = np.repeat(np.arange(len(counts)), counts)
    pair = np.repeat(counts_at + 1 - 2 * before, counts) + 2 * np.arange(len(factor))
    index = numbers.values[pair]
    good: npt.NDArray[np.bool_] = (index >= 0) & (index < sizes[factor]) & (index == np.floor(index))
    if not good.all():
        k = int(good.argmin())
        numbers.fail(int(pair[k]), f"an index from 0 to {sizes[factor[k]] - 1}")
    entry = offsets_of(sizes)[factor] + index.astype(np.int64)
    order = np.argsort(entry, kind="stable")
    for k in np.flatnonzero(np.diff(entry[order]) == 0)[:1].tolist():
        numbers.fail(int(pair[order[k + 1]]), "every index of a table once")
    tables = np.full(int(sizes.sum()), -np.inf)
    tables[entry] = numbers.logs(pair + 1, "a number >= 0")
    return tables


def write_fg(path: Path, graph: RegionGraph, potentials: Any) -> None:
    """Writes a libDAI factor graph: one factor per given region, exp(potentials), as `write_uai` does.

    Variables are known by their factors only: when one has none, all single-variable regions are written.
    """
    count, flat = disassemble(graph, potentials, all_variables=True)
    entries = np.array(power_text(flat), object)
    lines = [str(count)]
    for region, (start, stop) in enumerate(pairwise(graph.table_offsets[: count + 1].tolist())):
        variables, shape = graph.regions[region], graph.shape(region)
        table = entries[start:stop].reshape(shape).ravel(order="F")
        listed = [f"{k} {text}" for k, text in enumerate(table.tolist()) if text != "0"]
        lines += ["", str(len(variables)), " ".join(map(str, variables)), " ".join(map(str, shape))]
        lines += [str(len(listed)), *listed]
    write_text(path, ("\n".join(lines) + "\n").encode())
