"""Regularisers h1(w), their conjugates, and the step they take part in (mathematics §7).

    h1(w) = sum_k kappa |w_k| + C_k/2 w_k^2,       w_k >= 0 or <= 0 where a sign is asked for

With z_k = sum_r <q_r, phi_{k,r}> - phi_{k,r}(y_r) of consistent beliefs q, the dual is h - h1*(-z), and

    gap = (divergence of the beliefs) + h1(w) + h1*(-z) + w.z .
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from blendfield.backends.protocol import FloatArray
from blendfield.model.inner import inner


@dataclass(frozen=True)
class Regulariser:
    """Elastic net with a strength per weight, and signs. All arrays float64 [K]."""

    strength: FloatArray
    """C_k >= 0"""
    sparsity: FloatArray
    """kappa_k >= 0"""
    lowest: FloatArray
    """-inf, or 0 where w_k >= 0 is asked for"""
    highest: FloatArray
    """+inf, or 0 where w_k <= 0 is asked for"""

    @property
    def bounded(self) -> bool:
        """h1* is finite everywhere: some C_k > 0 for every weight."""
        return bool((self.strength > 0).all())

    @cached_property
    def quadratic(self) -> bool:
        """C_k/2 w_k^2 with C_k > 0, and nothing else."""
        free = np.isneginf(self.lowest) & np.isposinf(self.highest)
        return self.bounded and not self.sparsity.any() and bool(free.all())

    def value(self, weights: FloatArray) -> float:
        """h1(w)."""
        return 0.5 * inner(self.strength, weights**2) + inner(self.sparsity, np.abs(weights))

    def project(self, weights: FloatArray) -> FloatArray:
        """The nearest weights with the right signs."""
        return np.clip(weights, self.lowest, self.highest)

    def minimiser(self, weights: FloatArray, gradient: FloatArray, curvature: FloatArray) -> FloatArray:
        """argmin over v of gradient.(v - w) + sum_k curvature_k/2 (v_k - w_k)^2 + h1(v), weight by weight.

        gradient, curvature: of the data part. A weight without any curvature stays where it is.
        """
        total = curvature + self.strength
        usable = total > 0
        safe = np.where(usable, total, 1.0)
        centre = (curvature * weights - gradient) / safe
        threshold = self.sparsity / safe
        v = np.sign(centre) * np.maximum(np.abs(centre) - threshold, 0.0)
        return self.project(np.where(usable, v, weights))

    def conjugate(self, slope: FloatArray) -> float:
        """h1*(slope) = max over allowed v of slope.v - h1(v); +inf where C_k = 0 and the slope is too steep."""
        pull = np.abs(slope) - self.sparsity
        allowed = np.where(slope > 0, self.highest > 0, self.lowest < 0)
        pull = np.where(allowed, np.maximum(pull, 0.0), 0.0)
        soft = self.strength > 0
        if (pull[~soft] > 0).any():
            return float("inf")
        return float((pull[soft] ** 2 / (2.0 * self.strength[soft])).sum())

    def feasible_share(self, slope: FloatArray) -> float:
        """The largest t <= 1 with h1*(t slope) finite: min kappa / |slope| over weights with C_k = 0 (mathematics §7).

        Mixing q with the true labelling scales z by t.
        """
        hard = (self.strength == 0) & np.where(slope > 0, self.highest > 0, self.lowest < 0)
        steep = hard & (np.abs(slope) > self.sparsity)
        if not steep.any():
            return 1.0
        return float((self.sparsity[steep] / np.abs(slope[steep])).min()) * (1.0 - 1e-12)


def divergence(regulariser: Regulariser, weights: FloatArray, moments: FloatArray) -> float:
    """h1(w) + h1*(-z) + w.z, weight by weight, so that rounding cannot make it negative (Fenchel-Young)."""
    slope = -moments
    soft = (regulariser.strength > 0) & (regulariser.sparsity == 0)
    free = soft & np.isneginf(regulariser.lowest) & np.isposinf(regulariser.highest)
    # The plain quadratic: (z + C w)^2 / (2 C), without cancellation.
    c = regulariser.strength[free]
    total = float(((moments[free] + c * weights[free]) ** 2 / (2.0 * c)).sum())
    rest = ~free
    if rest.any():
        part = Regulariser(
            regulariser.strength[rest], regulariser.sparsity[rest], regulariser.lowest[rest], regulariser.highest[rest]
        )
        w, s = weights[rest], slope[rest]
        total += max(0.0, part.value(w) + part.conjugate(s) - inner(w, s))
    return total
