"""Training without inference: every variable given the true labels of all others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from blendfield.backends.protocol import FloatArray
from blendfield.errors import OptionError
from blendfield.inference.options import check_number
from blendfield.learning.rivals.batch import Batch, LongArray
from blendfield.learning.rivals.optimisers import minimise_full
from blendfield.learning.rivals.trainer import RivalTrainer, Run
from blendfield.learning.training import TrainingProgress


class PseudoLikelihoodTrainer(RivalTrainer):
    """loss_i(w) = sum_v eps logsumexp_a(theta_i(y with a at v) / eps) - theta_i(y), v all variables of sample i.

    Convex, and cheap: no table is summed over, only the rows of tables through the true labels are looked at. A loss in
    the samples is part of theta, as everywhere; `loss=None` gives the classical pseudo-likelihood. Full L-BFGS steps.

    Parameters: as for `GradientTrainer`. `counting_numbers` are those of prediction.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        C: Any = 1.0,
        counting_numbers: Any = "cover",
        *,
        tolerance: float = 1e-6,
        max_iterations: int = 200,
        time_limit: float | None = None,
        callback: Callable[[TrainingProgress], object] | None = None,
        threads: int | None = None,
        backend: str = "auto",
    ) -> None:
        self.epsilon = epsilon
        self.C = C
        self.counting_numbers = counting_numbers
        self.tolerance = tolerance
        self.max_iterations = max_iterations
        self.time_limit = time_limit
        self.callback = callback
        self.random_state = None
        self.threads = threads
        self.backend = backend
        self._check()

    def _check(self) -> None:
        super()._check()
        check_number("epsilon", self.epsilon, "a temperature > 0")
        if self.epsilon < 1e-100:
            raise OptionError(f"epsilon must be > 0; got {self.epsilon!r}")

    def _train(self, run: Run) -> str:
        batch = run.batch()
        conditionals = Conditionals(batch)
        share = len(conditionals.entry) / batch.size

        def evaluate(weights: FloatArray) -> tuple[float, FloatArray]:
            values, difference = conditionals(batch.potentials(weights), self.epsilon)
            run.passes += share
            value = float(batch.weights @ values) + run.regulariser(weights)
            return value, batch.transposed(difference) + run.strength * weights

        return minimise_full(run, evaluate)


class Conditionals:
    """Scores of every label of every variable, the others as they truly are.

    V variables with n_v labels each, L = sum_v n_v; an entry of a region's table is looked at for each of the region's
    variables v and each label of v.
    """

    def __init__(self, batch: Batch) -> None:
        graph, labels = batch.graph, batch.labels
        cardinalities = graph.cardinalities.astype(np.int64)
        self.starts: LongArray = np.concatenate([[0], np.cumsum(cardinalities)])
        """int64 [V + 1]: where the labels of each variable begin"""
        self.size = int(self.starts[-1])
        entries, slots = [], []
        orders = graph.region_orders
        for order in np.unique(orders).tolist():
            regions = np.flatnonzero(orders == order)
            variables = graph.region_variables[graph.region_offsets[regions, None] + np.arange(order)].astype(np.int64)
            sizes = cardinalities[variables]
            strides = np.ones_like(sizes)
            strides[:, :-1] = np.cumprod(sizes[:, :0:-1], axis=1)[:, ::-1]
            for axis in range(order):
                count = sizes[:, axis]
                row = np.repeat(np.arange(len(regions)), count)
                label = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
                variable = variables[row, axis]
                moved = label - labels[variable]
                entries.append(batch.truth[regions[row]] + moved * strides[row, axis])
                slots.append(self.starts[variable] + label)
        self.entry: LongArray = np.concatenate([np.zeros(0, dtype=np.int64), *entries])
        """int64 [M]: places in the flat tables"""
        self.slot: LongArray = np.concatenate([np.zeros(0, dtype=np.int64), *slots])
        """int64 [M]: the label 0..L-1 that each belongs to"""
        self.variable = np.repeat(np.arange(len(cardinalities)), cardinalities)
        self.true_slot = self.starts[:-1] + labels
        self.tables = batch.size
        self.sample = np.repeat(np.arange(len(batch)), np.diff(batch.variable_starts))
        self.samples = len(batch)

    def __call__(self, theta: FloatArray, epsilon: float) -> tuple[FloatArray, FloatArray]:
        """(loss of every sample float64 [n], its gradient in theta float64 [N])."""
        scores = np.bincount(self.slot, theta[self.entry], self.size) / epsilon
        if not len(self.starts) > 1:
            return np.zeros(self.samples), np.zeros(self.tables)
        highest = np.maximum.reduceat(scores, self.starts[:-1])
        weights = np.exp(scores - highest[self.variable])
        total = np.add.reduceat(weights, self.starts[:-1])
        losses = epsilon * (np.log(total) + highest - scores[self.true_slot])
        probabilities = weights / total[self.variable]
        probabilities[self.true_slot] -= 1.0
        gradient = np.bincount(self.entry, probabilities[self.slot], self.tables).astype(np.float64)
        return np.bincount(self.sample, losses, self.samples).astype(np.float64), gradient
