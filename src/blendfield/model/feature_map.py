"""The features of a chunk of samples as one linear map: weights to potentials, and back.

    theta = Phi w,      gradient = Phi^T d,      curvature_k = sum_r s_r Var_{b_r}(phi_{k,r})

All tables of the chunk lie one after the other (`start` counts from the chunk's first table). What was given per block
and sample becomes a few kernels, each over all samples at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from blendfield import _core
from blendfield.backends.protocol import RealArray
from blendfield.model.feature_rows import FeatureRows
from blendfield.model.pieces import BoundBlock, FloatArray, Int32Array, Int64Array, Linear, Piece, Rows, Terms
from blendfield.model.weights import WeightLayout

Same = Callable[[Any], Any]
Pieces = Sequence[tuple[Any, int, float]]
"""(piece, where the sample's tables begin, how often the sample counts)"""


class _Kernel(Protocol):
    def apply(self, weights: FloatArray, flat: RealArray, threads: int) -> None:
        """flat += Phi w."""

    def moments(self, d: RealArray, out: FloatArray, threads: int) -> None:
        """out += Phi^T d."""

    def statistics(self, b: RealArray, scale: FloatArray, out: FloatArray, threads: int) -> None:
        """out[0] += Phi^T b, out[1, k] += sum_r scale_r Var_{b_r}(phi_{k,r}); scale float64 [R], out [2, K]."""


class FeatureMap:
    """The features of several samples, compiled. K weights, N table entries, R regions."""

    def __init__(
        self,
        layout: WeightLayout,
        blocks: Sequence[Sequence[BoundBlock]],
        table_starts: Sequence[int],
        table_offsets: Int64Array,
        scales: Sequence[float],
        threads: int | None = None,
        same: Same = lambda array: array,
    ) -> None:
        """blocks[k]: those of sample k, whose tables begin at table_starts[k] and whose features count scales[k] times.

        table_offsets: int64 [R + 1], of all samples together. `same`: gives for every array of indices an equal one to
        be kept instead.
        """
        self.size = layout.size
        self.threads = threads or 0
        self.terms: list[TermsKernel] = []
        self.rows: list[RowsKernel] = []
        self.matrices: list[MatrixKernel] = []
        grouped: dict[tuple[Any, ...], list[tuple[Piece, int, float]]] = {}
        for sample_blocks, table_start, scale in zip(blocks, table_starts, scales, strict=True):
            for block in sample_blocks:
                for piece in map(_simplest, block.pieces):
                    grouped.setdefault(_kind(block.name, piece), []).append((piece, table_start, scale))
        for (name, *_), pieces in grouped.items():
            offset = layout.offset(name)
            first = pieces[0][0]
            if isinstance(first, Terms):
                self.terms.append(TermsKernel(pieces, offset, table_offsets, same))
            elif isinstance(first, Rows):
                self.rows.append(RowsKernel(pieces, offset, table_offsets, same))
            else:
                self.matrices.append(MatrixKernel(pieces, offset, table_offsets, same))

    def _kernels(self) -> list[_Kernel]:
        return [*self.terms, *self.rows, *self.matrices]

    def apply(self, weights: FloatArray, flat: RealArray) -> None:
        """flat += Phi w; float [N]."""
        for kernel in self._kernels():
            kernel.apply(weights, flat, self.threads)

    def moments(self, d: RealArray) -> FloatArray:
        """float64 [K]: Phi^T d, of d float [N]."""
        out = np.zeros(self.size)
        for kernel in self._kernels():
            kernel.moments(d, out, self.threads)
        return out

    def statistics(self, b: RealArray, scale: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(Phi^T b, sum_r scale_r Var_{b_r}(phi_{k,r})), each float64 [K], of beliefs b float [N] and scale float64
        [R], in one pass.
        """
        out = np.zeros((2, self.size))
        for kernel in self._kernels():
            kernel.statistics(b, scale, out, self.threads)
        return out[0], out[1]


def touched_weights(layout: WeightLayout, blocks: Sequence[Sequence[BoundBlock]]) -> npt.NDArray[np.bool_]:
    """bool [K]: the weights that features of these samples have; blocks[k]: those of sample k."""
    touched = np.zeros(layout.size, dtype=bool)
    for block in (block for own in blocks for block in own):
        part = touched[layout.slice(block.name)]
        for piece in block.pieces:
            if isinstance(piece, Terms):
                part[piece.weight] = True
            elif isinstance(piece, Rows):
                part[(piece.base[:, None] + np.arange(piece.size)).reshape(-1)] = True
            else:
                columns = piece.features.shape[1]
                table = part[: piece.size * columns].reshape(piece.size, columns)
                table[:, piece.features.indices if hasattr(piece.features, "tocsr") else slice(None)] = True
    return touched


def _simplest(piece: Piece) -> Piece:
    """A single column of features, such as a constant one, is a coefficient: no matrix product is needed."""
    if not isinstance(piece, Linear) or piece.features.shape[1] != 1 or hasattr(piece.features, "tocsr"):
        return piece
    column = np.ascontiguousarray(piece.features[:, 0])
    base = np.zeros(len(piece.start), dtype=np.int32)
    return Rows(piece.start, base, None if (column == 1.0).all() else column, piece.size)


def _kind(name: str, piece: Piece) -> tuple[Any, ...]:
    """Pieces that can share one kernel."""
    if isinstance(piece, Terms):
        return name, "terms", piece.tables.shape[1], piece.table is None, piece.coefficient is None
    if isinstance(piece, Rows):
        return name, "rows", piece.size
    return name, "linear", piece.size, hasattr(piece.features, "tocsr")


def _starts(pieces: Sequence[tuple[Piece, int, float]]) -> Int64Array:
    return np.concatenate([piece.start + start for piece, start, _ in pieces])


def _regions(starts: Int64Array, table_offsets: Int64Array) -> Int32Array:
    """The region of every start."""
    return (np.searchsorted(table_offsets, starts, side="right") - 1).astype(np.int32)


def _coefficients(pieces: Sequence[tuple[Any, int, float]]) -> FloatArray | None:
    """All coefficients, sample weights included; None if all are one."""
    if all(piece.coefficient is None and scale == 1.0 for piece, _, scale in pieces):
        return None
    return np.concatenate(
        [
            np.full(len(piece.start), scale) if piece.coefficient is None else piece.coefficient * scale
            for piece, _, scale in pieces
        ]
    )


class TermsKernel:
    """See `protocol.TermsPart`."""

    def __init__(self, pieces: Pieces, offset: int, table_offsets: Int64Array, same: Same) -> None:
        start = _starts(pieces)
        weight: Int32Array = np.concatenate([piece.weight for piece, _, _ in pieces]) + np.int32(offset)
        coefficient = _coefficients(pieces)
        tables: dict[int, tuple[int, FloatArray]] = {}  # the same array in many samples is kept once
        rows = 0
        row_of: list[Any] = []
        for piece, _, _ in pieces:
            if id(piece.tables) not in tables:
                tables[id(piece.tables)] = rows, piece.tables
                rows += len(piece.tables)
            first = tables[id(piece.tables)][0]
            own = np.arange(len(piece.start), dtype=np.int32) if piece.table is None else piece.table
            row_of.append(own + np.int32(first))
        table: Int32Array = np.concatenate(row_of)
        if (np.diff(start) < 0).any():  # the kernels want the terms of a region side by side
            order = np.argsort(start, kind="stable")
            start, weight, table = start[order], weight[order], table[order]
            coefficient = None if coefficient is None else coefficient[order]
        self.start, self.weight, self.coefficient = same(start), same(weight), coefficient
        self.tables, row = _distinct_rows(np.concatenate([array for _, array in tables.values()]), table)
        self.table = None if row is None else same(row)
        self._terms = self.start, self.weight, coefficient, self.table, self.tables
        self.region: Int32Array = same(_regions(start, table_offsets))

    def apply(self, weights: FloatArray, flat: RealArray, threads: int) -> None:
        _core.terms_apply(flat, weights, *self._terms, threads)

    def moments(self, d: RealArray, out: FloatArray, threads: int) -> None:
        _core.terms_moments(out, d, *self._terms, threads)

    def statistics(self, b: RealArray, scale: FloatArray, out: FloatArray, threads: int) -> None:
        _core.terms_statistics(out, b, scale, self.region, *self._terms, threads)


def _distinct_rows(tables: FloatArray, table: Int32Array) -> tuple[FloatArray, Int32Array | None]:
    """(tables, row of every term; None: its own, or the only one). Few tables, given again and again, are kept once."""
    if len(tables) <= 4096:
        distinct, place = np.unique(tables, axis=0, return_inverse=True)
        tables, table = distinct, place.reshape(-1).astype(np.int32)[table]
    trivial = len(tables) == 1 or np.array_equal(table, np.arange(len(tables)))
    return np.ascontiguousarray(tables), None if trivial else table


class RowsKernel:
    """See `protocol.RowsPart`."""

    def __init__(self, pieces: Pieces, offset: int, table_offsets: Int64Array, same: Same) -> None:
        start = _starts(pieces)
        base: Int32Array = np.concatenate([piece.base for piece, _, _ in pieces]) + np.int32(offset)
        coefficient = _coefficients(pieces)
        if (np.diff(start) < 0).any():
            order = np.argsort(start, kind="stable")
            start, base = start[order], base[order]
            coefficient = None if coefficient is None else coefficient[order]
        self.start, self.base, self.coefficient = same(start), same(base), coefficient
        self.size = int(pieces[0][0].size)
        self._rows = self.start, self.base, coefficient, self.size
        self.region: Int32Array = same(_regions(start, table_offsets))

    def apply(self, weights: FloatArray, flat: RealArray, threads: int) -> None:
        _core.free_apply(flat, weights, *self._rows, threads)

    def moments(self, d: RealArray, out: FloatArray, threads: int) -> None:
        _core.free_moments(out, d, *self._rows, threads)

    def statistics(self, b: RealArray, scale: FloatArray, out: FloatArray, threads: int) -> None:
        _core.free_statistics(out, b, scale, self.region, *self._rows, threads)


class MatrixKernel:
    """See `protocol.MatrixPart`: dense or sparse matrix products."""

    def __init__(self, pieces: Pieces, offset: int, table_offsets: Int64Array, same: Same) -> None:
        self.start: Int64Array = same(_starts(pieces))
        self.size: int = pieces[0][0].size
        self.offset = offset
        parts = [piece.features if scale == 1.0 else piece.features * scale for piece, _, scale in pieces]
        order: Any = slice(None)
        if (np.diff(self.start) < 0).any():
            order = np.argsort(self.start, kind="stable")
            self.start = self.start[order]
        if hasattr(parts[0], "tocsr"):
            from scipy.sparse import csr_array, vstack

            self.features: Any = csr_array(vstack(parts, format="csr"))[order]
        else:
            self.features = np.ascontiguousarray(np.concatenate(parts)[order])
        self._products = FeatureRows(self.features)
        self.width = int(self.features.shape[1])
        self.region: Int32Array = same(_regions(self.start, table_offsets))

    def _matrix(self, values: FloatArray) -> FloatArray:
        """The block's part of a vector over weights as [Y, F] (the first Y labels of it)."""
        stop = self.offset + self.size * self.width
        return values[self.offset : stop].reshape(self.size, self.width)

    def apply(self, weights: FloatArray, flat: RealArray, threads: int) -> None:
        rows = np.ascontiguousarray(self._products.times(self._matrix(weights).T, threads))
        _core.rows_scatter_add(flat, rows, self.start, threads)

    def moments(self, d: RealArray, out: FloatArray, threads: int) -> None:
        self._add(_core.rows_gather(d, self.start, self.size, threads), out, threads)

    def statistics(self, b: RealArray, scale: FloatArray, out: FloatArray, threads: int) -> None:
        rows = _core.rows_gather(b, self.start, self.size, threads)
        self._add(rows, out[0], threads)
        rows *= 1.0 - rows
        rows *= scale[self.region, None]
        self._add(rows, out[1], threads, squared=True)

    def _add(self, rows: FloatArray, out: FloatArray, threads: int, squared: bool = False) -> None:
        part = self._matrix(out)
        part += self._products.transposed_times(rows, threads, squared).T
