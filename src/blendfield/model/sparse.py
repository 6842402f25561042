"""Sparse features times dense matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from blendfield import _core
from blendfield.model.pieces import FloatArray

PACK = 8
"""columns of dense matrices are padded to a multiple of this"""


class SparseRows:
    """A matrix X float64 [N, F] in compressed rows; N, F and the number of entries below 2^31."""

    def __init__(self, matrix: Any, threads: int | None = None) -> None:
        """`matrix`: a csr_array."""
        self.shape: tuple[int, int] = matrix.shape
        self.indptr = matrix.indptr.astype(np.int64)
        self.indices = matrix.indices.astype(np.int32)
        self.data = np.ascontiguousarray(matrix.data, dtype=np.float64)
        self.threads = threads or 0

    def times(self, transposed: FloatArray) -> FloatArray:
        """X M of M float64 [F, L] given as its transpose [L, F]: float64 [N, L]."""
        out = np.empty((self.shape[0], -(-len(transposed) // PACK) * PACK))
        _core.sparse_product(self.indptr, self.indices, self.data, _padded(transposed), out, self.threads)
        return out[:, : len(transposed)]

    def transposed_times(self, transposed: FloatArray, squared: bool = False) -> FloatArray:
        """X^T M of M float64 [N, L] given as its transpose [L, N]: float64 [F, L]. `squared`: every entry of X is."""
        out = np.empty((self.shape[1], -(-len(transposed) // PACK) * PACK))
        data = self.data**2 if squared else self.data
        _core.sparse_transposed_product(self.indptr, self.indices, data, _padded(transposed), out, self.threads)
        return out[:, : len(transposed)]


def _padded(transposed: FloatArray) -> FloatArray:
    """[L, n] as float64 [n, L and more], zeros at the end."""
    labels, count = transposed.shape
    dense = np.zeros((count, -(-labels // PACK) * PACK))
    dense[:, :labels] = transposed.T
    return dense
