"""Labels that are proved by margin, at epsilon = 0.

F = sum_r max hat_r bounds every score from above. Of labellings with y_i = l, region r reaches only

    max_{y_r : y_i = l} hat_r = max hat_r - margin_r(l),

and their scores are at most F - sum_{r with i} margin_r(l). Where that is below the score of a labelling known, no best
labelling has y_i = l. In forests with exact messages hat_r are max-marginals: there one margin is the difference.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from blendfield.backends.protocol import FloatArray, LabelArray, Problem
from blendfield.graph import RegionGraph
from blendfield.inference.bounds import ROUNDING
from blendfield.inference.program import Kind, Models

BoolArray = npt.NDArray[np.bool_]

RANGE = 40.0
"""exp(-RANGE) is a belief even in float32"""


def certain_labels(
    models: Models, problem: Problem, upper: FloatArray, score: FloatArray, labels: LabelArray, dtype: str
) -> BoolArray:
    """bool [V]: every best labelling has labels[i]. upper, score: float64 [segments], at the problem's messages."""
    graph = models.program.graph
    segment = models.program.segment[graph.single_regions]
    bounded = (models.segment_kind == Kind.CONVEX) | (models.segment_kind == Kind.EXACT)
    needed = np.where(bounded, upper - score, np.inf) + ROUNDING[dtype] * np.maximum(1.0, np.abs(upper))
    finite = needed[np.isfinite(needed)]
    if not len(finite):
        return np.zeros(graph.num_variables, dtype=bool)
    numbers = models.program.counting_numbers
    used = np.flatnonzero(numbers > 0.0)
    temperature = float(finite.max()) / (RANGE * float(numbers[used].min(initial=np.inf)))
    logs = _log(problem.beliefs(temperature))
    starts = np.cumsum(graph.cardinalities, dtype=np.int64) - graph.cardinalities
    in_tree = (models.segment_kind == Kind.EXACT)[segment]
    total: FloatArray = np.zeros(int(graph.cardinalities.sum(dtype=np.int64)))
    largest = np.zeros_like(total)
    for regions, tables in _by_shape(graph, used, logs):
        tables *= -temperature * numbers[regions].reshape(-1, *[1] * (tables.ndim - 1))
        tables -= tables.min(axis=tuple(range(1, tables.ndim)), keepdims=True)
        for axis in range(tables.ndim - 1):
            others = tuple(a for a in range(1, tables.ndim) if a != axis + 1)
            variables = graph.region_variables[graph.region_offsets[regions] + axis]
            margin = tables.min(axis=others)
            entries = starts[variables][:, None] + np.arange(margin.shape[1])
            np.add.at(total, entries, margin)
            np.maximum.at(largest, entries, margin)
    margins = np.where(np.repeat(in_tree, graph.cardinalities), largest, total)
    margins[starts + labels] = np.inf
    least = np.minimum.reduceat(margins, starts) if len(starts) else np.zeros(0)
    return np.asarray(least > needed[segment])


def _log(beliefs: npt.NDArray[np.floating]) -> FloatArray:
    with np.errstate(divide="ignore"):
        logs: FloatArray = np.log(beliefs.astype(np.float64))
    return logs


def _by_shape(
    graph: RegionGraph, regions: npt.NDArray[np.int64], flat: FloatArray
) -> Iterator[tuple[npt.NDArray[np.int64], FloatArray]]:
    """(regions [n], their tables [n, ...]) for all `regions` of one shape after the other."""
    orders = graph.region_orders[regions]
    for order in np.unique(orders).tolist():
        rows = regions[orders == order]
        entries = graph.region_offsets[rows][:, None] + np.arange(order)
        shapes, which = np.unique(graph.cardinalities[graph.region_variables[entries]], axis=0, return_inverse=True)
        for k, shape in enumerate(shapes.tolist()):
            same = rows[which.ravel() == k]
            places = graph.table_offsets[same][:, None] + np.arange(int(np.prod(shape)))
            yield same, flat[places].reshape(-1, *shape)
