"""Mean field on one problem: what a backend has to do, in NumPy and by the compiled core.

V variables, R regions, N models side by side. Distributions are flat, float64 [sum of cardinalities], variable after
variable. With q_r the product of the q_i of the variables in region r,

    F(q) = sum_r <q_r, theta_r> + eps sum_i H(q_i)                                                     (mean field)
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from blendfield.backends.protocol import FloatArray, IntArray, RealArray
from blendfield.graph import RegionGraph, colour_classes

BoolArray = npt.NDArray[np.bool_]

ROUNDING = 1e-9
"""forbidden masses are the same within this share"""


@dataclass(frozen=True)
class FieldProgram:
    """What is compiled."""

    graph: RegionGraph
    tables: RealArray
    """float [table layout], finite or -inf"""
    epsilon: float
    classes: IntArray
    """int32 [V]: variables of a class share no region; a sweep updates class after class"""
    models: IntArray
    """int32 [V]: model of each variable"""
    num_models: int


class MeanField(Protocol):
    """Distributions start uniform."""

    def set(self, distributions: FloatArray) -> None:
        """Replace the distributions."""

    def distributions(self) -> FloatArray:
        """float64 [sum of cardinalities]"""
        ...

    def sweep(self, active: BoolArray) -> FloatArray:
        """Update the variables of the `active` models, bool [N], once: q_i = argmax F, so F never falls. Returns the
        largest change of a probability, float64 [N].

        With m_i(y_i) = sum_{r with i} E_{q_{r without i}} theta_r(y_i, .), q_i = softmax(m_i / eps); at eps = 0 all on
        the best label: the present one if it is among the best, else the lowest. Only labels with the least
        probability of a forbidden entry are considered.
        """
        ...

    def value(self) -> tuple[FloatArray, FloatArray]:
        """(F without forbidden entries, probability of forbidden entries summed over regions), float64 [N] each."""
        ...

    def beliefs(self) -> RealArray:
        """float [table layout]: q_r of every region."""
        ...


def variable_classes(graph: RegionGraph) -> IntArray:
    """int32 [V]: a colouring in which no two variables of a class share a region."""
    larger = np.repeat(graph.region_orders > 1, graph.region_orders)
    parents = np.repeat(np.arange(graph.num_regions, dtype=np.int32), graph.region_orders)[larger]
    children = graph.single_regions[graph.region_variables[larger]]
    order = np.lexsort((children, parents))
    classes = colour_classes(graph, parents[order], children[order])[graph.single_regions]
    return np.maximum(classes, 0)


def compile_mean_field(backend: str, program: FieldProgram, threads: int | None) -> MeanField:
    """By the compiled core where it is there, unless the backend is "reference"."""
    if backend == "reference" or importlib.util.find_spec("blendfield._core") is None:
        return ReferenceMeanField(program)
    return CompiledMeanField(program, threads)


class ReferenceMeanField:
    """One variable at a time, one region at a time."""

    def __init__(self, program: FieldProgram) -> None:
        graph = program.graph
        self.program = program
        offsets, tables = graph.table_offsets, program.tables
        self.tables = [
            tables[offsets[r] : offsets[r + 1]].reshape(graph.shape(r)).astype(np.float64)
            for r in range(graph.num_regions)
        ]
        self.regions = list(graph.regions)
        self.regions_of: list[list[int]] = [[] for _ in range(graph.num_variables)]
        for r, region in enumerate(self.regions):
            for variable in region:
                self.regions_of[variable].append(r)
        self.q = [np.full(int(n), 1.0 / int(n)) for n in graph.cardinalities]

    def set(self, distributions: FloatArray) -> None:
        ends = np.cumsum(self.program.graph.cardinalities)
        self.q = [part.copy() for part in np.split(distributions, ends)[: len(self.q)]]

    def distributions(self) -> FloatArray:
        return np.concatenate([np.zeros(0), *self.q])

    def _product(self, region: int, free: int | None = None) -> FloatArray:
        """The product of the q_i of a region, with ones for variable `free`, in the region's shape."""
        scope = self.regions[region]
        product = np.ones((1,) * len(scope))
        for axis, variable in enumerate(scope):
            shape = [1] * len(scope)
            shape[axis] = -1
            q = self.q[variable]
            product = product * (np.ones_like(q) if variable == free else q).reshape(shape)
        return product

    def _expectation(self, region: int, variable: int) -> tuple[FloatArray, FloatArray]:
        """(expected table, probability of forbidden entries), float64 [labels of the variable] each."""
        table, product = self.tables[region], self._product(region, variable)
        others = tuple(a for a, i in enumerate(self.regions[region]) if i != variable)
        barred = np.isneginf(table)
        return (product * np.where(barred, 0.0, table)).sum(axis=others), (product * barred).sum(axis=others)

    def sweep(self, active: BoolArray) -> FloatArray:
        change: FloatArray = np.zeros(self.program.num_models)
        for variable in np.argsort(self.program.classes, kind="stable").tolist():
            model = self.program.models[variable]
            if active[model]:
                new = self._best(variable)
                change[model] = max(change[model], float(np.abs(new - self.q[variable]).max()))
                self.q[variable] = new
        return change

    def _best(self, variable: int) -> FloatArray:
        terms = [self._expectation(region, variable) for region in self.regions_of[variable]]
        expected = np.sum([term[0] for term in terms], axis=0)
        forbidden = np.sum([term[1] for term in terms], axis=0)
        expected[forbidden > forbidden.min() * (1 + ROUNDING)] = -np.inf
        if self.program.epsilon > 0:
            weights: FloatArray = np.exp((expected - expected.max()) / self.program.epsilon)
            return np.asarray(weights / weights.sum())
        now = int(self.q[variable].argmax())
        if self.q[variable][now] != 1.0 or expected[now] != expected.max():
            now = int(expected.argmax())
        chosen: FloatArray = np.zeros_like(expected)
        chosen[now] = 1.0
        return chosen

    def value(self) -> tuple[FloatArray, FloatArray]:
        value: FloatArray = np.zeros(self.program.num_models)
        mass: FloatArray = np.zeros(self.program.num_models)
        for region, table in enumerate(self.tables):
            model, barred = self.program.models[self.regions[region][0]], np.isneginf(table)
            product = self._product(region)
            value[model] += (product * np.where(barred, 0.0, table)).sum()
            mass[model] += (product * barred).sum()
        for variable, q in enumerate(self.q):
            positive = q[q > 0]
            value[self.program.models[variable]] -= self.program.epsilon * (positive * np.log(positive)).sum()
        return value, mass

    def beliefs(self) -> RealArray:
        parts = [self._product(region).ravel() for region in range(len(self.regions))]
        return cast(RealArray, np.concatenate([np.zeros(0), *parts]).astype(self.program.tables.dtype))


class CompiledMeanField:
    """The work is done by `_core.MeanField64` or `_core.MeanField32`."""

    def __init__(self, program: FieldProgram, threads: int | None) -> None:
        from blendfield import _core

        graph = program.graph
        self.tables = np.ascontiguousarray(program.tables)
        compiled: Any = _core.MeanField64 if self.tables.dtype == np.float64 else _core.MeanField32
        self._core: Any = compiled(
            graph.cardinalities,
            graph.region_offsets,
            graph.region_variables,
            graph.table_offsets,
            self.tables,
            float(program.epsilon),
            np.ascontiguousarray(program.classes, dtype=np.int32),
            np.ascontiguousarray(program.models, dtype=np.int32),
            program.num_models,
            threads or 0,
        )
        self.distributions = self._core.distributions
        self.value = self._core.value

    def set(self, distributions: FloatArray) -> None:
        self._core.set(np.ascontiguousarray(distributions, dtype=np.float64))

    def sweep(self, active: BoolArray) -> FloatArray:
        change: FloatArray = self._core.sweep(np.ascontiguousarray(active).view(np.uint8))
        return change

    def beliefs(self) -> RealArray:
        beliefs: RealArray = np.empty_like(self.tables)
        self._core.beliefs(beliefs)
        return beliefs
