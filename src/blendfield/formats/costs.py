"""What the formats of toulbar2 share: tables of costs, functions in words, and the bound that forbids."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from blendfield.formats import factors
from blendfield.formats.compressed import Path
from blendfield.formats.factors import Model, assemble
from blendfield.formats.numbers import FloatArray, IntArray
from blendfield.graph.parsing import offsets_of

NUM_PARAMETERS = {"<": 2, "<=": 2, ">": 2, ">=": 2, "=": 2, "disj": 3, "sdisj": 6}
"""Functions of two variables known by name, and how many parameters they take."""

Fail = Callable[[int, str], NoReturn]


def arithmetic(name: str, parameters: list[float], shape: tuple[int, ...], top: float) -> FloatArray:
    """Costs [labels of x, labels of y] of a function in words; labels count as the numbers 0, 1, ...

    Soft inequalities cost what is missing, and `top` beyond delta; `disj`: x >= y + cy or y >= x + cx, else w;
    `sdisj`: that, forced, unless x = xmax (cost wx) or y = ymax (cost wy), which they may not exceed.
    """
    x, y = np.arange(shape[0], dtype=np.float64)[:, None], np.arange(shape[1], dtype=np.float64)[None, :]
    if name == "disj":
        cx, cy, w = parameters
        return np.where((x >= y + cy) | (y >= x + cx), 0.0, w)
    if name == "sdisj":
        cx, cy, x_max, y_max, wx, wy = parameters
        apart = (x >= y + cy) | (y >= x + cx) | (x == x_max) | (y == y_max)
        allowed = (x <= x_max) & (y <= y_max) & apart
        return np.where(allowed, wx * (x == x_max) + wy * (y == y_max), top)
    constant, delta = parameters
    strict = 1.0 if name in "<>" else 0.0
    missing = y + constant + strict - x if name in (">", ">=") else x - constant + strict - y
    if name == "=":
        missing = np.abs(y + constant - x)
    return np.where(missing <= delta, np.maximum(missing, 0.0), top)


def sparse_table(tuples: FloatArray, shape: tuple[int, ...], default: float, fail: Fail) -> FloatArray:
    """Costs [shape] from rows (labels..., cost), float64 [n, order + 1]; `default` elsewhere.

    fail(k, expected) is called for field k, counted row by row.
    """
    order, width = len(shape), len(shape) + 1
    labels = tuples[:, :order]
    good = (labels >= 0) & (labels < np.array(shape)) & (labels == np.floor(labels))
    if not good.all():
        row, axis = divmod(int(good.argmin()), max(order, 1))
        fail(row * width + axis, f"a label from 0 to {shape[axis] - 1}")
    finite = np.isfinite(tuples[:, order])
    if not finite.all():
        fail(int(finite.argmin()) * width + order, "a cost")
    entry = np.ravel_multi_index(tuple(labels.T.astype(np.int64)), shape) if order else np.zeros(len(tuples), np.int64)
    table = np.full(shape, default).ravel()
    table[entry] = tuples[:, order]
    twice = np.flatnonzero(table[entry] != tuples[:, order])
    if twice.size:
        fail(int(twice[0]) * width + order, "the same cost for the same labels")
    return table.reshape(shape)


class CostModel:
    """Cost functions as they are read; then a model of scores = -costs."""

    def __init__(self, path: Path, cardinalities: IntArray, top: float) -> None:
        """`top`: labellings of this cost or more are forbidden."""
        self.path = path
        self.cardinalities = cardinalities
        self.top = top
        self._labels = cardinalities.tolist()
        self._scopes: list[list[int]] = []
        self._tables: list[FloatArray] = []
        self._entries = 0
        self._checked = 0

    def shape(self, scope: list[int], line_of: Callable[[], int]) -> tuple[int, ...]:
        """The shape of a table over `scope`, after making sure that it can be held."""
        shape = tuple([self._labels[i] for i in scope])
        size = math.prod(shape)
        if size >= factors.MAX_SPARSE_TABLE:
            factors.refuse_table(self.path, line_of(), size)
        if self._entries + size > self._checked:  # now and then: asking takes longer than filling a small table
            self._checked = self._entries + size + 2**20
            factors.require_entries(self.path, self._checked)
        return shape

    def add(self, scope: list[int], costs: FloatArray) -> None:
        self._scopes.append(scope)
        self._tables.append(costs)
        self._entries += costs.size

    def finish(self, edges: Any) -> Model:
        """Costs become scores; an entry is forbidden when it reaches `top` whatever the others cost."""
        least = [min(0.0, float(table.min())) for table in self._tables]
        bound = self.top - sum(least)
        offsets = offsets_of(np.array([len(scope) for scope in self._scopes], np.int64))
        variables = np.array([i for scope in self._scopes for i in scope], np.int64)
        tables = [np.where(t - low >= bound, -np.inf, -t).ravel() for t, low in zip(self._tables, least, strict=True)]
        flat = np.concatenate([np.zeros(0), *tables])
        return assemble(self.path, self.cardinalities, offsets, variables, flat, edges)
