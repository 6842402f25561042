"""Inner products of long vectors on the calling thread.

The `@` of NumPy hands long vectors to a threaded BLAS. Its threads wait for more by spinning and take the processors
that our own threads, or workers on this machine, need; and the bits depend on their number.
"""

from __future__ import annotations

import numpy as np

from blendfield.backends.protocol import FloatArray


def inner(a: FloatArray, b: FloatArray) -> float:
    """sum_k a_k b_k; a, b: float64 [K]."""
    return float(np.einsum("k,k->", a, b))


def inner_products(rows: FloatArray, others: FloatArray) -> FloatArray:
    """float64 [m, n]: sum_k rows_ik others_jk; rows: float64 [m, K], others: float64 [n, K]."""
    products: FloatArray = np.einsum("ik,jk->ij", rows, others)
    return products
