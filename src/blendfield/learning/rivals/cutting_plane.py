"""Structured support vector machine by cutting planes, all samples in one slack variable.

Every pass over the training set gives one plane  h_j + z_j.w <= loss(w),  h_j = sum_i s_i l_i(best_i),
z_j = sum_i s_i Phi_i^T (1_{best_i} - 1_{y_i});  the zero plane is another. The minimiser of their maximum plus the
regulariser is w_k = -sum_j a_j z_jk / C_k with

    a = argmax over the simplex of  sum_j a_j h_j - sum_k (sum_j a_j z_jk)^2 / (2 C_k) .
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from blendfield.backends.protocol import FloatArray
from blendfield.learning.rivals.oracles import Maximiser
from blendfield.learning.rivals.subgradient import Hinge
from blendfield.learning.rivals.trainer import MarginTrainer, Run
from blendfield.learning.simplex import solve_simplex
from blendfield.learning.training import TrainingProgress

IDLE = 50
"""iterations without use after which a plane is forgotten"""
PRECISION = 1e-3
"""the small problem is solved to this share of the gap asked for"""


class CuttingPlaneTrainer(MarginTrainer):
    """loss_i(w) = max_y theta_i(y) - theta_i(y_i), by one-slack cutting planes.

    Stops when the least objective seen is within tolerance * max(1, |objective|) of the planes' optimum,
    history_["dual"]; exact where the best labels are (forests). history_["objective"] is that of the iteration; the
    weights handed back are the best.

    Parameters: as for `SubgradientTrainer`; an iteration is one plane.
    """

    def __init__(
        self,
        C: Any = 1.0,
        counting_numbers: Any = "cover",
        *,
        tolerance: float = 1e-4,
        max_iterations: int = 500,
        time_limit: float | None = None,
        callback: Callable[[TrainingProgress], object] | None = None,
        inference_tolerance: float = 1e-3,
        inference_iterations: int = 100,
        restart_messages: bool = False,
        threads: int | None = None,
        backend: str = "auto",
    ) -> None:
        self.C = C
        self.counting_numbers = counting_numbers
        self.tolerance = tolerance
        self.max_iterations = max_iterations
        self.random_state = None
        self.time_limit = time_limit
        self.callback = callback
        self.inference_tolerance = inference_tolerance
        self.inference_iterations = inference_iterations
        self.restart_messages = restart_messages
        self.threads = threads
        self.backend = backend
        self._check()

    def _check(self) -> None:
        super()._check()
        self._oracle_options()

    def _train(self, run: Run) -> str:
        batch = run.batch()
        hinge = Hinge(run, batch, Maximiser(batch, self._oracle_options()))
        planes = Planes(run.strength)
        weights = run.weights
        best, best_weights = np.inf, weights
        try:
            while True:
                loss, slope = hinge(weights)
                planes.add(loss - float(slope @ weights), slope)
                objective = loss + run.regulariser(weights)
                if objective < best:
                    best, best_weights = objective, weights
                goal = self.tolerance * max(1.0, abs(best))
                following = planes.minimise(PRECISION * goal)
                run.dual = max(run.dual, planes.value)
                reason = run.report(weights, objective)
                if best - run.dual <= goal:
                    return "converged"
                if reason is not None:
                    return reason
                weights = following
        finally:
            run.weights, run.objective = best_weights, best


class Planes:
    """h_j + z_j.w, the zero plane first, and the weights a_j of the optimum."""

    def __init__(self, strength: FloatArray) -> None:
        self.strength = strength
        self.heights: FloatArray = np.zeros(1)
        self.slopes: FloatArray = np.zeros((1, len(strength)))
        """float64 [m, K]"""
        self.products: FloatArray = np.zeros((1, 1))
        """float64 [m, m]: sum_k z_ik z_jk / C_k"""
        self.shares: FloatArray = np.ones(1)
        """float64 [m], a"""
        self.value = 0.0
        """a lower bound of the objective"""
        self._idle = np.zeros(1, dtype=np.int64)

    def add(self, height: float, slope: FloatArray) -> None:
        """One plane more."""
        column = self.slopes @ (slope / self.strength)
        corner = float(slope @ (slope / self.strength))
        self.heights = np.append(self.heights, height)
        self.slopes = np.vstack([self.slopes, slope])
        self.products = np.block([[self.products, column[:, None]], [column, np.array([corner])]])
        self.shares = np.append(self.shares, 0.0)
        self._idle = np.append(self._idle, 0)

    def minimise(self, precision: float) -> FloatArray:
        """The weights float64 [K] that minimise the maximum of all planes plus the regulariser."""
        self.shares = solve_simplex(self.products, self.heights, self.shares, precision)
        self.value = float(self.shares @ self.heights - 0.5 * self.shares @ self.products @ self.shares)
        self._idle = np.where(self.shares > 0, 0, self._idle + 1)
        keep = self._idle <= IDLE
        keep[0] = True
        if not keep.all():
            self.heights, self.slopes, self.shares = self.heights[keep], self.slopes[keep], self.shares[keep]
            self.products, self._idle = self.products[np.ix_(keep, keep)], self._idle[keep]
        return np.asarray(-(self.shares @ self.slopes) / self.strength)
