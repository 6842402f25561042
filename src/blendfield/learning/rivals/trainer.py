"""What all rival trainers share: options, weights, clock, history, when to stop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield.backends.protocol import FloatArray
from blendfield.errors import LabelError, OptionError
from blendfield.inference.options import check_integer, check_number
from blendfield.learning.compile import regulariser_of, sizes_of
from blendfield.learning.prediction import Predictor, check_samples, initial_weights
from blendfield.learning.rivals.batch import Batch
from blendfield.learning.rivals.oracles import InferenceOptions, is_exact
from blendfield.learning.training import TrainingProgress
from blendfield.model.sample import Sample
from blendfield.model.weights import WeightLayout


class Run:
    """One training: what it is given, the weights so far, and the history. K weights, n samples."""

    def __init__(self, trainer: RivalTrainer, samples: list[Sample], initial: Any) -> None:
        self.samples = samples
        self.entries = sum(sizes_of(samples))
        """of all tables"""
        self.layout = WeightLayout.of_samples(samples)
        self.strength = regulariser_of(self.layout, trainer.C, 0.0, None).strength
        """float64 [K]: C_k"""
        self.weights: FloatArray = initial_weights(initial, self.layout)
        self.objective = math.nan
        self.dual = -math.inf
        self.iteration = 0
        self.passes = 0.0
        self.random = np.random.default_rng(trainer.random_state)
        self.history: dict[str, list[float]] = {
            name: [] for name in ("iteration", "objective", "dual", "passes", "seconds")
        }
        self._trainer = trainer
        self._started = time.perf_counter()
        self._not_counted = 0.0

    def regulariser(self, weights: FloatArray) -> float:
        """1/2 sum_k C_k w_k^2."""
        return 0.5 * float(self.strength @ weights**2)

    def batch(self, numbers: Sequence[int] | None = None) -> Batch:
        """Samples compiled together; None: all."""
        chosen = range(len(self.samples)) if numbers is None else numbers
        return Batch([self.samples[k] for k in chosen], list(chosen), self.layout, self._trainer.threads)

    def batches(self, size: int) -> list[Batch]:
        """A random partition into batches of `size` samples."""
        order = self.random.permutation(len(self.samples)).tolist()
        return [self.batch(order[first : first + size]) for first in range(0, len(order), size)]

    def seconds(self) -> float:
        """Spent on training; evaluations for the history alone do not count."""
        return time.perf_counter() - self._started - self._not_counted

    @contextmanager
    def not_counted(self) -> Iterator[None]:
        """Neither time nor passes count: what is done here only serves the history."""
        before, passes = time.perf_counter(), self.passes
        try:
            yield
        finally:
            self._not_counted += time.perf_counter() - before
            self.passes = passes

    def report(self, weights: FloatArray, objective: float) -> str | None:
        """The end of an iteration: enter it into the history; the reason to stop, if there is one."""
        self.iteration += 1
        self.weights, self.objective = weights.copy(), objective
        dual = self.dual if math.isfinite(self.dual) else math.nan
        entry = (self.iteration, objective, dual, self.passes, self.seconds())
        for values, value in zip(self.history.values(), entry, strict=True):
            values.append(value)
        trainer = self._trainer
        if trainer.callback is not None:
            progress = TrainingProgress(
                iteration=self.iteration,
                primal=objective,
                dual=dual,
                gap=objective - dual,
                passes=self.passes,
                seconds=self.seconds(),
                epsilon=trainer.epsilon,
                weights=self.weights,
            )
            answer = trainer.callback(progress)
            if isinstance(answer, (bool, np.bool_)) and bool(answer):
                return "callback"
        return self.out_of_time() or ("max_iterations" if self.iteration >= trainer.max_iterations else None)

    def out_of_time(self) -> str | None:
        """ "time_limit", or None."""
        limit = self._trainer.time_limit
        return "time_limit" if limit is not None and self.seconds() >= limit else None

    def close_enough(self, gap: float) -> bool:
        """gap <= tolerance * max(1, |objective|)."""
        return gap <= self._trainer.tolerance * max(1.0, abs(self.objective))


class RivalTrainer(Predictor):
    """Base of the rival trainers.

    All minimise  sum_i s_i loss_i(w) + 1/2 sum_k C_k w_k^2  over samples with weights s_i: C has the meaning it has for
    `BlendedLearner`. After `fit`: weights_, blocks_, objective_, history_ (equal-length arrays iteration, objective,
    dual, passes, seconds; dual is nan where a method has no bound), stop_reason_, converged_, n_iter_.
    """

    dtype = "float64"
    C: Any
    tolerance: float
    max_iterations: int
    time_limit: float | None
    callback: Callable[[TrainingProgress], object] | None
    random_state: int | None
    inference_tolerance: float
    inference_iterations: int
    restart_messages: bool | None

    def fit(self, samples: Sequence[Sample], initial: Any = None) -> RivalTrainer:
        """Learn from labelled samples. `initial`: weights float [K] or a fitted learner to start from."""
        self._check()
        listed = check_samples(samples)
        if not listed:
            raise LabelError("no samples: fit needs at least one")
        run = Run(self, listed, initial)
        reason = "max_iterations"
        if self.max_iterations > 0:
            try:
                reason = self._train(run)
            except KeyboardInterrupt:
                reason = "interrupted"
        self._take_weights(run.weights, run.layout)
        self.objective_ = run.objective
        self.stop_reason_ = reason
        self.converged_ = reason == "converged"
        self.n_iter_ = run.iteration
        self.history_: dict[str, npt.NDArray[Any]] = {
            name: np.array(values, dtype=np.int64 if name == "iteration" else np.float64)
            for name, values in run.history.items()
        }
        return self

    def _train(self, run: Run) -> str:
        """Run until done; the reason to stop."""
        raise NotImplementedError

    def _check(self) -> None:
        """OptionError for the first option that makes no sense."""
        for key, number in self.C.items() if isinstance(self.C, Mapping) else [(None, self.C)]:
            check_number("C" if key is None else f"C[{key!r}]", number, "a number >= 0")
        check_number("tolerance", self.tolerance, "a number >= 0")
        check_integer("max_iterations", self.max_iterations, 0)
        if self.time_limit is not None:
            check_number("time_limit", self.time_limit, "None or seconds >= 0", True)
        if self.callback is not None and not callable(self.callback):
            raise OptionError(f"callback must be None or a function of one argument; got {self.callback!r:.60}")
        if self.random_state is not None:
            check_integer("random_state", self.random_state, 0, "None or ")
        if self.threads is not None:
            check_integer("threads", self.threads, 1)

    def _oracle_options(self) -> InferenceOptions:
        return InferenceOptions(
            epsilon=self.epsilon,
            counting_numbers=self.counting_numbers,
            tolerance=check_number("inference_tolerance", self.inference_tolerance, "a number >= 0"),
            max_iterations=check_integer("inference_iterations", self.inference_iterations, 1),
            restart=bool(self.restart_messages),
            threads=self.threads,
            backend=self.backend,
        )

    def __repr__(self) -> str:
        fitted = f", {len(self.weights_)} weights, {self.stop_reason_}" if hasattr(self, "weights_") else ""
        return f"{type(self).__name__}(C={self.C!r}{fitted})"


class MarginTrainer(RivalTrainer):
    """Base of the structured support vector machines: epsilon = 0, loss_i(w) = max_y theta_i(y) - theta_i(y_i).

    The best labels are exact on forests; elsewhere they are those of `infer`, so that the losses are lower bounds.
    """

    epsilon = 0.0
    counting_numbers: Any

    def _check(self) -> None:
        super()._check()
        strengths = self.C.values() if isinstance(self.C, Mapping) else [self.C]
        if not all(strength > 0 for strength in strengths):
            raise OptionError(f"C must be > 0 for {type(self).__name__}; got {self.C!r:.60}")

    def predict(self, samples: Sequence[Sample] | Sample, decode: str = "map", **options: Any) -> Any:
        """As `Predictor.predict`, with the labels of the best score by default."""
        return super().predict(samples, decode, **options)

    def infer(self, samples: Sequence[Sample] | Sample, **options: Any) -> Any:
        """As `Predictor.infer`; forests are solved exactly."""
        return super().infer(samples, **{**forest_options(samples), **options})


def forest_options(samples: Sequence[Sample] | Sample) -> dict[str, Any]:
    """Options of `infer` for exact passes where all samples are forests; none otherwise."""
    listed = check_samples(samples)
    if not listed or not is_exact([sample.graph for sample in listed]):
        return {}
    return {"method": "norm-product", "counting_numbers": "bethe"}
