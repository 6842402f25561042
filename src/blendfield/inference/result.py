"""What `infer` returns."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from blendfield.backends.protocol import FloatArray, LabelArray, Problem, RealArray
from blendfield.graph import RegionGraph
from blendfield.inference.program import Models


class Tables(Sequence[RealArray]):
    """One array per region, in the region's axes as written; views of `flat`."""

    def __init__(self, graph: RegionGraph, flat: RealArray) -> None:
        self._graph = graph
        self.flat = flat
        """float [table layout]: all tables, region after region"""

    def __len__(self) -> int:
        return self._graph.num_regions

    @overload
    def __getitem__(self, region: int) -> RealArray: ...
    @overload
    def __getitem__(self, region: slice) -> list[RealArray]: ...
    def __getitem__(self, region: int | slice) -> RealArray | list[RealArray]:
        if isinstance(region, slice):
            return [self[r] for r in range(*region.indices(len(self)))]
        index = range(len(self))[region]
        offsets = self._graph.table_offsets
        return self.flat[int(offsets[index]) : int(offsets[index + 1])].reshape(self._graph.shape(index))

    def __repr__(self) -> str:
        return f"Tables({len(self)} regions, {len(self.flat)} entries, {self.flat.dtype})"


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


class Solution:
    """What the results of one call share: the problem in its last state, read off once and only when asked for."""

    def __init__(self, models: Models, problem: Problem, epsilon: float, smoothing: float | None) -> None:
        """`smoothing`: temperature of the certificate's candidates at epsilon = 0."""
        self.models = models
        self._problem: Problem | None = problem
        self._epsilon = epsilon
        self._beliefs: RealArray | None = None
        self._messages: RealArray | None = None
        self._region_gaps: FloatArray | None = None
        self._smoothing = smoothing

    def beliefs(self) -> RealArray:
        """float [table layout of the union]."""
        if self._beliefs is None:
            self._beliefs = self._state().beliefs(self._epsilon)
        return self._beliefs

    def messages(self) -> RealArray:
        """float [message layout of the union]."""
        if self._messages is None:
            self._messages = self._state().messages()
        return self._messages

    def region_gaps(self) -> FloatArray:
        """float64 [R of the union]."""
        if self._region_gaps is None:
            gaps = self._state().certificate(self._smoothing, region_gaps=True).region_gaps
            assert gaps is not None
            self._region_gaps = gaps
        return self._region_gaps

    def _state(self) -> Problem:
        assert self._problem is not None
        return self._problem

    def __getstate__(self) -> dict[str, Any]:
        """Compiled problems do not travel: read everything off before."""
        self.beliefs()
        self.messages()
        self.region_gaps()
        return {**self.__dict__, "_problem": None}


@dataclass(frozen=True, repr=False, eq=False)
class Result:
    """The outcome of `infer` for one model with V variables, R regions."""

    labels: LabelArray
    """int64 [V]: rounding and local search on the score, ties to the lowest label"""
    score: float
    """sum of the potentials of `labels`; -inf if no allowed labelling was found"""
    upper: float
    """F = sum_r eps c_r logsumexp(hat_r / (eps c_r)); not below the optimum where `certified`"""
    lower: float
    """certified dual value or score, whichever is greater; nan where neither is a bound"""
    gap: float
    """upper - lower, never negative"""
    certified: bool
    """lower <= optimum <= upper is certain (up to rounding)"""
    converged: bool
    """gap <= tolerance * max(1, |upper|); with negative counting numbers: consistent beliefs to that tolerance"""
    stop_reason: str
    """"converged", "max_iterations", "time_limit", "callback", "interrupted" or "stalled" (no progress any more)"""
    iterations: int
    """full sweeps over all classes"""
    history: dict[str, npt.NDArray[Any]]
    """equal-length arrays iteration, upper, lower, gap, seconds: one entry per certificate"""
    epsilon: float
    counting_numbers: FloatArray
    """float64 [R], as used"""
    graph: RegionGraph
    _solution: Solution
    _model: int

    @property
    def beliefs(self) -> Tables:
        """One array per region, b_r = softmax(hat_r / (eps c_r)), computed when asked for; `.flat` has them all."""
        models = self._solution.models
        offsets = models.program.graph.table_offsets
        first, last = models.region_starts[self._model : self._model + 2]
        return Tables(self.graph, self._solution.beliefs()[int(offsets[first]) : int(offsets[last])])

    @property
    def messages(self) -> Messages:
        """The messages over the relinked edges; accepted as `initial=`."""
        return model_messages(self._solution.models, self._model, self._solution.messages())

    def region_gaps(self) -> FloatArray:
        """float64 [R]: where the gap of the last messages sits, region by region (mathematics §6)."""
        first, last = self._solution.models.region_starts[self._model : self._model + 2]
        return self._solution.region_gaps()[int(first) : int(last)]

    def __repr__(self) -> str:
        bounds = f"upper={self.upper:.9g}, lower={self.lower:.9g}, gap={self.gap:.2g}"
        state = f"{self.stop_reason} after {self.iterations} sweep{'' if self.iterations == 1 else 's'}"
        certified = "" if self.certified else ", not certified"
        return f"Result({bounds}, {state}{certified}, score={self.score:.9g}, epsilon={self.epsilon:g})"
