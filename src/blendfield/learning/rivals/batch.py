"""Samples evaluated together: their potentials at given weights, and the gradient that beliefs give.

With theta_i = l_i + Phi_i w, s_i the weight of sample i and A(theta_i) what an oracle makes of the potentials,

    loss(w) = sum_i s_i (A(theta_i) - theta_i(y_i)),      d loss / dw = sum_i s_i Phi_i^T (b_i - 1_{y_i}) .
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from blendfield.backends.protocol import FloatArray, LabelArray, RealArray
from blendfield.errors import LabelError
from blendfield.graph import disjoint_union
from blendfield.model.feature_map import FeatureMap
from blendfield.model.losses import loss_table, true_entries
from blendfield.model.sample import Sample
from blendfield.model.weights import WeightLayout

LongArray = npt.NDArray[np.int64]


class Batch:
    """n samples, V variables, R regions, N table entries, K weights."""

    def __init__(
        self, samples: Sequence[Sample], numbers: Sequence[int], layout: WeightLayout, threads: int | None = None
    ) -> None:
        """`numbers`: those of the samples in the training set, for errors."""
        self.graphs = [sample.graph for sample in samples]
        union = disjoint_union(self.graphs)
        self.graph = union.graph
        self.region_starts = union.region_starts
        self.variable_starts = union.variable_starts
        starts = self.graph.table_offsets[union.region_starts[:-1]].tolist()
        blocks = [sample.blocks for sample in samples]
        self._features = FeatureMap(layout, blocks, starts, self.graph.table_offsets, [1.0] * len(samples), threads)
        self.labels: LabelArray = np.concatenate([_known_labels(s, k) for s, k in zip(samples, numbers, strict=True)])
        self.base: FloatArray = np.concatenate([_base(s, k) for s, k in zip(samples, numbers, strict=True)])
        """float64 [N]: loss and known potentials"""
        self.weights: FloatArray = np.array([sample.weight for sample in samples])
        """float64 [n]"""
        self.sample_of_region: LongArray = np.repeat(np.arange(len(samples)), np.diff(union.region_starts))
        self.truth = self.entries(self.labels)
        """int64 [R]: where the true joint label of each region is"""

    def __len__(self) -> int:
        return len(self.graphs)

    @property
    def size(self) -> int:
        """N."""
        return len(self.base)

    def potentials(self, weights: FloatArray) -> FloatArray:
        """float64 [N]: theta at weights float64 [K]."""
        theta = self.base.copy()
        self._features.apply(weights, theta)
        return theta

    def entries(self, labels: LabelArray) -> LongArray:
        """int64 [R]: where the joint label of each region is, of labels int64 [V]."""
        return true_entries(self.graph, labels)[0]

    def scores(self, theta: FloatArray, entries: LongArray) -> FloatArray:
        """float64 [n]: the potential of one labelling per sample, given by its entries int64 [R]."""
        scores: FloatArray = np.bincount(self.sample_of_region, theta[entries], len(self)).astype(np.float64)
        return scores

    def indicator(self, entries: LongArray) -> FloatArray:
        """float64 [N]: the beliefs that are sure of one labelling."""
        beliefs = np.zeros(self.size)
        beliefs[entries] = 1.0
        return beliefs

    def loss(self, values: FloatArray, theta: FloatArray) -> float:
        """sum_i s_i (values_i - theta_i(y_i)); values float64 [n]."""
        return float(self.weights @ (values - self.scores(theta, self.truth)))

    def moments(self, beliefs: RealArray) -> FloatArray:
        """float64 [K]: sum_i s_i Phi_i^T (b_i - 1_{y_i}) of beliefs float [N]."""
        difference = np.array(beliefs, dtype=np.float64)
        difference[self.truth] -= 1.0
        return self.transposed(difference)

    def transposed(self, tables: FloatArray) -> FloatArray:
        """float64 [K]: sum_i s_i Phi_i^T tables_i of tables float64 [N]."""
        if (self.weights != 1.0).any():
            tables = tables * np.repeat(self.weights[self.sample_of_region], self.graph.table_sizes)
        return self._features.moments(tables)


def _known_labels(sample: Sample, number: int) -> LabelArray:
    if sample.labels is None:
        raise LabelError(f"sample {number} has no labels; training needs them")
    if (sample.labels < 0).any():
        variable = int((sample.labels < 0).argmax())
        raise LabelError(
            f"sample {number}, variable {variable} (region {sample.graph.single_regions[variable]}): the label is "
            "unobserved; rival trainers need every label"
        )
    return sample.labels


def _base(sample: Sample, number: int) -> FloatArray:
    """float64 [entries of the sample]."""
    base = np.zeros(int(sample.graph.table_offsets[-1])) if sample.fixed is None else sample.fixed.copy()
    assert sample.labels is not None
    loss = loss_table(sample.graph, sample.labels, sample.loss)
    if loss is not None:
        base += loss
    impossible = np.isneginf(base[true_entries(sample.graph, sample.labels)[0]])
    if impossible.any():
        raise LabelError(f"sample {number}, region {int(impossible.argmax())}: the true label is forbidden (-inf)")
    return base
