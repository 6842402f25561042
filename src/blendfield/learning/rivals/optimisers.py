"""Minimisers of a function of the weights that sees values and gradients only.

Stochastic meta-descent, elementwise, with gradients g_t of batch t:

    eta_t = eta_{t-1} max(1/2, 1 - mu g_t v_t)
    w_{t+1} = w_t - eta_t g_t
    v_{t+1} = lambda v_t - eta_t (g_t + lambda H_t v_t),      v_0 = 0

H_t v is a difference of two gradients of the same batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from blendfield.backends.protocol import FloatArray
from blendfield.learning.rivals.trainer import Run

Value = Callable[[FloatArray], tuple[float, FloatArray]]
"""w -> (f, g)"""

DIFFERENCE = 3e-2
"""length of the step, relative to max(1, |w|), by which H v is measured: long enough to rise above what inference that
is not quite finished leaves in gradients (at 1e-3 meta-descent diverged on it)"""
MEMORY = 10
"""steps of L-BFGS remembered"""
LARGEST_WEIGHT = 1e90
"""beyond it a run has diverged"""


def minimise_full(run: Run, function: Value) -> str:
    """L-BFGS with SciPy's line search; the reason to stop."""
    import scipy.optimize  # slow to import

    minimize: Any = scipy.optimize.minimize

    last: dict[str, Any] = {}
    reason: list[str] = []

    def evaluate(weights: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = function(weights)
        last.update(weights=weights.copy(), value=value, gradient=gradient)
        return value, gradient

    def after_step(weights: FloatArray) -> None:
        if not np.array_equal(last["weights"], weights):  # a line search ended elsewhere than it looked last
            evaluate(weights)
        stop = run.report(weights, last["value"])
        if run.close_enough(distance(last["gradient"], run.strength)):
            stop = "converged"
        if stop is not None:
            reason.append(stop)
            raise StopIteration

    options = {"maxiter": 10**9, "maxfun": 10**9, "ftol": 0.0, "gtol": 0.0, "maxcor": MEMORY}
    minimize(evaluate, run.weights, jac=True, method="L-BFGS-B", callback=after_step, options=options)
    return reason[0] if reason else "stalled"


def distance(gradient: FloatArray, strength: FloatArray) -> float:
    """sum_k g_k^2 / (2 C_k): how far a value with this gradient is above the minimum, at most, if all C_k > 0."""
    moving = gradient != 0
    if (strength[moving] == 0).any():
        return math.inf
    return float((gradient[moving] ** 2 / (2.0 * strength[moving])).sum())


class Step(Protocol):
    """One step of a stochastic optimiser."""

    def __call__(self, weights: FloatArray, function: Value) -> FloatArray:
        """The next weights."""


class StochasticGradient:
    """w_{t+1} = w_t - eta_t g_t,  eta_t = step / (1 + step * strength * t)."""

    def __init__(self, step: float, strength: float) -> None:
        self.step = step
        self.strength = strength
        self.count = 0

    def __call__(self, weights: FloatArray, function: Value) -> FloatArray:
        _, gradient = function(weights)
        eta = self.step / (1.0 + self.step * self.strength * self.count)
        self.count += 1
        return weights - eta * gradient


class MetaDescent:
    """The formula above."""

    def __init__(self, step: float, meta_step: float, memory: float) -> None:
        self.step = step
        self.meta_step = meta_step
        self.memory = memory
        self._eta: FloatArray | None = None
        self._v: FloatArray = np.zeros(0)

    def __call__(self, weights: FloatArray, function: Value) -> FloatArray:
        _, gradient = function(weights)
        if self._eta is None:
            self._eta = np.full(len(weights), self.step)
            self._v = np.zeros(len(weights))
        v = self._v
        self._eta = self._eta * np.maximum(0.5, 1.0 - self.meta_step * gradient * v)
        curved = _product(function, weights, gradient, v)
        self._v = self.memory * v - self._eta * (gradient + self.memory * curved)
        return weights - self._eta * gradient


def _product(function: Value, weights: FloatArray, gradient: FloatArray, v: FloatArray) -> FloatArray:
    """H v by a forward difference."""
    length = float(np.linalg.norm(v))
    if length == 0 or not math.isfinite(length):
        return np.zeros_like(v)
    step = DIFFERENCE * max(1.0, float(np.linalg.norm(weights))) / length
    return (function(weights + step * v)[1] - gradient) / step


def _usable(weights: FloatArray) -> bool:
    return bool((np.abs(weights) < LARGEST_WEIGHT).all())


def minimise_stochastic(run: Run, parts: Sequence[Value], step: Step) -> str:
    """Passes over all parts in random order, one step each; the reason to stop.

    The history has the objective after every pass; measuring it does not count. Where a run diverges the weights are
    those before the last pass.
    """
    weights = run.weights
    while True:
        before = run.objective
        for number in run.random.permutation(len(parts)):
            weights = step(weights, parts[number])
            if (stop := run.out_of_time()) is not None or not _usable(weights):
                break
        with run.not_counted():
            objective = sum(part(weights)[0] for part in parts) if _usable(weights) else math.nan
        if not math.isfinite(objective):
            return "diverged"
        reason = run.report(weights, objective)
        if run.close_enough(abs(before - objective)):
            return "converged"
        if reason is not None or stop is not None:
            return reason or str(stop)
