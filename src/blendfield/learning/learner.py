"""The public learner."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from blendfield.backends.protocol import FloatArray
from blendfield.errors import LabelError
from blendfield.learning.blend import BlendOptions
from blendfield.learning.checkpoint import Checkpoints, identity_of
from blendfield.learning.checkpoint import resume as resume_run
from blendfield.learning.compile import TrainingSet, compile_training_set, regulariser_of
from blendfield.learning.options import LearnerOptions, check_checkpoint_options, check_learner_options
from blendfield.learning.prediction import Predictor, check_samples, initial_weights
from blendfield.learning.training import Limits, Training, TrainingProgress
from blendfield.model.digest import digests
from blendfield.model.sample import Sample
from blendfield.model.weights import WeightLayout


class BlendedLearner(Predictor):
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

    def fit(
        self,
        samples: Sequence[Sample],
        initial: Any = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 50,
        checkpoint_seconds: float = 0.0,
        resume: bool = False,
    ) -> BlendedLearner:
        """Learn from labelled samples.

        initial
            Weights float [K] or a fitted learner to start from.
        checkpoint
            A file that keeps the state of the run, written anew every `checkpoint_every` iterations, at most once in
            `checkpoint_seconds`.
        resume
            Go on from the checkpoint, if there is one, with the same bits as a run that was not interrupted.
        """
        options = self._options()
        keep = check_checkpoint_options(checkpoint, checkpoint_every, checkpoint_seconds, resume)
        samples = check_samples(samples)
        if not samples:
            raise LabelError("no samples: fit needs at least one")
        layout = WeightLayout.of_samples(samples)
        start = initial_weights(initial, layout)
        training_set = compile_training_set(samples, layout, self.counting_numbers, options)
        training = self._training(options, training_set, layout, start, initial is not None)
        if keep is not None:
            identity = identity_of(self, keep.every, layout, digests(samples))
            training.limits.checkpoint = Checkpoints(keep.path, identity, keep.seconds)
            training.limits.checkpoint_every = keep.every
            if resume and os.path.exists(keep.path):
                resume_run(keep.path, identity, training)
        training.run()
        self._take(training, layout)
        return self

    def _training(
        self, options: LearnerOptions, training_set: TrainingSet, layout: WeightLayout, start: FloatArray, warm: bool
    ) -> Training:
        """A run that is ready to begin at the weights `start`."""
        regulariser = regulariser_of(layout, self.C, self.l1, self.sign)
        return Training(
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
            warm=warm,
        )

    def _take(self, training: Training, layout: WeightLayout) -> None:
        self._take_weights(training.weights, layout)
        self.primal_ = training.primal
        self.dual_ = training.dual
        self.gap_ = training.gap
        self.history_ = training.history.arrays()
        self.converged_ = training.converged()
        self.stop_reason_ = "converged" if self.converged_ else training.reason
        self.n_iter_ = training.iteration

    def __repr__(self) -> str:
        fitted = f", {len(self.weights_)} weights, gap {self.gap_:.3g}" if hasattr(self, "weights_") else ""
        return f"BlendedLearner(epsilon={self.epsilon!r}, C={self.C!r}{fitted})"
