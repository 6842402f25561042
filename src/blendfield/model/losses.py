"""Task losses l_r(y_r): how wrong a labelling is, region by region; zero at the true labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield.errors import LossError
from blendfield.graph import RegionGraph
from blendfield.model.potentials import flatten_potentials

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WeightedHamming:
    """A wrong variable costs the weight of its true label, float [largest number of labels], all >= 0."""

    class_weights: npt.ArrayLike


def loss_table(graph: RegionGraph, labels: npt.NDArray[np.int64], loss: Any) -> FloatArray | None:
    """float64 [table layout]: l_r on all regions, shifted to zero at the true labels; None when there is no loss.

    labels: int64 [V], -1 unobserved. loss: None, "hamming" (1 per wrong variable on its single-variable region),
    `WeightedHamming`, or potentials in any form `infer` takes. Unobserved variables cost nothing; a region's own table
    is shifted where all its variables are observed.
    """
    if loss is None:
        return None
    if isinstance(loss, str):
        if loss != "hamming":
            raise LossError(f"loss must be 'hamming', None, WeightedHamming(...) or tables; got {loss!r:.60}")
        return _hamming(graph, labels, np.ones(int(graph.cardinalities.max(initial=1))))
    if isinstance(loss, WeightedHamming):
        return _hamming(graph, labels, _checked_weights(loss, graph))
    flat = np.array(flatten_potentials(graph, loss), dtype=np.float64)
    if np.isneginf(flat).any():
        region = int(np.searchsorted(graph.table_offsets, int(np.isneginf(flat).argmax()), side="right")) - 1
        raise LossError(f"loss of region {region} is -inf; expected finite numbers")
    entries, observed = true_entries(graph, labels)
    shift = np.where(observed, flat[entries], 0.0)
    return np.asarray(flat - np.repeat(shift, graph.table_sizes))


def true_entries(graph: RegionGraph, labels: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """(int64 [R]: where in the flat tables each region's true joint label lies, bool [R]: all variables observed).

    Unobserved variables count as label 0.
    """
    orders = graph.region_orders
    label = np.where(labels < 0, 0, labels)
    entry = np.zeros(graph.num_regions, dtype=np.int64)
    observed = np.ones(graph.num_regions, dtype=bool)
    for axis in range(int(orders.max(initial=0))):
        some = np.flatnonzero(orders > axis)
        variable = graph.region_variables[graph.region_offsets[some] + axis]
        entry[some] = entry[some] * graph.cardinalities[variable] + label[variable]
        observed[some] &= labels[variable] >= 0
    return graph.table_offsets[:-1] + entry, observed


def _hamming(graph: RegionGraph, labels: npt.NDArray[np.int64], class_weights: FloatArray) -> FloatArray:
    flat = np.zeros(int(graph.table_offsets[-1]))
    seen = np.flatnonzero(labels >= 0)
    regions = graph.single_regions[seen]
    sizes = graph.table_sizes[regions]
    cost = class_weights[labels[seen]]
    for size in np.unique(sizes).tolist():
        some = np.flatnonzero(sizes == size)
        flat[graph.table_offsets[regions[some], None] + np.arange(size)] = cost[some, None]
    flat[graph.table_offsets[regions] + labels[seen]] = 0.0
    return flat


def _checked_weights(loss: WeightedHamming, graph: RegionGraph) -> FloatArray:
    try:
        weights = np.asarray(loss.class_weights, dtype=np.float64)
    except (ValueError, TypeError):
        raise LossError("WeightedHamming: class_weights must be an array of numbers") from None
    needed = int(graph.cardinalities.max(initial=1))
    if weights.ndim != 1 or len(weights) < needed:
        raise LossError(f"WeightedHamming: expected a weight for each of {needed} labels; got shape {weights.shape}")
    if not (np.isfinite(weights) & (weights >= 0)).all():
        label = int((~(np.isfinite(weights) & (weights >= 0))).argmax())
        raise LossError(f"WeightedHamming: the weight of label {label} must be finite and >= 0; got {weights[label]}")
    return weights
