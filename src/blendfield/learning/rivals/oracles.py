"""What rival trainers ask of inference: values and beliefs at a temperature, or the best labels.

An oracle belongs to one `Batch`, is compiled once, and answers for potentials float64 [N].
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from blendfield import backends
from blendfield.backends.protocol import FloatArray, LabelArray, Problem, RealArray
from blendfield.errors import BlendfieldWarning
from blendfield.graph import RegionGraph
from blendfield.inference.anderson import History
from blendfield.inference.continuation import potential_scale
from blendfield.inference.infer import infer
from blendfield.inference.message_passing import solve_compiled
from blendfield.inference.norm_product import DampedSweeper
from blendfield.inference.options import check_options
from blendfield.inference.program import Models, build_models
from blendfield.learning.chunk import passes_per_sweep
from blendfield.learning.rivals.batch import Batch

ORACLES = ("belief-propagation", "mean-field", "exact")


@dataclass(frozen=True)
class InferenceOptions:
    """How oracles work."""

    epsilon: float
    counting_numbers: Any
    tolerance: float
    """belief propagation stops when a sweep moves messages by less than tolerance * epsilon (root mean square)"""
    max_iterations: int
    """sweeps at most"""
    restart: bool
    """messages start at zero in every call"""
    threads: int | None
    backend: str


@dataclass(frozen=True)
class Answer:
    """n samples, N table entries."""

    values: FloatArray
    """float64 [n]: A(theta_i)"""
    beliefs: RealArray
    """float [N]: dA/dtheta"""
    passes: float
    """evaluations over all tables of the batch"""


class Oracle(Protocol):
    """Values and beliefs."""

    def __call__(self, theta: FloatArray) -> Answer: ...


def make_oracle(name: str, batch: Batch, options: InferenceOptions) -> Oracle:
    """The oracle called `name` for one batch."""
    if name == "mean-field":
        return Method("mean-field", batch, options)
    if name == "belief-propagation":
        return Propagation(_models(batch.graphs, options.counting_numbers), options)
    models = _models(batch.graphs, "bethe")
    return Propagation(models, options) if models.one_sweep.all() else Method("exact", batch, options)


def is_exact(graphs: Sequence[RegionGraph]) -> bool:
    """One upward and one downward pass are exact on every graph."""
    return bool(_models(graphs, "bethe").one_sweep.all())


class Propagation:
    """Belief propagation in a compiled problem; exact by one sweep on forests.

    The value is the Bethe value, -min of the Bethe free energy where propagation has converged, so that its gradient is
    the moments of the beliefs.
    """

    def __init__(self, models: Models, options: InferenceOptions) -> None:
        self.models = models
        self.options = options
        self.passes_per_sweep = passes_per_sweep(models.program)
        self._problem: Problem | None = None

    def __call__(self, theta: FloatArray) -> Answer:
        options = self.options
        problem = self._ready(theta)
        sweeps = 0
        if self.models.one_sweep.all():
            problem.sweep()
            sweeps = 1
        else:
            if options.restart:
                problem.set_messages(np.zeros(int(self.models.message_ends[-1])))
            sweeper = self._sweeper
            sweeper.restart()
            enough = options.tolerance * options.epsilon * float(np.sqrt(self.models.message_ends[-1]))
            while sweeps < options.max_iterations and not sweeper.residual <= enough:
                sweeper.sweep()
                sweeps += 1
        values, beliefs = problem.value_and_beliefs()
        return Answer(self.models.per_model(values), beliefs, sweeps * self.passes_per_sweep + 1)

    def _ready(self, theta: FloatArray) -> Problem:
        if self._problem is None:
            self._problem = _compile(self.models, theta, self.options, self.options.epsilon)
            history = History(self._problem, 1, 0.0, scratch=DampedSweeper.SCRATCH)
            self._sweeper = DampedSweeper(self._problem, history)
        else:
            self._problem.set_potentials(theta)
        return self._problem


class Method:
    """A method of `infer`, from the start in every call."""

    def __init__(self, method: str, batch: Batch, options: InferenceOptions) -> None:
        self.batch = batch
        self.arguments: dict[str, Any] = {
            "epsilon": options.epsilon,
            "method": method,
            "max_iterations": options.max_iterations,
            "tolerance": options.tolerance,
            "threads": options.threads,
            "backend": options.backend,
        }

    def __call__(self, theta: FloatArray) -> Answer:
        batch = self.batch
        ends = batch.graph.table_offsets[batch.region_starts]
        parts = [theta[first:last] for first, last in pairwise(ends.tolist())]
        results = infer(batch.graphs, parts, **self.arguments)
        beliefs = np.concatenate([result.beliefs.flat for result in results])
        return Answer(np.array([result.lower for result in results]), beliefs, float(results[0].iterations + 1))


class Maximiser:
    """The best labels of every sample: exact on forests; elsewhere rounded from the linear relaxation, and searched."""

    def __init__(self, batch: Batch, options: InferenceOptions) -> None:
        self.batch = batch
        self.options = options
        models = _models(batch.graphs, "bethe")
        self.exact = bool(models.one_sweep.all())
        self.models = models if self.exact else _models(batch.graphs, options.counting_numbers)
        self.passes_per_sweep = passes_per_sweep(self.models.program)
        self.passes = 0.0
        """evaluations over all tables of the batch, since the start"""
        self._problem: Problem | None = None
        self._warm = False

    def __call__(self, theta: FloatArray) -> LabelArray:
        """int64 [V]."""
        options = self.options
        if self._problem is None:
            self._problem = _compile(self.models, theta, options, 0.0)
        else:
            self._problem.set_potentials(theta)
        if self.exact:
            self._problem.sweep()
            self.passes += self.passes_per_sweep + 1
            return self._problem.decode()
        outcome = solve_compiled(
            self.models,
            self._problem,
            _solver_options(options),
            potential_scale(theta, self.batch.graph.table_offsets),
            time.perf_counter(),
            warm=self._warm and not options.restart,
        )
        self._warm = True
        self.passes += outcome.iterations * self.passes_per_sweep
        return outcome.labels


def _models(graphs: Sequence[RegionGraph], counting_numbers: Any) -> Models:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BlendfieldWarning)
        return build_models(list(graphs), [counting_numbers] * len(graphs), 1.0, False, warn_uncertified=False)


def _compile(models: Models, theta: FloatArray, options: InferenceOptions, epsilon: float) -> Problem:
    backend = backends.get(options.backend)
    return backend.compile(models.program, theta, epsilon=epsilon, dtype="float64", threads=options.threads)


def _solver_options(options: InferenceOptions) -> Any:
    return check_options(
        epsilon=0.0,
        method="norm-product",
        max_iterations=options.max_iterations,
        tolerance=options.tolerance,
        time_limit=None,
        callback=None,
        threads=options.threads,
        dtype="float64",
        backend=options.backend,
        acceleration="anderson",
        certificate_every="auto",
        damping=None,
        restarts=0,
        tighten=0,
        memory_limit=None,
    )
