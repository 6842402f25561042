"""Inference on one graph larger than a machine: its parts are kept apart, each swept by itself."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from blendfield.backends.protocol import FloatArray, LabelArray
from blendfield.engines.protocol import MessagesLost
from blendfield.graph import RegionGraph
from blendfield.graph.partition import CutReport
from blendfield.inference.result import Tables
from blendfield.learning.compile import cut_training_set
from blendfield.learning.dual import DualPoint
from blendfield.learning.learner import BlendedLearner
from blendfield.model.blocks import FixedPotentials
from blendfield.model.losses import true_entries
from blendfield.model.sample import Sample
from blendfield.model.weights import WeightLayout


@dataclass(frozen=True, eq=False)
class PartsResult:
    """The outcome of `infer_in_parts`; see `inference.Result` for what the names mean. V variables."""

    labels: LabelArray
    """int64 [V]: the largest belief of every variable, ties to the lowest label"""
    score: float
    """sum of the potentials of `labels`"""
    upper: float
    lower: float
    gap: float
    converged: bool
    stop_reason: str
    iterations: int
    """exchanges between the parts"""
    beliefs: Tables
    history: dict[str, Any]
    """arrays iteration, primal (upper), dual (lower), gap, passes, seconds"""
    report: CutReport
    """what the cut costs"""


def infer_in_parts(
    graph: RegionGraph,
    potentials: Any,
    parts: int,
    epsilon: float = 1.0,
    counting_numbers: Any = "ones",
    *,
    exchange_every: int = 1,
    positions: Any = None,
    **options: Any,
) -> PartsResult:
    """Norm-product inference (`infer`) on a graph that is cut into `parts`, on one machine or many.

    Counting numbers have to be >= 0, and > 0 where parts share a region. The optimum is that of the whole graph.

    exchange_every
        Sweeps of the parts between two exchanges of what they share.
    positions
        float [V, d]: where the variables are, such as (row, column) on a grid: they are then cut geometrically; else
        by METIS where it is installed (see `graph.partition`).
    options
        As for `BlendedLearner`: tolerance, max_iterations, time_limit, threads, dtype, backend, acceleration, memory,
        certificate_every, callback, verbose, engine, engine_address, engine_workers, engine_timeout.
    """
    learner = BlendedLearner(epsilon, counting_numbers=counting_numbers, sweeps=exchange_every, parts=parts, **options)
    sample = Sample(graph, [FixedPotentials(potentials)], positions=positions)
    layout, checked = WeightLayout({}), learner._options()
    engine, (found,) = cut_training_set([sample], layout, counting_numbers, checked, labelled=False)
    theta: FloatArray = np.zeros(int(graph.table_offsets[-1])) if sample.fixed is None else sample.fixed
    with closing(engine):
        # Without weights and without a truth the data term is F itself.
        training = learner._training(checked, engine, layout, np.zeros(0), False)
        training.dual_point = DualPoint(training.regulariser, 0, truth=False)
        training.run()
        while True:
            try:
                training.blend.settle()
                flat = engine.beliefs()
                break
            except MessagesLost:
                training.blend.recover()
    beliefs = np.zeros(len(theta))
    for own, tables in zip(found.members, flat, strict=True):  # shared regions: the same in all parts
        beliefs[_entries(graph, own)] = tables
    labels = _best(graph, beliefs)
    upper, gap = training.primal, training.gap
    score = _score(graph, theta, labels)
    lower = max(upper - gap, score)
    gap = max(0.0, upper - lower)
    converged = gap <= checked.tolerance * max(1.0, abs(upper))
    return PartsResult(
        labels=labels,
        score=score,
        upper=upper,
        lower=lower,
        gap=gap,
        converged=converged,
        stop_reason="converged" if converged else training.reason,
        iterations=training.iteration,
        beliefs=Tables(graph, beliefs),
        history=training.history.arrays(),
        report=found.report(),
    )


def _entries(graph: RegionGraph, own: Any) -> Any:
    """Where the tables of the regions `own` are, int64."""
    sizes = graph.table_sizes[own]
    starts = np.cumsum(sizes) - sizes
    return np.repeat(graph.table_offsets[own] - starts, sizes) + np.arange(int(sizes.sum()))


def _score(graph: RegionGraph, theta: FloatArray, labels: LabelArray) -> float:
    return float(theta[true_entries(graph, labels)[0]].sum())


def _best(graph: RegionGraph, beliefs: FloatArray) -> LabelArray:
    singles = graph.single_regions
    labels = np.zeros(graph.num_variables, dtype=np.int64)
    sizes = graph.table_sizes[singles]
    for size in np.unique(sizes).tolist():
        some = np.flatnonzero(sizes == size)
        labels[some] = beliefs[graph.table_offsets[singles[some], None] + np.arange(size)].argmax(axis=1)
    return labels
