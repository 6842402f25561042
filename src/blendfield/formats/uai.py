"""Models in the format of the UAI competitions, `.uai`. A table's last variable runs fastest."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from blendfield.formats.compressed import Path, write_text
from blendfield.formats.factors import Model, assemble, disassemble, first_fault, table_sizes
from blendfield.formats.numbers import FloatArray, IntArray, Numbers, power_text
from blendfield.graph import RegionGraph
from blendfield.graph.parsing import offsets_of


def read_uai(path: Path, edges: Any = "hasse") -> Model:
    """(graph, potentials) of a `.uai` file, MARKOV or BAYES; `.gz` and `.xz` are unpacked.

    potentials: one float64 array per given region, logarithms of the file's numbers, 0 becomes -inf. The regions are
    the scopes in the order of the file, axes as written there. Factors over the same variables share one region; a
    factor without variables is added to the first region's table. `edges`: as for RegionGraph.
    """
    numbers = Numbers(path)
    numbers.keyword("MARKOV or BAYES", b"MARKOV", b"BAYES")
    numbers.parse()
    count = numbers.integer("the number of variables")
    cardinalities = numbers.integers(count, "a number of labels", least=1)
    offsets, variables, places = _scopes(numbers, count)
    flat = _tables(numbers, cardinalities, offsets, variables, places)
    return assemble(path, cardinalities, offsets, variables, flat, edges)


def _scopes(numbers: Numbers, num_variables: int) -> tuple[IntArray, IntArray, IntArray]:
    """offsets [factors + 1], variables, and the place of each scope in the file [factors]."""
    count = numbers.integer("the number of factors")
    numbers.need(count, "the scopes of the factors")
    begin = position = numbers.position
    values, end = memoryview(numbers.values), len(numbers.values)  # type: ignore[arg-type]
    places = []
    for _ in range(count):
        order = values[position] if position < end else -1
        if not 0 <= order <= num_variables or order != int(order):
            numbers.fail(position, f"the number of variables of a factor, at most {num_variables}")
        places.append(position)
        position += int(order) + 1
    numbers.need(position - begin, "the scopes of the factors")
    place = np.array(places, np.int64)
    orders = numbers.values[place].astype(np.int64)
    is_variable = np.ones(position - begin, bool)
    is_variable[place - begin] = False
    found = numbers.values[begin:position]
    good = (found >= 0) & (found < num_variables) & (found == np.floor(found))
    numbers.check(found, good | ~is_variable, begin, f"a variable from 0 to {num_variables - 1}")
    numbers.position = position
    offsets, variables = offsets_of(orders), found[is_variable].astype(np.int64)
    if fault := first_fault(offsets, variables):
        numbers.fail(places[fault[0]], f"{fault[1]} in factor {fault[0]}")
    return offsets, variables, place


def _tables(
    numbers: Numbers, cardinalities: IntArray, offsets: IntArray, variables: IntArray, places: IntArray
) -> FloatArray:
    """All tables of scores, one after the other; each is preceded by its number of entries."""
    sizes = table_sizes(cardinalities, offsets, variables)
    ends = np.cumsum(np.concatenate([[numbers.position], sizes + 1]))
    heads, ends = ends[:-1], ends[1:]
    within = int(np.searchsorted(heads, len(numbers.values)))  # factors whose size is in the file
    wrong = np.flatnonzero(numbers.values[heads[:within].astype(np.int64)] != sizes[:within])
    for factor in wrong[:1].tolist():
        numbers.fail(int(heads[factor]), f"{_size(cardinalities, variables, offsets, factor)}")
    for factor in np.flatnonzero(ends > len(numbers.values))[:1].tolist():
        left = max(0, len(numbers.values) - int(heads[factor]) - 1)
        size = _size(cardinalities, variables, offsets, factor)
        numbers.fail(len(numbers.values), f"{size}, of which {left} are there")
    is_entry = np.ones(len(numbers.values), bool)
    is_entry[: numbers.position] = False
    is_entry[heads.astype(np.int64)] = False
    numbers.position = int(ends[-1]) if len(ends) else numbers.position
    numbers.end()
    return numbers.logs(np.flatnonzero(is_entry), "a number >= 0")


def _size(cardinalities: IntArray, variables: IntArray, offsets: IntArray, factor: int) -> str:
    scope = variables[offsets[factor] : offsets[factor + 1]]
    return f"{math.prod(cardinalities[scope].tolist())} entries in the table of factor {factor}"


def write_uai(path: Path, graph: RegionGraph, potentials: Any) -> None:
    """Writes a `.uai` file (MARKOV): one factor per given region, exp(potentials), -inf as 0.

    potentials: any form that `infer` takes. The appended single-variable regions are written when one of them has a
    score. Nothing else of the graph is kept: reading gives the same regions, and edges by inclusion. With a name that
    ends in .gz or .xz it is compressed.
    """
    count, flat = disassemble(graph, potentials)
    lines = ["MARKOV", str(graph.num_variables), " ".join(map(str, graph.cardinalities.tolist())), str(count)]
    lines += [f"{len(region)} {' '.join(map(str, region))}" for region in graph.regions[:count]]
    entries = power_text(flat)
    for start, stop in pairwise(graph.table_offsets[: count + 1].tolist()):
        lines += [str(stop - start), " ".join(entries[start:stop])]
    write_text(path, ("\n".join(lines) + "\n").encode())
