"""Soft marginalisation (mathematics §7): with h_2 = gamma/2 |lambda|^2 on the messages,

    minimise  F(w, lambda) + gamma/2 |lambda|^2,
    maximise  sum_r eps c_r H(b_r) + <b_r, l_r> - h1*(-z) - 1/(2 gamma) sum_{(p, r)} |marginal_r(b_p) - b_r|^2

over normalised beliefs that need not agree. Messages have no closed form: L-BFGS moves (w, lambda) together.
The beliefs at (w, lambda) are themselves a point of the dual, so every evaluation has its certificate:

    gap = h1(w) + h1*(-z) + w.z + 1/(2 gamma) |d/dlambda|^2,   d/dlambda_{r->p} = marginal_r(b_p) - b_r + gamma lambda .
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from blendfield.backends.protocol import FloatArray
from blendfield.engines.protocol import Engine, SoftEvaluation
from blendfield.learning.blend import BlendOptions, BlendState
from blendfield.learning.quasi_newton import QuasiNewton
from blendfield.learning.regularisers import Regulariser, divergence

LongArray = npt.NDArray[np.int64]


class SoftMarginalisation(QuasiNewton):
    """The iteration in (w, lambda); messages of all chunks one after the other behind the weights."""

    def __init__(self, engine: Engine, regulariser: Regulariser, options: BlendOptions, state: BlendState) -> None:
        super().__init__(engine, regulariser, replace(options, sweeps=0), state)
        self.gamma = options.gamma
        self._gap = np.inf  # at the last evaluation
        self._point = self._restart_point()

    def bounds(self) -> tuple[float, float]:
        """(primal, gap) at the last accepted point."""
        primal, _, _ = self._evaluate(self._point, False)
        self._settled = True
        return primal, self._gap

    def forget(self) -> None:
        self.settle()
        super().forget()

    def _restart_point(self) -> FloatArray:
        """The weights, and the engine's messages."""
        weights = super()._restart_point()
        flat = [np.asarray(part, dtype=np.float64) for part in self.engine.messages()]
        self._ends: LongArray = np.cumsum([len(part) for part in flat])
        return np.concatenate([weights, *flat])

    def _evaluate(self, point: FloatArray, curvature: bool) -> tuple[float, FloatArray, FloatArray | None]:
        size = len(self._kinked)
        weights, messages = point[:size], point[size:]
        found: SoftEvaluation = self.engine.soft(weights, np.split(messages, self._ends[:-1]), self.gamma, curvature)
        primal = found.value + self.regulariser.value(weights)
        self._gap = divergence(self.regulariser, weights, found.gradient) + found.residual
        gradient = np.concatenate([found.gradient + self.regulariser.strength * weights, *found.slopes])
        metric = None
        if found.curvature is not None:
            metric = np.concatenate([found.curvature + self.regulariser.strength, *found.curvatures])
        return primal, gradient, metric
