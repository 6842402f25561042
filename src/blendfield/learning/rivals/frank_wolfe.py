"""Structured support vector machine by block-coordinate Frank-Wolfe steps in the dual.

The dual point is a distribution q_i over the labellings of every sample, kept as its marginals on all tables:

    D(q) = sum_i s_i <q_i, l_i> - sum_k z_k^2 / (2 C_k),    z = sum_i s_i Phi_i^T (q_i - 1_{y_i}),   w_k = -z_k / C_k

A step moves one block (a few samples) towards the best labellings at w, to the maximum of D on that line. The gap of a
block is  sum_i s_i <1_best - q_i, theta_i(w)>;  their sum is the duality gap.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from blendfield.backends.protocol import FloatArray
from blendfield.inference.options import check_integer
from blendfield.learning.rivals.batch import Batch
from blendfield.learning.rivals.oracles import Maximiser
from blendfield.learning.rivals.trainer import MarginTrainer, Run
from blendfield.learning.training import TrainingProgress


class FrankWolfeTrainer(MarginTrainer):
    """loss_i(w) = max_y theta_i(y) - theta_i(y_i), by block-coordinate Frank-Wolfe with exact line search.

    No step sizes; stops at its duality gap <= tolerance * max(1, |objective|), which is exact where the best labels are
    (forests). history_["dual"] is the dual value.

    Parameters
    ----------
    C, counting_numbers, random_state, time_limit, callback
        As for `SubgradientTrainer`.
    max_iterations
        Passes over the training set.
    batch_size
        Samples in a block.
    gap_every
        Passes between measurements of the objective and the gap, which cost a pass each (it counts).
    """

    def __init__(
        self,
        C: Any = 1.0,
        counting_numbers: Any = "cover",
        *,
        tolerance: float = 1e-4,
        max_iterations: int = 200,
        batch_size: int = 1,
        gap_every: int = 5,
        random_state: int | None = 0,
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
        self.batch_size = batch_size
        self.gap_every = gap_every
        self.random_state = random_state
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
        check_integer("batch_size", self.batch_size, 1)
        check_integer("gap_every", self.gap_every, 1)
        self._oracle_options()

    def _train(self, run: Run) -> str:
        options = self._oracle_options()
        blocks = [_Block(batch, Maximiser(batch, options), run.entries) for batch in run.batches(self.batch_size)]
        # The dual starts at the truth, w = 0; weights to start from have no dual point.
        weights = np.zeros(run.layout.size)
        height = 0.0
        while True:
            stop = None
            for number in run.random.permutation(len(blocks)):
                weights, height = blocks[number].step(run, weights, height)
                if (stop := run.out_of_time()) is not None:
                    break
            size = run.regulariser(weights)
            run.dual = height - size
            last = run.iteration + 1 >= self.max_iterations or stop is not None
            gap = math.inf
            objective = math.nan
            if last or (run.iteration + 1) % self.gap_every == 0:
                gaps = [block.gap(run, weights)[0] for block in blocks]
                gap = sum(gaps)
                objective = run.dual + gap
            reason = run.report(weights, objective)
            if run.close_enough(gap):
                return "converged"
            if reason is not None or stop is not None:
                return reason or str(stop)


class _Block:
    """A few samples with their part of the dual point."""

    def __init__(self, batch: Batch, maximiser: Maximiser, total: int) -> None:
        self.batch = batch
        self.maximiser = maximiser
        self.share = batch.size / total
        self.point = batch.indicator(batch.truth)
        """float64 [N]: marginals of q"""
        self._weights = np.repeat(batch.weights[batch.sample_of_region], batch.graph.table_sizes)
        self._finite = np.where(np.isfinite(batch.base), batch.base, 0.0)

    def gap(self, run: Run, weights: FloatArray) -> tuple[float, FloatArray]:
        """(sum_i s_i <1_best - q_i, theta_i>, 1_best - q float64 [N])."""
        batch = self.batch
        theta = batch.potentials(weights)
        before = self.maximiser.passes
        labels = self.maximiser(theta)
        run.passes += self.share * (self.maximiser.passes - before)
        away = batch.indicator(batch.entries(labels)) - self.point
        moving = np.flatnonzero(away)
        return float((self._weights[moving] * away[moving]) @ theta[moving]), away

    def step(self, run: Run, weights: FloatArray, height: float) -> tuple[FloatArray, float]:
        """The best point on the line to the best labellings: (weights, sum_i s_i <q_i, l_i>)."""
        gap, away = self.gap(run, weights)
        if not gap > 0:
            return weights, height
        slope = self.batch.transposed(away) / run.strength
        curvature = float(run.strength @ slope**2)
        share = min(1.0, gap / curvature) if curvature > 0 else 1.0
        self.point += share * away
        return weights - share * slope, height + share * float((self._weights * away) @ self._finite)
