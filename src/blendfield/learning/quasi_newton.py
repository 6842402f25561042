"""Training sets whose messages are optimal after every sweep (forests with tree counting numbers): F is a function of w
alone, and limited-memory BFGS finds its minimum.

Absolute values and signs are treated as in OWL-QN: the pseudo-gradient chooses an orthant, and no trial point leaves
it. One evaluation is one sweep and one pass. It has the same face as `blend.Blend`.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np
import numpy.typing as npt

from blendfield.backends.protocol import FloatArray
from blendfield.engines.protocol import Engine, Request
from blendfield.learning.blend import BlendOptions, BlendState
from blendfield.learning.regularisers import Regulariser

BoolArray = npt.NDArray[np.bool_]
MEMORY = 20
"""pairs remembered"""
TRUST = 0.75
"""power of the curvature at the start that serves as metric: 0 suffers from the scales of features, 1 from a curvature
that changes on the way"""
SUFFICIENT = 1e-4
"""share of the fall foretold by the slope that a step has to bring"""
SHORTEST = 1e-10
"""step below which the line search gives up"""


class QuasiNewton:
    """The iteration. `step` makes one evaluation; `state` and the engine's messages continue after `anchor`."""

    def __init__(self, engine: Engine, regulariser: Regulariser, options: BlendOptions, state: BlendState) -> None:
        self.engine = engine
        self.regulariser = regulariser
        self.options = options
        self.state = state
        self.trials = 0
        engine.allocate(2)
        self._pairs: deque[tuple[FloatArray, FloatArray, float]] = deque(maxlen=MEMORY)
        self._metric: FloatArray | None = None  # [K]
        self._gradient: FloatArray | None = None  # [K]: of the smooth part, at state.accepted
        self._direction: FloatArray | None = None
        self._length = 1.0
        self._settled = True

    def forget(self) -> None:
        """Begin anew at the last accepted weights, at whatever temperature holds then."""
        self._pairs.clear()
        self._metric = self._gradient = self._direction = None
        if len(self.state.accepted):
            self.state.weights = self.state.accepted
        self.state.primal = math.inf

    def anchor(self) -> None:
        """`forget`, and the evaluation that the next step would begin with."""
        self.forget()
        self.step()

    def settle(self) -> None:
        """Let potentials and messages be those of the last accepted weights."""
        if not self._settled:
            self.engine.iterate(Request(weights=self.state.accepted))
            self._settled = True

    def step(self) -> bool:
        """One evaluation; True when it was accepted."""
        state = self.state
        first = self._gradient is None
        weights = state.weights if first else self._trial_point()
        evaluation = self.engine.iterate(Request(weights=weights, sweeps=self.options.sweeps, curvature=first))
        primal = evaluation.value + self.regulariser.value(weights)
        gradient = evaluation.gradient + self.regulariser.strength * weights
        if first:
            assert evaluation.curvature is not None
            metric = evaluation.curvature + self.regulariser.strength
            self._metric = np.where(metric > 0, metric, 1.0) ** TRUST
            self._take(weights, primal, gradient)
            return True
        assert self._gradient is not None
        moved = weights - state.accepted
        fall = float(self._slope @ moved)
        slack = self.options.slack * max(1.0, abs(state.primal))
        if primal <= state.primal + SUFFICIENT * fall + slack:
            change = gradient - self._gradient
            curvature = float(moved @ change)
            if curvature > 1e-12 * math.sqrt(float(moved @ moved) * float(change @ change)):
                self._pairs.append((moved, change, curvature))
            self._take(weights, min(primal, state.primal), gradient)
            return True
        self._settled = False
        # The parabola through both values and the slope.
        excess = primal - state.primal - fall
        share = -0.5 * fall / excess if math.isfinite(excess) and excess > 0 else 0.1
        self._length *= min(0.5, max(0.1, share))
        if self._length < SHORTEST:  # rounding
            self._pairs.clear()
            self.settle()
            self._take(state.accepted, state.primal, self._gradient)
            return True
        return False

    def _take(self, weights: FloatArray, primal: float, gradient: FloatArray) -> None:
        self.state.weights = self.state.accepted = weights
        self.state.primal = primal
        self._gradient = gradient
        self._settled = True
        self._slope = self._pseudo_gradient(weights, gradient)
        direction = -self._times_inverse_hessian(self._slope)
        kinked = self._kinked()
        direction[kinked & (direction * self._slope >= 0)] = 0.0
        if not float(direction @ self._slope) < 0:
            self._pairs.clear()
            assert self._metric is not None
            direction = -self._slope / self._metric
        self._direction = direction
        self._length = 1.0

    def _trial_point(self) -> FloatArray:
        weights = self.state.accepted
        assert self._direction is not None
        point = weights + self._length * self._direction
        kinked = self._kinked()
        if kinked.any():
            orthant = np.where(weights != 0, np.sign(weights), -np.sign(self._slope))
            point[kinked & (np.sign(point) != orthant)] = 0.0
        return point

    def _kinked(self) -> BoolArray:
        """bool [K]: weights with an absolute value or a sign."""
        part = self.regulariser
        return np.asarray((part.sparsity > 0) | np.isfinite(part.lowest) | np.isfinite(part.highest))

    def _pseudo_gradient(self, weights: FloatArray, gradient: FloatArray) -> FloatArray:
        """The steepest slope of F among the directions that the signs allow."""
        part = self.regulariser
        up, down = gradient + part.sparsity, gradient - part.sparsity
        at_zero = np.where(up < 0, np.where(part.highest > 0, up, 0.0), 0.0)
        at_zero = np.where(down > 0, np.where(part.lowest < 0, down, 0.0), at_zero)
        slope: FloatArray = np.where(weights == 0, at_zero, gradient + part.sparsity * np.sign(weights))
        return np.where(self._kinked(), slope, gradient)

    def _times_inverse_hessian(self, vector: FloatArray) -> FloatArray:
        """The two-loop recursion."""
        assert self._metric is not None
        q = vector.copy()
        shares = []
        for s, y, sy in reversed(self._pairs):
            share = float(s @ q) / sy
            q -= share * y
            shares.append(share)
        q /= self._metric
        if self._pairs:
            _, y, sy = self._pairs[-1]
            q *= sy / float(y @ (y / self._metric))
        for (s, y, sy), share in zip(self._pairs, reversed(shares), strict=True):
            q += (share - float(y @ q) / sy) * s
        return q
