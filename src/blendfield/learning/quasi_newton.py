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
from blendfield.engines.protocol import Certificate, Engine, Request
from blendfield.learning.blend import BlendOptions, BlendState
from blendfield.learning.regularisers import Regulariser
from blendfield.model.inner import inner

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
        self._metric: FloatArray | None = None
        self._point: FloatArray = state.weights  # where the next evaluation is made, or the last accepted one
        self._gradient: FloatArray | None = None  # of the smooth part, at _point
        self._direction: FloatArray = np.zeros(0)
        self._length = 1.0
        self._settled = True
        sparsity, lowest, highest = regulariser.sparsity, regulariser.lowest, regulariser.highest
        self._kinked: BoolArray = (sparsity > 0) | np.isfinite(lowest) | np.isfinite(highest)
        """bool [K]: weights with an absolute value or a sign"""

    # What differs where messages take part: `soft.SoftMarginalisation`.

    def _evaluate(self, point: FloatArray, curvature: bool) -> tuple[float, FloatArray, FloatArray | None]:
        """(F, gradient of its smooth part, its diagonal curvature where asked for) at `point`, float64 [K]."""
        evaluation = self.engine.iterate(Request(weights=point, sweeps=self.options.sweeps, curvature=curvature))
        gradient = evaluation.gradient + self.regulariser.strength * point
        metric = None if evaluation.curvature is None else evaluation.curvature + self.regulariser.strength
        return evaluation.value + self.regulariser.value(point), gradient, metric

    def _restart_point(self) -> FloatArray:
        return self.state.accepted if len(self.state.accepted) else self.state.weights

    def certificate(self) -> Certificate | None:
        """What the last evaluation says about a bound, without another one: its beliefs are consistent. None where it
        was not one of the accepted weights.
        """
        if self._gradient is None or not self._settled:
            return None
        regulariser, weights = self.regulariser, self.state.accepted
        moments = self._gradient - regulariser.strength * weights
        return Certificate(self.state.primal - regulariser.value(weights), 0.0, moments, 0.0)

    # As `blend.Blend`.

    def forget(self) -> None:
        """Begin anew at the last accepted weights, at whatever temperature holds then."""
        self._pairs.clear()
        self._metric = self._gradient = None
        self._point = self._restart_point()
        self.state.primal = math.inf

    def anchor(self) -> None:
        """`forget`, and the evaluation that the next step would begin with."""
        self.forget()
        self.step()

    def recover(self) -> None:
        """After a loss of messages: the next step evaluates the last accepted point again."""
        self._settled = True
        self.forget()

    def settle(self) -> None:
        """Let potentials and messages be those of the last accepted point."""
        if not self._settled:
            self._evaluate(self._point, False)
            self._settled = True

    def visit(self, weights: FloatArray, sweeps: int) -> None:
        """Let these be the accepted weights; nothing is compared."""
        self.state.weights = self.state.accepted = weights
        self._point = self._restart_point()
        self._evaluate(self._point, False)
        self._gradient = None
        self._settled = True

    def step(self) -> bool:
        """One evaluation; True when it was accepted."""
        state = self.state
        if self._gradient is None:
            primal, gradient, metric = self._evaluate(self._point, True)
            assert metric is not None
            self._metric = np.where(metric > 0, metric, 1.0) ** TRUST
            self._take(self._point, primal, gradient)
            return True
        point = self._trial_point()
        primal, gradient, _ = self._evaluate(point, False)
        moved = point - self._point
        fall = inner(self._slope, moved)
        slack = self.options.slack * max(1.0, abs(state.primal))
        if primal <= state.primal + SUFFICIENT * fall + slack:
            change = gradient - self._gradient
            curvature = inner(moved, change)
            if curvature > 1e-12 * math.sqrt(inner(moved, moved) * inner(change, change)):
                self._pairs.append((moved, change, curvature))
            self._take(point, min(primal, state.primal), gradient)
            return True
        self._settled = False
        # The parabola through both values and the slope.
        excess = primal - state.primal - fall
        share = -0.5 * fall / excess if math.isfinite(excess) and excess > 0 else 0.1
        self._length *= min(0.5, max(0.1, share))
        if self._length < SHORTEST:  # rounding
            self._pairs.clear()
            self.settle()
            self._take(self._point, state.primal, self._gradient)
            return True
        return False

    def _take(self, point: FloatArray, primal: float, gradient: FloatArray) -> None:
        self._point, self._gradient = point, gradient
        self.state.weights = self.state.accepted = point[: len(self._kinked)]
        self.state.primal = primal
        self._settled = True
        self._slope = self._pseudo_gradient(point, gradient)
        direction = -self._times_inverse_hessian(self._slope)
        part = direction[: len(self._kinked)]
        part[self._kinked & (part * self._slope[: len(part)] >= 0)] = 0.0
        if not inner(direction, self._slope) < 0:
            self._pairs.clear()
            assert self._metric is not None
            direction = -self._slope / self._metric
        self._direction = direction
        self._length = 1.0

    def _trial_point(self) -> FloatArray:
        point: FloatArray = self._point + self._length * self._direction
        if self._kinked.any():
            count = len(self._kinked)
            weights, slope, part = self._point[:count], self._slope[:count], point[:count]
            orthant = np.where(weights != 0, np.sign(weights), -np.sign(slope))
            part[self._kinked & (np.sign(part) != orthant)] = 0.0
        return point

    def _pseudo_gradient(self, point: FloatArray, gradient: FloatArray) -> FloatArray:
        """The steepest slope of F among the directions that the signs allow."""
        if not self._kinked.any():
            return gradient
        part, count = self.regulariser, len(self._kinked)
        weights, slope = point[:count], gradient[:count]
        up, down = slope + part.sparsity, slope - part.sparsity
        at_zero = np.where(up < 0, np.where(part.highest > 0, up, 0.0), 0.0)
        at_zero = np.where(down > 0, np.where(part.lowest < 0, down, 0.0), at_zero)
        allowed = np.where(weights == 0, at_zero, slope + part.sparsity * np.sign(weights))
        return np.concatenate([np.where(self._kinked, allowed, slope), gradient[count:]])

    def _times_inverse_hessian(self, vector: FloatArray) -> FloatArray:
        """The two-loop recursion."""
        assert self._metric is not None
        q = vector.copy()
        shares = []
        for s, y, sy in reversed(self._pairs):
            share = inner(s, q) / sy
            q -= share * y
            shares.append(share)
        q /= self._metric
        if self._pairs:
            _, y, sy = self._pairs[-1]
            q *= sy / inner(y, y / self._metric)
        for (s, y, sy), share in zip(self._pairs, reversed(shares), strict=True):
            q += (share - inner(y, q) / sy) * s
        return q
