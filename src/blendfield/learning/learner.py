"""The public learner."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield import backends
from blendfield.backends.protocol import FloatArray
from blendfield.engines.protocol import Engine
from blendfield.errors import BlendfieldWarning, LabelError, OptionError
from blendfield.formats.shards import Shards
from blendfield.inference import memory
from blendfield.inference.options import check_integer
from blendfield.learning.blend import BlendOptions
from blendfield.learning.checkpoint import Checkpoints, identity_of
from blendfield.learning.checkpoint import resume as resume_run
from blendfield.learning.compile import chunk_bounds, compile_batches, compile_training_set, regulariser_of, sizes_of
from blendfield.learning.estimate import MemoryEstimate, estimate_memory
from blendfield.learning.options import LearnerOptions, check_checkpoint_options, check_learner_options
from blendfield.learning.prediction import Predictor, check_samples, initial_weights
from blendfield.learning.progress import TrainingLine
from blendfield.learning.regularisers import Regulariser
from blendfield.learning.stochastic import EpochProgress
from blendfield.learning.stochastic import run as run_by_batches
from blendfield.learning.storage import option_names
from blendfield.learning.training import History, Limits, Training, TrainingProgress
from blendfield.learning.validation import Validation
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
    soft_marginalisation
        Strength gamma of gamma/2 |messages|^2: neighbouring beliefs need not agree exactly. 0: they have to. Needs
        epsilon > 0 and positive counting numbers; weights and messages then move together by L-BFGS.
    acceleration
        "anderson", or None for plain iterations. `memory` is the number of iterations mixed.
    callback
        Called after every iteration with a `TrainingProgress`; stops when it returns True.
    certificate_every
        Iterations between certificates; "auto": after 1, 2, 4, 8, then a fifth more each time.
    validation_every, patience
        With a validation set: iterations between checks, and checks without a better result before training stops.
    verbose
        Shows a line of progress on the terminal. The logger "blendfield.learning" is told of every certificate anyway.

    parts
        Cut the graph of every sample into so many parts, which are then placed like samples of their own: for graphs
        larger than a machine. They exchange what they share once per iteration, so `sweeps` is how seldom. The optimum
        is the same, and certified alike. Regions that parts share need positive counting numbers.
    memory_limit
        Bytes that compiled samples may take (of each worker, where there are several); what does not fit is compiled
        anew from `samples` in every iteration, which should then be in files: see `Shards`. None: all has to fit.
    engine
        Where the samples are: "local", in this process; "ray", on the workers of a Ray cluster (docs/scale-out.md).
    engine_address, engine_workers, engine_timeout, engine_spare
        Of a Ray cluster: "auto" for the one of this machine, "local" for one that is started for this process alone,
        or "host:port"; how many workers, None for one per machine; seconds after which a silent worker is taken for
        hung; whether a process more is kept ready on every machine, so that a worker that dies is replaced at once.

    After `fit`: weights_ float64 [K], blocks_ {name: view of weights_ in the block's shape}, primal_, dual_, gap_,
    history_ (equal-length arrays iteration, primal, dual, gap, passes, seconds), converged_, n_iter_, stop_reason_
    ("converged", "time_limit", "max_iterations", "validation", "callback", "interrupted" by Ctrl-C, or "stalled":
    rounding allows no progress any more), validation_ (arrays iteration, error; None without a validation set).
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
        soft_marginalisation: float = 0.0,
        acceleration: str | None = "anderson",
        memory: int = 5,
        time_limit: float | None = None,
        callback: Callable[[TrainingProgress], object] | None = None,
        certificate_every: int | str = "auto",
        validation_every: int = 10,
        patience: int = 5,
        verbose: bool = False,
        parts: int | None = None,
        memory_limit: int | None = None,
        engine: str = "local",
        engine_address: str = "auto",
        engine_workers: int | None = None,
        engine_timeout: float = 600.0,
        engine_spare: bool = True,
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
        self.soft_marginalisation = soft_marginalisation
        self.acceleration = acceleration
        self.memory = memory
        self.time_limit = time_limit
        self.callback = callback
        self.certificate_every = certificate_every
        self.validation_every = validation_every
        self.patience = patience
        self.verbose = verbose
        self.parts = parts
        self.memory_limit = memory_limit
        self.engine = engine
        self.engine_address = engine_address
        self.engine_workers = engine_workers
        self.engine_timeout = engine_timeout
        self.engine_spare = engine_spare
        self._options()

    def _options(self) -> LearnerOptions:
        return check_learner_options(self)

    # Training.

    def fit(
        self,
        samples: Sequence[Sample],
        initial: Any = None,
        *,
        validation: Sequence[Sample] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 50,
        checkpoint_seconds: float = 0.0,
        resume: bool = False,
    ) -> BlendedLearner:
        """Learn from labelled samples.

        initial
            Weights float [K] or a fitted learner to start from; of its blocks those are taken that are here too.
        validation
            Labelled samples on which labels are predicted every `validation_every` iterations. The weights with the
            fewest wrong labels there are kept; after `patience` checks without better ones the run stops.
        checkpoint
            A file that keeps the state of the run, written anew every `checkpoint_every` iterations, at most once in
            `checkpoint_seconds`.
        resume
            Go on from the checkpoint, if there is one, with the same bits as a run that was not interrupted.
        """
        options = self._options()
        keep = check_checkpoint_options(checkpoint, checkpoint_every, checkpoint_seconds, resume)
        samples, layout = self._samples_and_layout(samples)
        start = initial_weights(initial, layout)
        _warn_of_no_bound(regulariser_of(layout, self.C, self.l1, self.sign), layout)
        watch = None
        if validation is not None:
            watch = Validation(self, layout, check_samples(validation), options.patience, options.validation_every)
        with closing(self._compile(samples, layout, options)) as engine:
            training = self._training(options, engine, layout, start, initial is not None)
            training.limits.validation = watch
            if keep is not None:
                watched = None if watch is None else digests(watch.samples)
                belongs = {"checkpoint_every": keep.every, "validation": watched}
                identity = identity_of(self, belongs, layout, _digests(samples))
                training.limits.checkpoint = Checkpoints(keep.path, identity, keep.seconds)
                training.limits.checkpoint_every = keep.every
                if resume and os.path.exists(keep.path):
                    resume_run(keep.path, identity, training)
            training.run()
        self._take(training, layout)
        return self

    def fit_by_batches(
        self,
        samples: Sequence[Sample],
        epochs: int = 10,
        batches: int = 16,
        initial: Any = None,
        callback: Callable[[EpochProgress], object] | None = None,
    ) -> BlendedLearner:
        """Learn by moving the weights after every batch: sooner somewhere useful when there are many samples, but
        nothing is certified on the way. Primal, dual and gap are those of one pass at the end.

        epochs
            Passes over all samples.
        batches
            Parts of the set, at least; they are visited in an order drawn from `random_state`.
        callback
            Called after every epoch with an `EpochProgress`; stops when it returns True.

        history_ has one entry per epoch, without primal and dual but for the last; estimates_ float64 [epochs] are
        what the batches said of the objective on the way. stop_reason_ "epochs", "time_limit", "callback",
        "interrupted", or "converged" if the gap at the end is within the tolerance.
        """
        options = self._options()
        epochs, batches = check_integer("epochs", epochs, 1), check_integer("batches", batches, 1)
        if options.epsilon == 0 or options.soft_marginalisation > 0 or options.parts or options.engine != "local":
            raise OptionError(
                "fit_by_batches needs epsilon > 0 and knows no soft_marginalisation, no parts and no other engine"
            )
        samples, layout = self._samples_and_layout(samples)
        regulariser = regulariser_of(layout, self.C, self.l1, self.sign)
        _warn_of_no_bound(regulariser, layout)
        chunks = compile_batches(samples, layout, self.counting_numbers, options, batches)
        start, limit = initial_weights(initial, layout), options.time_limit
        outcome = run_by_batches(
            chunks, regulariser, options.epsilon, start, epochs, self.random_state, options.sweeps, limit, callback
        )
        done = len(outcome.estimates)
        passes = max(chunk.passes_per_sweep for chunk in chunks) * options.sweeps + 1
        unknown = [math.nan] * max(0, done - 1)
        history = History(
            iteration=list(range(1, done + 1)),
            passes=[passes * k for k in range(1, done + 1)],
            seconds=outcome.seconds,
            primal=[*unknown, outcome.primal][-done:] if done else [],
            dual=[*unknown, outcome.primal - outcome.gap][-done:] if done else [],
            gap=[*unknown, outcome.gap][-done:] if done else [],
        )
        self._take_weights(outcome.weights, layout)
        self.primal_, self.gap_, self.dual_ = outcome.primal, outcome.gap, outcome.primal - outcome.gap
        self.history_, self.n_iter_ = history.arrays(), done
        self.validation_: dict[str, Any] | None = None
        self.estimates_ = np.array(outcome.estimates)
        self.converged_ = outcome.gap <= options.tolerance * max(1.0, abs(outcome.primal))
        self.stop_reason_ = "converged" if self.converged_ else outcome.reason
        return self

    def path(
        self, samples: Sequence[Sample], C: Sequence[Any] | None = None, epsilon: Sequence[float] | None = None
    ) -> list[BlendedLearner]:
        """Learners fitted one after the other, each starting from weights and messages of the one before.

        For every temperature of `epsilon`, in order, every strength of `C`, in order; None: that of this learner. The
        samples are compiled once. From large to small is the quick way for both.
        """
        strengths = [self.C] if C is None else list(C)
        temperatures = [self.epsilon] if epsilon is None else list(epsilon)
        learners = [self._with(epsilon=hot, C=strength) for hot in temperatures for strength in strengths]
        if not learners:
            raise OptionError("path needs at least one C and one epsilon")
        checked = [learner._options() for learner in learners]
        samples, layout = self._samples_and_layout(samples)
        for learner in learners:
            regulariser_of(layout, learner.C, learner.l1, learner.sign)  # finds faults now
        weights = initial_weights(None, layout)
        with closing(self._compile(samples, layout, checked[0])) as engine:
            for number, (learner, options) in enumerate(zip(learners, checked, strict=True)):
                training = learner._training(options, engine, layout, weights, number > 0)
                training.run()
                learner._take(training, layout)
                weights = learner.weights_
                if training.reason in ("interrupted", "callback"):
                    return learners[: number + 1]
        return learners

    def memory_estimate(self, samples: Sequence[Sample]) -> MemoryEstimate:
        """About how many bytes `fit` will take beyond the samples themselves, before any work is done."""
        options = self._options()
        return _estimate(self._samples_and_layout(samples)[0], options)

    def _samples_and_layout(self, samples: Any) -> tuple[Sequence[Sample], WeightLayout]:
        if isinstance(samples, Shards):
            return samples, samples.layout
        listed = check_samples(samples)
        if not listed:
            raise LabelError("no samples: training needs at least one")
        return listed, WeightLayout.of_samples(listed)

    def _compile(self, samples: Sequence[Sample], layout: WeightLayout, options: LearnerOptions) -> Engine:
        """The samples where training wants them; NotEnoughMemoryError before anything is allocated."""
        if options.engine == "local" and options.memory_limit is None and not isinstance(samples, Shards):
            estimate = _estimate(samples, options)
            backend = backends.get(backends.choose(options.backend, sum(sizes_of(samples))))
            need = estimate.total if backend.in_host_memory else estimate.features + estimate.temporary
            memory.require(need, f"training on {len(samples)} samples")
        return compile_training_set(samples, layout, self.counting_numbers, options)

    def _with(self, **changes: Any) -> BlendedLearner:
        """A learner with the same options but these."""
        options = {name: getattr(self, name) for name in option_names(type(self))}
        return type(self)(**{**options, **changes})

    def _training(
        self, options: LearnerOptions, engine: Engine, layout: WeightLayout, start: FloatArray, warm: bool
    ) -> Training:
        """A run that is ready to begin at the weights `start`."""
        regulariser = regulariser_of(layout, self.C, self.l1, self.sign)
        return Training(
            engine=engine,
            regulariser=regulariser,
            epsilon=options.epsilon,
            hottest=engine.scale,
            limits=Limits(
                tolerance=options.tolerance,
                max_iterations=options.max_iterations,
                time_limit=options.time_limit,
                callback=self.callback,
                certificate_every=options.certificate_every,
                line=TrainingLine() if options.verbose else None,
            ),
            options=BlendOptions(
                sweeps=options.sweeps,
                restart_messages=options.restart_messages,
                gamma=options.soft_marginalisation,
                memory=options.memory,
                slack=1e-12 if options.dtype == "float64" else 1e-6,
            ),
            passes_per_sweep=engine.passes_per_sweep,
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
        watch = training.limits.validation
        self.validation_ = None if watch is None else watch.history()

    def __repr__(self) -> str:
        fitted = f", {len(self.weights_)} weights, gap {self.gap_:.3g}" if hasattr(self, "weights_") else ""
        return f"BlendedLearner(epsilon={self.epsilon!r}, C={self.C!r}{fitted})"


def _estimate(samples: Sequence[Sample], options: LearnerOptions) -> MemoryEstimate:
    """Of a local run."""
    return estimate_memory(samples, chunk_bounds(samples, options.backend), max(2, options.memory), options.dtype)


def _warn_of_no_bound(regulariser: Regulariser, layout: WeightLayout) -> None:
    """Where a weight is not regularised at all, the dual is finite only at moments that match exactly."""
    bare = np.flatnonzero((regulariser.strength == 0) & (regulariser.sparsity == 0))
    if len(bare):
        name = next(name for name in layout.names if bare[0] < layout.slice(name).stop)
        where = f"block {name!r:.60}" if name else "the triples"
        warnings.warn(
            f"{len(bare)} weights (first in {where}) have C = 0 and l1 = 0: there is no useful lower bound, so the gap "
            "will not close; give them a small C to have one",
            BlendfieldWarning,
            stacklevel=3,
        )


def _digests(samples: Sequence[Sample]) -> npt.NDArray[np.uint8]:
    return samples.digests if isinstance(samples, Shards) else digests(samples)
