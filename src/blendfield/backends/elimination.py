"""Exact inference on one problem: what a backend has to do, in NumPy and by the compiled core.

V variables, R regions, N models side by side. Variables are summed out (at epsilon = 0 maximised) one after the other,
and the marginals come back in the opposite order; see core/inference/elimination.h for the formulas.
"""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np

from blendfield.backends.protocol import FloatArray, IntArray, LabelArray, RealArray
from blendfield.graph import RegionGraph

TIE = 1e-12
"""values this close, relative to 1 + |value|, are equal when labels are chosen"""
AMONG_BEST = 1e-9
"""and when the best labellings are counted"""


@dataclass(frozen=True)
class EliminationProgram:
    """What is compiled."""

    graph: RegionGraph
    tables: RealArray
    """float [table layout], finite or -inf"""
    epsilon: float
    models: IntArray
    """int32 [V]: model of each variable"""
    num_models: int


class Elimination(Protocol):
    """In this order: bytes, load, up until done, values and labels, down until done, beliefs."""

    @property
    def fits(self) -> bool:
        """Whether the tables can be addressed at all; else nothing but `bytes` may be asked for."""
        ...

    @property
    def bytes(self) -> float:
        """About how much the passes will hold, beliefs not included; infinite when too much to be counted."""
        ...

    @property
    def infeasible(self) -> int:
        """A region without allowed labels, -1: none is known; after the upward pass: there is none."""
        ...

    def load(self) -> None:
        """Allocate, and copy the tables."""

    def up(self, work: float) -> bool:
        """Go on with the upward pass for about `work` table entries; whether it is done."""
        ...

    def down(self, work: float) -> bool:
        """Go on with the downward pass."""
        ...

    def values(self) -> FloatArray:
        """float64 [N]: eps log sum exp(score / eps); the best score at eps = 0. After up, before down."""
        ...

    def labels(self) -> LabelArray:
        """int64 [V], after up, before down: from the last eliminated variable back, the label that is best for the sum
        (at eps = 0 the maximum) over the variables before it, given the labels of those after it. Ties to the lowest.
        """
        ...

    def beliefs(self) -> RealArray:
        """float [table layout]: marginals; at eps = 0 of a uniform choice among the best labellings. After down."""
        ...


def compile_elimination(backend: str, program: EliminationProgram, threads: int | None) -> Elimination:
    """By the compiled core where it is there, unless the backend is "reference"."""
    if backend == "reference" or importlib.util.find_spec("blendfield._core") is None:
        return ReferenceElimination(program)
    return CompiledElimination(program, threads)


class CompiledElimination:
    """The work is done by `_core.Elimination`, in float64 whatever the type of the tables."""

    def __init__(self, program: EliminationProgram, threads: int | None) -> None:
        from blendfield import _core

        graph = program.graph
        self._entries, self._dtype = len(program.tables), program.tables.dtype
        self._core: Any = _core.Elimination(
            graph.cardinalities,
            graph.region_offsets,
            graph.region_variables,
            graph.table_offsets,
            np.ascontiguousarray(program.tables, dtype=np.float64),
            np.ascontiguousarray(program.models, dtype=np.int32),
            program.num_models,
            float(program.epsilon),
            threads or 0,
        )
        self.load = self._core.load
        self.up = self._core.up
        self.down = self._core.down
        self.values = self._core.values
        self.labels = self._core.labels

    @property
    def fits(self) -> bool:
        return bool(self._core.fits)

    @property
    def bytes(self) -> float:
        return float(self._core.bytes)

    @property
    def infeasible(self) -> int:
        return int(self._core.infeasible)

    def beliefs(self) -> RealArray:
        beliefs = cast(RealArray, np.empty(self._entries, dtype=self._dtype))
        self._core.beliefs(beliefs)
        return beliefs


class ReferenceElimination:
    """NumPy, a table over all variables of a bucket at a time; the variable with the smallest table goes first."""

    def __init__(self, program: EliminationProgram) -> None:
        graph = program.graph
        self.program = program
        self.scale = program.epsilon if program.epsilon > 0 else 1.0
        self.regions = list(graph.regions)
        self.cardinalities = graph.cardinalities.tolist()
        offsets = graph.table_offsets
        tables = program.tables.astype(np.float64) / self.scale
        self.tables = [tables[offsets[r] : offsets[r + 1]].reshape(graph.shape(r)) for r in range(graph.num_regions)]
        self.infeasible = -1
        self._choose_order()

    def _choose_order(self) -> None:
        neighbours = [{i} for i in range(len(self.cardinalities))]
        for region in self.regions:
            for i in region:
                neighbours[i] |= set(region)
        self.order: list[int] = []
        self.scopes: list[list[int]] = []
        left = set(range(len(self.cardinalities)))
        entries = 0.0
        while left:
            size, variable = min((math.prod(self.cardinalities[k] for k in neighbours[i]), i) for i in left)
            left.remove(variable)
            scope = neighbours[variable] - {variable}
            for i in scope:
                neighbours[i] |= scope
                neighbours[i].discard(variable)
            self.order.append(variable)
            self.scopes.append(sorted(scope))
            entries += size
        self.bytes = 16.0 * entries
        self.fits = entries < 1e15

    def load(self) -> None:
        place = {variable: k for k, variable in enumerate(self.order)}
        self.inside: list[list[int]] = [[] for _ in self.order]
        """regions of each bucket"""
        for r, region in enumerate(self.regions):
            self.inside[min(place[i] for i in region)].append(r)
        self.parents = [min((place[i] for i in scope), default=-1) for scope in self.scopes]
        self.u: list[FloatArray] = [np.zeros(())] * len(self.order)
        self.w: list[FloatArray] = [np.zeros(())] * len(self.order)

    def _spread(self, table: FloatArray, scope: list[int], axes: list[int]) -> FloatArray:
        """A table over `scope` with axes for all of `axes`, of length 1 where it has none."""
        kept = [i for i in axes if i in scope]
        table = table.transpose([scope.index(i) for i in kept])
        return table.reshape([self.cardinalities[i] if i in scope else 1 for i in axes])

    def _joint(self, k: int) -> tuple[FloatArray, FloatArray]:
        """(T, log of the number of best completions) over (variable, scope) of bucket k."""
        axes = [self.order[k], *self.scopes[k]]
        total = np.zeros([self.cardinalities[i] for i in axes])
        counts = np.zeros_like(total)
        for r in self.inside[k]:
            total = total + self._spread(self.tables[r], list(self.regions[r]), axes)
        for c, parent in enumerate(self.parents):
            if parent == k:
                total = total + self._spread(self.u[c], self.scopes[c], axes)
                counts = counts + self._spread(self.w[c], self.scopes[c], axes)
        if self.program.epsilon > 0:
            return total, total
        best = total.max(axis=0)
        near = AMONG_BEST * (1.0 + np.where(np.isneginf(best), 0.0, np.abs(best)))
        return total, np.where(total >= best - near, counts, -np.inf)

    def up(self, work: float) -> bool:
        del work
        for k, variable in enumerate(self.order):
            total, weights = self._joint(k)
            self.w[k] = _log_sum(weights)
            self.u[k] = self.w[k] if self.program.epsilon > 0 else total.max(axis=0)
            if np.isneginf(self.u[k]).all() and self.infeasible < 0:
                self.infeasible = next(r for r, region in enumerate(self.regions) if variable in region)
        return True

    def values(self) -> FloatArray:
        values: FloatArray = np.zeros(self.program.num_models)
        for k, variable in enumerate(self.order):
            if self.parents[k] < 0:
                values[self.program.models[variable]] += self.scale * float(self.u[k])
        return values

    def labels(self) -> LabelArray:
        labels: LabelArray = np.zeros(len(self.order), dtype=np.int64)
        for k in range(len(self.order) - 1, -1, -1):
            given = self._joint(k)[0][(slice(None), *labels[self.scopes[k]])]
            labels[self.order[k]] = np.flatnonzero(given >= given.max() - TIE * (1 + abs(given.max())))[0]
        return labels

    def down(self, work: float) -> bool:
        del work
        self.marginals: list[FloatArray] = [np.zeros(())] * len(self.regions)
        mass: list[FloatArray] = [np.ones(())] * len(self.order)
        for k in range(len(self.order) - 1, -1, -1):
            axes = [self.order[k], *self.scopes[k]]
            weights = self._joint(k)[1]
            highest = weights.max(axis=0)
            given = np.exp(weights - np.where(np.isneginf(highest), 0.0, highest))
            sums = given.sum(axis=0)
            joint = given * np.divide(mass[k], sums, out=np.zeros_like(sums), where=sums > 0)
            for r in self.inside[k]:
                self.marginals[r] = _sum_onto(joint, axes, list(self.regions[r]))
            for c, parent in enumerate(self.parents):
                if parent == k:
                    mass[c] = _sum_onto(joint, axes, self.scopes[c])
        return True

    def beliefs(self) -> RealArray:
        parts = [np.zeros(0), *(marginal.ravel() for marginal in self.marginals)]
        return cast(RealArray, np.concatenate(parts).astype(self.program.tables.dtype))


def _log_sum(tables: FloatArray) -> FloatArray:
    """log sum exp over the first axis; -inf where all are."""
    highest = tables.max(axis=0)
    shift = np.where(np.isneginf(highest), 0.0, highest)
    with np.errstate(divide="ignore"):
        return np.asarray(shift + np.log(np.exp(tables - shift).sum(axis=0)))


def _sum_onto(joint: FloatArray, axes: list[int], scope: list[int]) -> FloatArray:
    """The marginal of `joint` over the variables `axes` on `scope`, axes in the order of `scope`."""
    kept = [i for i in axes if i in scope]
    marginal = joint.sum(axis=tuple(a for a, i in enumerate(axes) if i not in scope))
    return np.asarray(marginal.transpose([kept.index(i) for i in scope]))
