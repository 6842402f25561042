"""What all results of one call share: beliefs and the rest, for N models side by side, read off when asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from blendfield.backends.protocol import FloatArray, LabelArray, Problem, RealArray
from blendfield.graph import RegionGraph
from blendfield.inference.certainty import certain_labels
from blendfield.inference.messages import Messages, model_messages
from blendfield.inference.program import Models

BoolArray = npt.NDArray[np.bool_]


class Solution(Protocol):
    """V variables and R regions of all models together."""

    def beliefs(self) -> RealArray:
        """float [table layout of the union]."""
        ...

    def messages(self, model: int) -> Messages:
        """The messages of one model; none for methods that send none."""
        ...

    def region_gaps(self) -> FloatArray:
        """float64 [R]: where the gap sits."""
        ...

    def certain(self) -> BoolArray:
        """bool [V]: labels that every best labelling has, as far as is known."""
        ...


class ProblemSolution:
    """A compiled problem in its last state."""

    def __init__(
        self,
        models: Models,
        problem: Problem,
        epsilon: float,
        smoothing: float | None,
        labels: LabelArray,
        score: FloatArray,
        dtype: str,
    ) -> None:
        """`smoothing`: temperature of the certificate's candidates at epsilon = 0.

        `labels`, int64 [V]: the best found, and their `score`, float64 [segments].
        """
        self.models = models
        self._problem: Problem | None = problem
        self._epsilon = epsilon
        self._smoothing = smoothing
        self._labels = labels
        self._score = score
        self._dtype = dtype
        self._beliefs: RealArray | None = None
        self._messages: RealArray | None = None
        self._region_gaps: FloatArray | None = None
        self._certain: BoolArray | None = None

    def beliefs(self) -> RealArray:
        if self._beliefs is None:
            self._beliefs = self._state().beliefs(self._epsilon)
        return self._beliefs

    def messages(self, model: int) -> Messages:
        if self._messages is None:
            self._messages = self._state().messages()
        return model_messages(self.models, model, self._messages)

    def region_gaps(self) -> FloatArray:
        if self._region_gaps is None:
            gaps = self._state().certificate(self._smoothing, region_gaps=True).region_gaps
            assert gaps is not None
            self._region_gaps = gaps
        return self._region_gaps

    def certain(self) -> BoolArray:
        if self._certain is None:
            if self._epsilon > 0:
                self._certain = np.zeros(self.models.program.graph.num_variables, dtype=bool)
            else:
                problem = self._state()
                upper = problem.value(0.0)
                self._certain = certain_labels(self.models, problem, upper, self._score, self._labels, self._dtype)
        return self._certain

    def _state(self) -> Problem:
        assert self._problem is not None
        return self._problem

    def __getstate__(self) -> dict[str, Any]:
        """Compiled problems do not travel: read everything off before."""
        self.beliefs()
        self.messages(0)
        self.region_gaps()
        self.certain()
        return {**self.__dict__, "_problem": None}


@dataclass(frozen=True)
class FinishedSolution:
    """Nothing is left to be read off."""

    graphs: list[RegionGraph]
    all_beliefs: RealArray
    gaps: FloatArray
    all_certain: BoolArray

    def beliefs(self) -> RealArray:
        return self.all_beliefs

    def messages(self, model: int) -> Messages:
        none: npt.NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        values: FloatArray = np.zeros(0)
        return Messages(self.graphs[model], none, none, values)

    def region_gaps(self) -> FloatArray:
        return self.gaps

    def certain(self) -> BoolArray:
        return self.all_certain
