"""One training or test example."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield.errors import FeatureError, LabelError, OptionError
from blendfield.graph import RegionGraph
from blendfield.model.blocks import FixedPotentials, FreeWeights, TableFeatures, TiedLinear, bind_triples
from blendfield.model.losses import loss_table
from blendfield.model.pieces import BoundBlock
from blendfield.model.potentials import flatten_potentials

FloatArray = npt.NDArray[np.float64]


class Sample:
    """A region graph with features, true labels and a loss: theta_r = l_r + sum_k w_k phi_{k,r}.

    Parameters
    ----------
    graph
        A `RegionGraph` with V variables and R regions.
    features
        (region, weight, table) triples, the paper's phi_{k,r}, the table broadcastable to the region's shape, repeats
        add; and blocks: `TiedLinear`, `TableFeatures`, `FreeWeights`, `FixedPotentials`, in any mixture.
    labels
        int [V], -1 where unobserved; None for a sample to predict.
    loss
        "hamming": 1 per wrong variable on its single-variable region; `WeightedHamming`; None; or one array per region
        (as potentials), of which the value at the true labels is taken off.
    weight
        How much the sample counts, > 0: its part of the objective is multiplied by it.
    positions
        Where the variables are, float [V, d], such as (row, column) on a grid; only used to cut a large graph into
        parts (docs/scale-out.md).
    """

    graph: RegionGraph
    features: Sequence[Any]
    labels: npt.NDArray[np.int64] | None
    """int64 [V], -1 unobserved; None: unknown"""
    loss: Any
    weight: float
    positions: Any
    blocks: list[BoundBlock]
    """the features, ready for the kernels"""
    fixed: FloatArray | None
    """float64 [table layout]: the sum of the known potentials"""

    def __init__(
        self,
        graph: RegionGraph,
        features: Sequence[Any],
        labels: Any = None,
        loss: Any = "hamming",
        weight: float = 1.0,
        positions: Any = None,
    ) -> None:
        if not isinstance(graph, RegionGraph):
            raise FeatureError(f"graph: expected a RegionGraph; got {type(graph).__name__}")
        if isinstance(features, (TiedLinear, TableFeatures, FreeWeights, FixedPotentials)):
            features = [features]
        if not isinstance(features, (list, tuple)):
            raise FeatureError(f"features must be a list of triples and blocks; got {type(features).__name__}")
        if not isinstance(weight, Real) or isinstance(weight, bool) or not 0 < float(weight) < 1e100:
            raise OptionError(f"weight of a sample must be a finite number > 0; got {weight!r:.60}")
        self.graph = graph
        self.features = features
        self.weight = float(weight)
        self.positions = positions
        self.loss = loss
        self.labels = None if labels is None else _checked_labels(graph, labels)
        self.blocks = []
        self.fixed = None
        triples = []
        for feature in features:
            if isinstance(feature, FixedPotentials):
                table = np.asarray(flatten_potentials(graph, feature.potentials), dtype=np.float64)
                self.fixed = table if self.fixed is None else self.fixed + table
            elif isinstance(feature, (TiedLinear, TableFeatures, FreeWeights)):
                self.blocks.append(feature.bind(graph))
            else:
                triples.append(feature)
        if triples:
            self.blocks.insert(0, bind_triples(graph, triples))
        if self.labels is not None:
            loss_table(graph, self.labels, loss)  # finds faults now

    def __repr__(self) -> str:
        known = "unlabelled" if self.labels is None else "labelled"
        blocks = ", ".join(repr(block.name) if block.name else "triples" for block in self.blocks)
        return f"Sample({self.graph!r}, {known}, features: {blocks or 'none'})"


def _checked_labels(graph: RegionGraph, labels: Any) -> npt.NDArray[np.int64]:
    try:
        array = np.asarray(labels)
    except (ValueError, TypeError, OverflowError):
        raise LabelError("labels must be an array of integers, one per variable") from None
    if array.shape != (graph.num_variables,):
        raise LabelError(f"labels must have shape ({graph.num_variables},), one per variable; got {array.shape}")
    if array.dtype.kind not in "iub" and array.size:
        raise LabelError(f"labels must be integers; got dtype {array.dtype}")
    checked = array.astype(np.int64)
    wrong = np.flatnonzero((checked < -1) | (checked >= graph.cardinalities))
    if wrong.size:
        variable = int(wrong[0])
        last = int(graph.cardinalities[variable]) - 1
        raise LabelError(
            f"label of variable {variable} (region {graph.single_regions[variable]}) must be from 0 to {last}, or -1 "
            f"for unobserved; got {checked[variable]}"
        )
    return checked
