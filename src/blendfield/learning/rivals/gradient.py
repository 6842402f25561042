"""Likelihood training by gradients: what approximate inference hands back is used as if it were exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from blendfield.backends.protocol import FloatArray
from blendfield.errors import OptionError
from blendfield.inference.options import check_choice, check_integer, check_number
from blendfield.learning.rivals.batch import Batch
from blendfield.learning.rivals.optimisers import (
    MetaDescent,
    StochasticGradient,
    Value,
    minimise_full,
    minimise_stochastic,
)
from blendfield.learning.rivals.oracles import ORACLES, InferenceOptions, Oracle, make_oracle
from blendfield.learning.rivals.trainer import RivalTrainer, Run, forest_options
from blendfield.learning.training import TrainingProgress
from blendfield.model.sample import Sample

OPTIMISERS = ("sgd", "smd", "lbfgs")


class GradientTrainer(RivalTrainer):
    """loss_i(w) = A(theta_i) - theta_i(y_i), A the log-partition function at `epsilon` as an oracle sees it.

    Parameters
    ----------
    oracle
        "belief-propagation": A is the (generalised) Bethe value, gradients by its beliefs; no bound, and not convex, on
        graphs with cycles. "mean-field": a lower bound of A. "exact": A itself, by two passes on forests, elsewhere if
        the tables fit in memory.
    optimiser
        "lbfgs": all samples in every step. "sgd": stochastic gradient steps, "smd": stochastic meta-descent with a step
        size per weight, both on batches of `batch_size` samples.
    epsilon, C
        As for `BlendedLearner`.
    counting_numbers
        Of belief propagation.
    max_iterations
        Steps of L-BFGS, or passes over the training set.
    step
        SGD: step / (1 + step C' t) in step t, C' the share of C that a batch has. SMD: the first step of every weight.
    meta_step, memory
        mu and lambda of SMD (see `optimisers`); mu for an objective per variable, since g v grows with their number.
    tolerance
        L-BFGS stops when sum_k g_k^2 / (2 C_k) <= tolerance * max(1, |objective|): with exact inference this bounds the
        distance to the optimum. The others when an iteration changes the objective by no more than that.
    inference_tolerance, inference_iterations, restart_messages
        When belief propagation and mean field stop; and whether every call starts from zero, or from where the last
        one on the same samples ended. None: from zero for L-BFGS, whose line searches fail where propagation stays at
        the fixed point it came from, so that the objective depends on the way; else from the last one.
    """

    def __init__(
        self,
        oracle: str = "belief-propagation",
        optimiser: str = "lbfgs",
        epsilon: float = 1.0,
        C: Any = 1.0,
        counting_numbers: Any = "bethe",
        *,
        tolerance: float = 1e-6,
        max_iterations: int = 200,
        batch_size: int = 5,
        step: float = 5e-4,
        meta_step: float = 0.02,
        memory: float = 0.99,
        random_state: int | None = 0,
        time_limit: float | None = None,
        callback: Callable[[TrainingProgress], object] | None = None,
        inference_tolerance: float = 1e-4,
        inference_iterations: int = 100,
        restart_messages: bool | None = None,
        threads: int | None = None,
        backend: str = "auto",
    ) -> None:
        self.oracle = oracle
        self.optimiser = optimiser
        self.epsilon = epsilon
        self.C = C
        self.counting_numbers = counting_numbers
        self.tolerance = tolerance
        self.max_iterations = max_iterations
        self.batch_size = batch_size
        self.step = step
        self.meta_step = meta_step
        self.memory = memory
        self.random_state = random_state
        self.time_limit = time_limit
        self.callback = callback
        self.inference_tolerance = inference_tolerance
        self.inference_iterations = inference_iterations
        self.restart_messages = restart_messages
        self.threads = threads
        self.backend = backend
        self._check()

    def _oracle_options(self) -> InferenceOptions:
        options = super()._oracle_options()
        if self.restart_messages is None:
            options = replace(options, restart=self.optimiser == "lbfgs")
        return options

    def infer(self, samples: Sequence[Sample] | Sample, **options: Any) -> Any:
        """As `Predictor.infer`, by the oracle of training."""
        own: dict[str, Any] = {"method": self.oracle}
        if self.oracle == "exact":
            own.update(forest_options(samples))
        return super().infer(samples, **{**own, **options})

    def _check(self) -> None:
        super()._check()
        check_choice("oracle", self.oracle, ORACLES)
        check_choice("optimiser", self.optimiser, OPTIMISERS)
        check_integer("batch_size", self.batch_size, 1)
        for name in ("step", "meta_step"):
            check_number(name, getattr(self, name), "a number >= 0")
        if not 0 <= check_number("memory", self.memory, "a number from 0 to 1") <= 1:
            raise OptionError(f"memory must be a number from 0 to 1; got {self.memory!r}")
        if not check_number("epsilon", self.epsilon, "a temperature > 0") >= 1e-100:
            raise OptionError(
                f"epsilon must be > 0: at 0 there is no gradient (see SubgradientTrainer); got {self.epsilon!r}"
            )
        self._oracle_options()

    def _train(self, run: Run) -> str:
        if self.optimiser == "lbfgs":
            return minimise_full(run, self._objective(run, run.batch(), 1.0))
        batches = run.batches(self.batch_size)
        parts = [self._objective(run, batch, len(batch) / len(run.samples)) for batch in batches]
        share = max(len(batch) for batch in batches) / len(run.samples)
        if self.optimiser == "sgd":
            return minimise_stochastic(run, parts, StochasticGradient(self.step, share * float(run.strength.mean())))
        meta_step = self.meta_step / max(batch.graph.num_variables for batch in batches)
        return minimise_stochastic(run, parts, MetaDescent(self.step, meta_step, self.memory))

    def _objective(self, run: Run, batch: Batch, share: float) -> Value:
        """The objective of one batch, with its share of the regulariser."""
        oracle: Oracle = make_oracle(self.oracle, batch, self._oracle_options())
        size = batch.size / run.entries

        def evaluate(weights: FloatArray) -> tuple[float, FloatArray]:
            theta = batch.potentials(weights)
            answer = oracle(theta)
            run.passes += size * answer.passes
            value = batch.loss(answer.values, theta) + share * run.regulariser(weights)
            gradient: FloatArray = batch.moments(answer.beliefs) + share * run.strength * weights
            return value, gradient

        return evaluate

    def __repr__(self) -> str:
        return super().__repr__().replace("(", f"({self.oracle!r}, {self.optimiser!r}, epsilon={self.epsilon!r}, ", 1)
