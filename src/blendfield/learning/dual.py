"""The best dual value known: a point (h, z) of the dual, made from all certificates so far.

For consistent beliefs q let h(q) = sum_r eps c_r H(q_r) + <q_r, l_r> and z(q) as in `regularisers`. Both belong to any
mixture of beliefs (h is concave), so for certificates (h_j, z_j) and weights a_j of the simplex

    D(a) = sum_j a_j h_j - h1*(-sum_j a_j z_j)

is a lower bound (mathematics §6). Only the best mixture so far is kept; a new certificate is mixed in by an exact line
search. The truth, (0, 0), is where it starts.
"""

from __future__ import annotations

import math

import numpy as np

from blendfield.backends.protocol import FloatArray
from blendfield.learning.regularisers import Regulariser

GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


class DualPoint:
    """The mixture (h, z) and its value; z float64 [K]."""

    def __init__(self, regulariser: Regulariser, size: int) -> None:
        self.regulariser = regulariser
        self.height = 0.0
        self.moments: FloatArray = np.zeros(size)
        self.value = 0.0
        """D of the mixture: at the truth 0 - h1*(0) = 0"""

    def add(self, height: float, moments: FloatArray) -> None:
        """Mix in a certificate; the value never falls."""
        if not (math.isfinite(height) and np.isfinite(moments).all()):
            return
        share = self.regulariser.feasible_share(-moments)
        if share < 1.0:  # towards the truth, where h = z = 0
            height, moments = share * height, share * moments

        def at(t: float) -> float:
            mixed = (1.0 - t) * self.moments + t * moments
            return (1.0 - t) * self.height + t * height - self.regulariser.conjugate(-mixed)

        low, high = 0.0, 1.0
        a, b = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        value_a, value_b = at(a), at(b)
        for _ in range(40):
            if value_a < value_b:
                low, a, value_a = a, b, value_b
                b = low + GOLDEN * (high - low)
                value_b = at(b)
            else:
                high, b, value_b = b, a, value_a
                a = high - GOLDEN * (high - low)
                value_a = at(a)
        best, t = max((at(0.0), 0.0), (at(1.0), 1.0), (value_a, a), (value_b, b))
        if best > self.value or t == 1.0:
            self.height = (1.0 - t) * self.height + t * height
            self.moments = (1.0 - t) * self.moments + t * moments
            self.value = max(self.value, best)
