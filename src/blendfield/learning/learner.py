"""The public learner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from blendfield.backends.protocol import FloatArray, LabelArray
from blendfield.errors import LabelError, NotFittedError, OptionError
from blendfield.inference import Result, infer
from blendfield.learning.blend import BlendOptions
from blendfield.learning.compile import compile_training_set, regulariser_of
from blendfield.learning.options import LearnerOptions, check_learner_options
from blendfield.learning.training import Limits, Training, TrainingProgress
from blendfield.model.sample import Sample
from blendfield.model.weights import WeightLayout


class BlendedLearner:
    """Learns the weights of any discrete graphical model, from the conditional random field (epsilon = 1) to the
    structured support vector machine (epsilon = 0).

    Minimises F(w, lambda) = sum over samples and regions of eps c_r logsumexp(hat_r / (eps c_r)) - theta_r(y_r), plus
    C/2 |w|^2, over weights and messages together. Convex; the gap to the optimum is certified.

    Parameters
    ----------
    epsilon
        Temperature: 1 conditional random field, 0 structured support vector machine.
    C
        Strength of the regulariser against the SUM of the losses: larger is smoother. A number, or {block: number}
        (the triples are the block ""; None stands for all others).
    counting_numbers
        "ones", "cover", "cover-outer", "bethe" (forests), an array for all samples, or a list of arrays.
    tolerance, max_iterations, time_limit
        Stop at gap <= tolerance * max(1, |primal|), after so many iterations, after so many seconds.
    threads, dtype, backend
        As for `infer`.
    random_state
        Kept for reproducible extensions; the default solver draws no random numbers.
    l1
        Strength of an additional |w|, a number or {block: number}.
    sign
        ">=0" or "<=0" for all weights, or {block: ">=0" or "<=0"}.
    sweeps, restart_messages
        Sweeps per step in the weights: 1 is the blend. Many, with messages restarted at zero each time, are the
        classical double loop.
    acceleration
        "anderson", or None for plain iterations. `memory` is the number of iterations mixed.
    callback
        Called after every iteration with a `TrainingProgress`; stops when it returns True.
    certificate_every
        Iterations between certificates; "auto": after 1, 2, 4, 8, then a fifth more each time.

    After `fit`: weights_ float64 [K], blocks_ {name: view of weights_ in the block's shape}, primal_, dual_, gap_,
    history_ (equal-length arrays iteration, primal, dual, gap, passes, seconds), stop_reason_, converged_, n_iter_.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        C: Any = 1.0,
        counting_numbers: Any = "ones",
        tolerance: float = 1e-6,
        max_iterations: int = 1000,
        threads: int | None = None,
        random_state: int | None = None,
        backend: str = "auto",
        *,
        dtype: str = "float64",
        l1: Any = 0.0,
        sign: Any = None,
        sweeps: int = 1,
        restart_messages: bool = False,
        acceleration: str | None = "anderson",
        memory: int = 8,
        time_limit: float | None = None,
        callback: Callable[[TrainingProgress], object] | None = None,
        certificate_every: int | str = "auto",
    ) -> None:
        self.epsilon = epsilon
        self.C = C
        self.counting_numbers = counting_numbers
        self.tolerance = tolerance
        self.max_iterations = max_iterations
        self.threads = threads
        self.random_state = random_state
        self.backend = backend
        self.dtype = dtype
        self.l1 = l1
        self.sign = sign
        self.sweeps = sweeps
        self.restart_messages = restart_messages
        self.acceleration = acceleration
        self.memory = memory
        self.time_limit = time_limit
        self.callback = callback
        self.certificate_every = certificate_every
        self._options()

    def _options(self) -> LearnerOptions:
        return check_learner_options(self)

    # Training.

    def fit(self, samples: Sequence[Sample], initial: Any = None) -> BlendedLearner:
        """Learn from labelled samples. `initial`: weights float [K] or a fitted learner to start from."""
        options = self._options()
        samples = check_samples(samples)
        if not samples:
            raise LabelError("no samples: fit needs at least one")
        layout = WeightLayout.of_samples(samples)
        regulariser = regulariser_of(layout, self.C, self.l1, self.sign)
        start = _initial_weights(initial, layout)
        training_set = compile_training_set(samples, layout, self.counting_numbers, options)
        training = Training(
            engine=training_set.engine,
            regulariser=regulariser,
            epsilon=options.epsilon,
            hottest=training_set.hottest,
            limits=Limits(
                tolerance=options.tolerance,
                max_iterations=options.max_iterations,
                time_limit=options.time_limit,
                callback=self.callback,
                certificate_every=options.certificate_every,
            ),
            options=BlendOptions(
                sweeps=options.sweeps,
                restart_messages=options.restart_messages,
                memory=options.memory,
                slack=1e-12 if options.dtype == "float64" else 1e-6,
            ),
            passes_per_sweep=training_set.passes_per_sweep,
            weights=regulariser.project(start),
            warm=initial is not None,
        )
        training.run()
        self._take(training, layout)
        return self

    def _take(self, training: Training, layout: WeightLayout) -> None:
        self.layout_ = layout
        self.weights_: FloatArray = training.weights
        self.blocks_ = layout.views(self.weights_)
        self.primal_ = training.primal
        self.dual_ = training.dual
        self.gap_ = training.gap
        self.history_ = training.history.arrays()
        self.converged_ = training.converged()
        self.stop_reason_ = "converged" if self.converged_ else training.reason
        self.n_iter_ = training.iteration

    # Prediction.

    def potentials(self, sample: Sample, loss: bool = False) -> FloatArray:
        """float64 [table layout]: theta_r = sum_k w_k phi_{k,r}, plus l_r with `loss`."""
        from blendfield.learning.compile import potentials_of

        self._require_fit()
        return potentials_of(sample, self.layout_, self.weights_, loss)

    def infer(self, samples: Sequence[Sample] | Sample, **options: Any) -> Any:
        """`blendfield.infer` on the learned potentials, all samples compiled together: a list of `Result`, or one.

        Options as for `infer`; by default temperature, counting numbers and number type are those of training.
        """
        single = isinstance(samples, Sample)
        listed = [samples] if isinstance(samples, Sample) else check_samples(samples)
        self._require_fit()
        for number, sample in enumerate(listed):
            for block in sample.blocks:
                self.layout_.check(block, f"sample {number}")
        trained: dict[str, Any] = {
            "epsilon": self.epsilon,
            "counting_numbers": self.counting_numbers,
            "threads": self.threads,
            "dtype": self.dtype,
            "backend": self.backend,
        }
        graphs = [sample.graph for sample in listed]
        results: list[Result] = infer(graphs, [self.potentials(sample) for sample in listed], **{**trained, **options})
        return results[0] if single else results

    def predict(self, samples: Sequence[Sample] | Sample, decode: str = "beliefs", **options: Any) -> Any:
        """Labels int64 [V] of every sample (of the one given): the argmax of single-variable beliefs at the training
        temperature, or with decode="map" those of `infer`.
        """
        if decode not in ("beliefs", "map"):
            raise OptionError(f"decode must be 'beliefs' or 'map'; got {decode!r:.60}")
        results = self.infer(samples, **options)
        if isinstance(results, list):
            return [_labels(result, decode) for result in results]
        return _labels(results, decode)

    def _require_fit(self) -> None:
        if not hasattr(self, "weights_"):
            raise NotFittedError("this learner has no weights yet: call fit or load first")

    def __repr__(self) -> str:
        fitted = f", {len(self.weights_)} weights, gap {self.gap_:.3g}" if hasattr(self, "weights_") else ""
        return f"BlendedLearner(epsilon={self.epsilon!r}, C={self.C!r}{fitted})"


def check_samples(samples: Any) -> list[Sample]:
    """A list of samples; OptionError otherwise."""
    if isinstance(samples, Sample):
        return [samples]
    try:
        listed = list(samples)
    except TypeError:
        raise OptionError(f"expected a list of samples; got {type(samples).__name__}") from None
    for number, sample in enumerate(listed):
        if not isinstance(sample, Sample):
            raise OptionError(f"sample {number}: expected a Sample; got {type(sample).__name__}")
    return listed


def _labels(result: Result, decode: str) -> LabelArray:
    if decode == "map":
        return result.labels
    graph, beliefs = result.graph, result.beliefs.flat
    singles = graph.single_regions
    sizes = graph.table_sizes[singles]
    labels = np.zeros(graph.num_variables, dtype=np.int64)
    for size in np.unique(sizes).tolist():
        some = np.flatnonzero(sizes == size)
        labels[some] = beliefs[graph.table_offsets[singles[some], None] + np.arange(size)].argmax(axis=1)
    return labels


def _initial_weights(initial: Any, layout: WeightLayout) -> FloatArray:
    if initial is None:
        return np.zeros(layout.size)
    if isinstance(initial, BlendedLearner):
        initial._require_fit()
        if initial.layout_ != layout:
            raise OptionError(f"initial: that learner has other weights: {initial.layout_} instead of {layout}")
        return initial.weights_.copy()
    try:
        weights = np.array(initial, dtype=np.float64)
    except (TypeError, ValueError):
        raise OptionError("initial must be None, weights [K] or a fitted learner") from None
    if weights.shape != (layout.size,) or not np.isfinite(weights).all():
        raise OptionError(f"initial weights must be finite and of shape ({layout.size},); got {weights.shape}")
    return weights
