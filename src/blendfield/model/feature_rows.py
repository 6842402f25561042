"""Features times matrices: products of our own, which keep to the number of threads asked for and give the same bits on
any; those of a linear algebra library wait for each other where the machine is busy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from blendfield import _core
from blendfield.model.pieces import FloatArray

PACK = 8
"""columns of dense matrices are padded to a multiple of this"""


class FeatureRows:
    """A matrix X float64 [N, F], dense or in compressed rows; N and F below 2^31."""

    def __init__(self, matrix: Any) -> None:
        """`matrix`: an array, or a csr_array."""
        self.shape: tuple[int, int] = matrix.shape
        self.sparse = hasattr(matrix, "tocsr")
        if self.sparse:
            self._rows = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
            self.data = np.ascontiguousarray(matrix.data, dtype=np.float64)
        else:
            self._rows = None, None
            self.data = np.ascontiguousarray(matrix, dtype=np.float64).reshape(-1)

    def times(self, matrix: FloatArray, threads: int = 0) -> FloatArray:
        """X M of M float64 [F, L], in any layout: float64 [N, L], a view."""
        out = np.empty((self.shape[0], _width(matrix)))
        _core.features_product(*self._rows, self.data, _padded(matrix), out, threads)
        return out[:, : matrix.shape[1]]

    def transposed_times(self, matrix: FloatArray, threads: int = 0, squared: bool = False) -> FloatArray:
        """X^T M of M float64 [N, L], in any layout: float64 [F, L], a view. `squared`: every entry of X is."""
        out = np.empty((self.shape[1], _width(matrix)))
        _core.features_transposed_product(*self._rows, self.data, squared, _padded(matrix), out, threads)
        return out[:, : matrix.shape[1]]


def _width(matrix: FloatArray) -> int:
    return -(-int(matrix.shape[1]) // PACK) * PACK


def _padded(matrix: FloatArray) -> FloatArray:
    """float64 [n, L and more], C-contiguous, zeros at the end."""
    if matrix.shape[1] == _width(matrix):
        return np.ascontiguousarray(matrix)
    dense = np.zeros((matrix.shape[0], _width(matrix)))
    dense[:, : matrix.shape[1]] = matrix
    return dense
