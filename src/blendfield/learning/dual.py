"""The best dual value known: a point (h, z) of the dual, made from all certificates so far.

For consistent beliefs q let h(q) = sum_r eps c_r H(q_r) + <q_r, l_r> and z(q) as in `regularisers`. Both belong to any
mixture of beliefs (h is concave), so for certificates (h_j, z_j) and weights a_j of the simplex

    D(a) = sum_j a_j h_j - h1*(-sum_j a_j z_j)

is a lower bound (mathematics §6). The truth, (0, 0), is where it starts. A new certificate is mixed in by an exact line
search; where the regulariser is C_k/2 w_k^2 and nothing else, so that D is a quadratic function of the a_j, the last
few certificates and the mixture so far are mixed anew all together.
"""

from __future__ import annotations

import math

import numpy as np

from blendfield.backends.protocol import FloatArray
from blendfield.engines.protocol import Certificate
from blendfield.learning.regularisers import Regulariser
from blendfield.learning.simplex import solve_simplex
from blendfield.model.inner import inner

GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
RECENT = 16
"""certificates kept besides the mixture"""
STEPS = 50
"""of the small quadratic problem, at most"""
ROUNDING = 1e-14
"""share of the terms of a difference that may be wrong"""


def height_of(certificate: Certificate, weights: FloatArray) -> float:
    """h = F - divergence - w.z of a certificate at these weights, without regulariser; rounding must not lift it."""
    slope = inner(weights, certificate.moments)
    terms = abs(certificate.value) + certificate.divergence + abs(slope)
    return certificate.value - certificate.divergence - slope - ROUNDING * terms


class DualPoint:
    """The mixture (h, z) and its value; z float64 [K]."""

    def __init__(self, regulariser: Regulariser, size: int, truth: bool = True) -> None:
        """Without `truth` nothing is known before the first certificate."""
        self.regulariser = regulariser
        self.height = 0.0
        self.moments: FloatArray = np.zeros(size)
        self.value = 0.0
        """D of the mixture: at the truth 0 - h1*(0) = 0"""
        if not truth:
            self.value = -math.inf
        self._recent: list[FloatArray] = []
        self._heights: FloatArray = np.zeros(1)  # of the mixture, then of the recent ones
        self._products: FloatArray = np.zeros((1, 1))  # sum_k z_ik z_jk / C_k

    def forget(self) -> None:
        """Keep the mixture only."""
        self._recent.clear()
        corner = inner(self.moments, self.moments / self.regulariser.strength) if self.regulariser.quadratic else 0.0
        self._heights, self._products = np.array([self.height]), np.array([[corner]])

    def add(self, height: float, moments: FloatArray) -> None:
        """Mix in a certificate; the value never falls."""
        if not (math.isfinite(height) and np.isfinite(moments).all()):
            return
        if self.value == -math.inf:
            self.height, self.moments = height, moments
            self.value = height - self.regulariser.conjugate(-moments)
            self.forget()
        elif self.regulariser.quadratic:
            self._mix_all(height, moments)
        else:
            self._mix(height, moments)

    def _mix_all(self, height: float, moments: FloatArray) -> None:
        if len(self._recent) == RECENT:
            del self._recent[0]
            keep = np.arange(RECENT + 1) != 1
            self._heights, self._products = self._heights[keep], self._products[np.ix_(keep, keep)]
        scaled = moments / self.regulariser.strength
        row = np.array([inner(other, scaled) for other in (self.moments, *self._recent)])
        self._recent.append(moments)
        self._heights = np.append(self._heights, height)
        self._products = np.block([[self._products, row[:, None]], [row, np.array([inner(moments, scaled)])]])
        start = np.zeros(len(row) + 1)
        start[0] = 1.0
        shares = solve_simplex(self._products, self._heights, start, 0.0, STEPS)
        mixed = shares[0] * self.moments
        for share, other in zip(shares[1:].tolist(), self._recent, strict=True):
            if share > 0:
                mixed += share * other
        mixed_height = float(shares @ self._heights)
        square = inner(mixed, mixed / self.regulariser.strength)
        value = mixed_height - 0.5 * square
        if not value > self.value:
            return
        self.value, self.height, self.moments = value, mixed_height, mixed
        row = shares @ self._products
        self._products[0], self._products[:, 0] = row, row
        self._products[0, 0], self._heights[0] = square, mixed_height

    def _mix(self, height: float, moments: FloatArray) -> None:
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
