"""The features of chains side by side: from weights to U and T, and from beliefs back to gradients.

Blocks of linear features over all positions, and over the pairs, are products of matrices; whatever else there is on
single variables goes through the general kernels, on rows [N, L].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from blendfield.backends.protocol import FloatArray
from blendfield.learning.chains.passes import LongArray
from blendfield.model.feature_map import FeatureMap
from blendfield.model.feature_rows import FeatureRows
from blendfield.model.pieces import BlockShape, BoundBlock, Linear, Piece
from blendfield.model.sample import Sample
from blendfield.model.weights import WeightLayout


class ChainFeatures:
    """L labels, N positions, K weights."""

    def __init__(
        self,
        samples: Sequence[Sample],
        columns: list[LongArray],
        labels: int,
        layout: WeightLayout,
        threads: int | None,
    ) -> None:
        """`columns`: of every chain; see `Positions.of`."""
        self.labels = labels
        self.size = layout.size
        self.count = sum(len(column) for column in columns)
        self._nodes: list[_Nodes] = []
        self._pairs: dict[str, tuple[int, FloatArray]] = {}  # block: (offset, the features of every pair, float64 [F])
        gathered: dict[str, list[tuple[Piece, LongArray]]] = {}
        shapes: dict[str, BlockShape] = {}
        for sample, column in zip(samples, columns, strict=True):
            pair_entries = max(len(column) - 1, 0) * labels**2
            for block in sample.blocks:
                shapes[block.name] = block.shape
                for piece in block.pieces:
                    if len(piece.start) == 0:
                        continue
                    if int(piece.start[0]) < pair_entries:
                        assert isinstance(piece, Linear)
                        self._pairs[block.name] = layout.offset(block.name), piece.features[0]
                    else:
                        place = column[(piece.start - pair_entries) // labels]
                        gathered.setdefault(block.name, []).append((piece, place))
        rest = []
        for name, pieces in gathered.items():
            offset = layout.offset(name)
            if sum(len(place) for _, place in pieces) == self.count and all(isinstance(p, Linear) for p, _ in pieces):
                self._nodes.append(_Nodes(offset, labels, [(p.features, place) for p, place in pieces], threads))  # type: ignore
            else:
                moved = [replace(piece, start=place * labels) for piece, place in pieces]
                rest.append(BoundBlock(name, shapes[name], _by_start(moved)))
        self._rest: FeatureMap | None = None
        if rest:
            offsets = np.arange(self.count + 1, dtype=np.int64) * labels
            self._rest = FeatureMap(layout, [rest], [0], offsets, [1.0], threads)

    def potentials(self, weights: FloatArray, base: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(U float64 [L, N], `base` [L, N] included; T float64 [L, L])."""
        unary = base.copy()
        for nodes in self._nodes:
            nodes.apply(weights, unary)
        if self._rest is not None:
            rows = np.zeros(unary.size)
            self._rest.apply(weights, rows)
            unary += rows.reshape(-1, self.labels).T
        pair = np.zeros(self.labels**2)
        for offset, row in self._pairs.values():
            pair += weights[offset : offset + len(pair) * len(row)].reshape(len(pair), -1) @ row
        return unary, pair.reshape(self.labels, self.labels)

    def moments(self, nodes: FloatArray, pairs: FloatArray) -> FloatArray:
        """float64 [K]: from beliefs float64 [L, N], and [L, L] summed over pairs, sample weights included."""
        out = np.zeros(self.size)
        for part in self._nodes:
            part.moments(nodes, out)
        if self._rest is not None:
            out += self._rest.moments(np.ascontiguousarray(nodes.T).ravel())
        for offset, row in self._pairs.values():
            out[offset : offset + pairs.size * len(row)] += np.outer(pairs.ravel(), row).ravel()
        return out

    def curvature(self, nodes: FloatArray, weights: FloatArray, pairs: FloatArray) -> FloatArray:
        """float64 [K]: sum_r s_r Var_b(phi); weights s float64 [N], `pairs` the variances of entries, [L, L]."""
        out = np.zeros(self.size)
        variances = np.maximum(nodes * (1.0 - nodes), 0.0) * weights
        for part in self._nodes:
            part.moments(variances, out, squared=True)
        if self._rest is not None:
            out += np.maximum(self._rest.statistics(np.ascontiguousarray(nodes.T).ravel(), weights)[1], 0.0)
        for offset, row in self._pairs.values():
            out[offset : offset + pairs.size * len(row)] += np.outer(pairs.ravel(), row**2).ravel()
        return out


class _Nodes:
    """Linear features of all positions, float64 [N, F], dense or CSR."""

    def __init__(self, offset: int, labels: int, parts: list[tuple[Any, LongArray]], threads: int | None) -> None:
        order = np.argsort(np.concatenate([place for _, place in parts]))
        self.features = FeatureRows(_stacked([features for features, _ in parts])[order])
        self.labels = labels
        self.part = slice(offset, offset + labels * self.features.shape[1])
        self.threads = threads or 0

    def apply(self, weights: FloatArray, unary: FloatArray) -> None:
        """unary += W X^T."""
        unary += self.features.times(weights[self.part].reshape(self.labels, -1).T, self.threads).T

    def moments(self, nodes: FloatArray, out: FloatArray, squared: bool = False) -> None:
        """out += nodes X, or nodes X^2."""
        part = out[self.part].reshape(self.labels, -1)
        part += self.features.transposed_times(nodes.T, self.threads, squared).T


def _stacked(parts: list[Any]) -> Any:
    """One below the other."""
    if not hasattr(parts[0], "tocsr"):
        return np.concatenate(parts)
    from scipy.sparse import csr_array

    counts = np.concatenate([np.diff(part.indptr) for part in parts])
    indptr = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    data = np.concatenate([part.data for part in parts])
    indices = np.concatenate([part.indices for part in parts])
    return csr_array((data, indices, indptr), shape=(len(counts), parts[0].shape[1]))


def _by_start(pieces: list[Piece]) -> list[Piece]:
    """Linear pieces as one whose rows are in order, as its kernel wants them; others sort themselves."""
    linear = [piece for piece in pieces if isinstance(piece, Linear)]
    others: list[Piece] = [piece for piece in pieces if not isinstance(piece, Linear)]
    if not linear:
        return others
    start = np.concatenate([piece.start for piece in linear])
    order = np.argsort(start)
    return [*others, Linear(start[order], _stacked([piece.features for piece in linear])[order], linear[0].size)]
