"""Structured support vector machine by stochastic subgradient steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from blendfield.backends.protocol import FloatArray
from blendfield.errors import OptionError
from blendfield.inference.options import check_integer, check_number
from blendfield.learning.rivals.batch import Batch
from blendfield.learning.rivals.oracles import Maximiser
from blendfield.learning.rivals.trainer import MarginTrainer, Run
from blendfield.learning.training import TrainingProgress


class Hinge:
    """loss(w) = sum_i s_i (max_y theta_i(y) - theta_i(y_i)) of one batch, and a subgradient."""

    def __init__(self, run: Run, batch: Batch, maximiser: Maximiser) -> None:
        self.batch = batch
        self.maximiser = maximiser
        self._run = run
        self._share = batch.size / run.entries

    def __call__(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """(loss, subgradient float64 [K]), both without regulariser."""
        batch = self.batch
        theta = batch.potentials(weights)
        before = self.maximiser.passes
        entries = batch.entries(self.maximiser(theta))
        self._run.passes += self._share * (self.maximiser.passes - before)
        return batch.loss(batch.scores(theta, entries), theta), batch.moments(batch.indicator(entries))


class SubgradientTrainer(MarginTrainer):
    """loss_i(w) = max_y theta_i(y) - theta_i(y_i), by steps along subgradients of random batches.

    Step t has the length 1 / (C t), or, where `step` is given, that of SGD in `GradientTrainer`, which starts shorter:
    with a small C, 1 / (C t) needs very many steps. Weights stay in the ball that holds the optimum,
    C/2 |w|^2 <= objective at 0, and are averaged with shares that grow with t, which makes the error O(1/t).

    Parameters
    ----------
    C, tolerance, max_iterations, time_limit, callback, random_state
        As for `GradientTrainer`; iterations are passes over the training set. Stops when a pass changes the objective
        by no more than tolerance * max(1, |objective|).
    step
        First step along the subgradient of a batch; None: 1 / C along that of the whole objective.
    counting_numbers
        Of inference on graphs with cycles.
    average
        Hand back the average of the weights; else the last.
    """

    def __init__(
        self,
        C: Any = 1.0,
        counting_numbers: Any = "cover",
        *,
        tolerance: float = 1e-6,
        max_iterations: int = 100,
        batch_size: int = 5,
        step: float | None = None,
        average: bool = True,
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
        self.step = step
        self.average = average
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
        if self.step is not None and not check_number("step", self.step, "None or a number > 0") > 0:
            raise OptionError(f"step must be None or a number > 0; got {self.step!r}")
        self._oracle_options()

    def _train(self, run: Run) -> str:
        options = self._oracle_options()
        hinges = [Hinge(run, batch, Maximiser(batch, options)) for batch in run.batches(self.batch_size)]
        weakest = float(run.strength.min(initial=math.inf))
        weights = run.weights
        average = weights
        with run.not_counted():
            bound = sum(hinge(np.zeros_like(weights))[0] for hinge in hinges)
        steps = 0
        while True:
            before = run.objective
            stop = None
            for number in run.random.permutation(len(hinges)):
                hinge = hinges[number]
                share = len(hinge.batch) / len(run.samples)
                # An unbiased estimate of a subgradient of the whole objective.
                slope = hinge(weights)[1] / share + run.strength * weights
                steps += 1
                slowness = weakest * steps if self.step is None else 1 / (self.step * share) + weakest * (steps - 1)
                weights = weights - slope / slowness
                size = run.regulariser(weights)
                if size > bound:
                    weights = weights * math.sqrt(bound / size)
                average = average + (weights - average) * (2.0 / (steps + 1))
                if (stop := run.out_of_time()) is not None:
                    break
            current = average if self.average else weights
            with run.not_counted():
                objective = sum(hinge(current)[0] for hinge in hinges) + run.regulariser(current)
            reason = run.report(current, objective)
            if run.close_enough(abs(before - objective)):
                return "converged"
            if reason is not None or stop is not None:
                return reason or str(stop)
