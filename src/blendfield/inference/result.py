"""What `infer` returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex, overload

import numpy as np
import numpy.typing as npt

from blendfield.backends.protocol import FloatArray, LabelArray, RealArray
from blendfield.graph import RegionGraph
from blendfield.inference.messages import Messages
from blendfield.inference.solution import Solution

BoolArray = npt.NDArray[np.bool_]

INTEGRAL = 1e-6
"""a belief this close to 0 or 1 counts as such"""


class Tables(Sequence[RealArray]):
    """One array per region, in the region's axes as written; views of `flat`."""

    def __init__(self, graph: RegionGraph, flat: RealArray) -> None:
        self._graph = graph
        self.flat = flat
        """float [table layout]: all tables, region after region"""

    def __len__(self) -> int:
        return self._graph.num_regions

    @overload
    def __getitem__(self, region: SupportsIndex) -> RealArray: ...
    @overload
    def __getitem__(self, region: slice) -> list[RealArray]: ...
    def __getitem__(self, region: SupportsIndex | slice) -> RealArray | list[RealArray]:
        if isinstance(region, slice):
            return [self[r] for r in range(*region.indices(len(self)))]
        index = range(len(self))[region]
        offsets = self._graph.table_offsets
        return self.flat[int(offsets[index]) : int(offsets[index + 1])].reshape(self._graph.shape(index))

    def __repr__(self) -> str:
        return f"Tables({len(self)} regions, {len(self.flat)} entries, {self.flat.dtype})"


@dataclass(frozen=True)
class Part:
    """Where one model lies among all that were solved together."""

    model: int
    variables: slice
    regions: slice
    entries: slice
    """of the tables"""


@dataclass(frozen=True, repr=False, eq=False)
class Result:
    """The outcome of `infer` for one model with V variables, R regions."""

    labels: LabelArray
    """int64 [V]: rounding and local search on the score, ties to the lowest label"""
    score: float
    """sum of the potentials of `labels`; -inf if no allowed labelling was found"""
    upper: float
    """F = sum_r eps c_r logsumexp(hat_r / (eps c_r)); not below the optimum where `certified`. The value itself for
    exact inference, infinite for mean field.
    """
    lower: float
    """certified dual value or score, whichever is greater; nan where neither is a bound"""
    gap: float
    """upper - lower, never negative"""
    certified: bool
    """lower <= optimum <= upper is certain (up to rounding)"""
    converged: bool
    """gap <= tolerance * max(1, |upper|); with negative counting numbers: consistent beliefs to that tolerance; belief
    propagation and mean field: beliefs that no longer move by more than that
    """
    stop_reason: str
    """"converged", "max_iterations", "time_limit", "callback", "interrupted" or "stalled" (no progress any more)"""
    iterations: int
    """full sweeps over all classes; of exact inference 1"""
    history: dict[str, npt.NDArray[Any]]
    """equal-length arrays iteration, upper, lower, gap, seconds: one entry per certificate"""
    epsilon: float
    counting_numbers: FloatArray
    """float64 [R], as used; nan for exact inference, which needs none"""
    graph: RegionGraph
    _solution: Solution
    _part: Part

    @property
    def beliefs(self) -> Tables:
        """One array per region, computed when asked for; `.flat` has them all.

        b_r = softmax(hat_r / (eps c_r)) for the message passing methods, the product of the variables' distributions
        for mean field, the marginals for exact inference (at epsilon = 0 uniform on the best entries).
        """
        return Tables(self.graph, self._solution.beliefs()[self._part.entries])

    @property
    def messages(self) -> Messages:
        """The messages over the relinked edges; accepted as `initial=`. Empty for methods that send none."""
        return self._solution.messages(self._part.model)

    def region_gaps(self) -> FloatArray:
        """float64 [R]: where the gap of the last messages sits, region by region (mathematics §6)."""
        return self._solution.region_gaps()[self._part.regions]

    @property
    def certain(self) -> BoolArray:
        """bool [V], at epsilon = 0: every best labelling has this label of `labels`, which is proved by margin.

        Forcing any other label upon the variable would push the upper bound below `score`. A False proves nothing; at
        epsilon > 0 all are False.
        """
        return self._solution.certain()[self._part.variables]

    @property
    def integrality(self) -> float:
        """Share of the variables whose beliefs are all 0 or 1, within 1e-6; 1.0 without variables."""
        if self.graph.num_variables == 0:
            return 1.0
        regions = self.graph.single_regions
        offsets, beliefs = self.graph.table_offsets, self.beliefs.flat
        sizes = self.graph.table_sizes[regions]
        starts = np.cumsum(sizes) - sizes
        entries = np.repeat(offsets[regions] - starts, sizes) + np.arange(int(sizes.sum()))
        return float((np.maximum.reduceat(beliefs[entries], starts) >= 1.0 - INTEGRAL).mean())

    def __repr__(self) -> str:
        bounds = f"upper={self.upper:.9g}, lower={self.lower:.9g}, gap={self.gap:.2g}"
        state = f"{self.stop_reason} after {self.iterations} sweep{'' if self.iterations == 1 else 's'}"
        certified = "" if self.certified else ", not certified"
        return f"Result({bounds}, {state}{certified}, score={self.score:.9g}, epsilon={self.epsilon:g})"
