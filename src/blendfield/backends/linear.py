"""theta = base + Phi w in the memory of the host, for backends that work there (`protocol.LinearPotentials`)."""

from __future__ import annotations

import numpy as np

from blendfield.backends.protocol import Certificate, Features, FloatArray, LinearEvaluation, Problem, RealArray


def inverse_counting(counting_numbers: FloatArray) -> FloatArray:
    """float64 [R]: 1 / |c_r|, 0 where c_r = 0."""
    c = np.abs(counting_numbers)
    inverse: FloatArray = np.divide(1.0, c, out=np.zeros_like(c), where=c > 0)
    return inverse


class HostPotentials:
    """See `protocol.LinearPotentials`."""

    def __init__(self, problem: Problem, features: Features, base: RealArray | None) -> None:
        self.problem = problem
        self.features = features
        self._base = base
        entries = int(problem.program.graph.table_offsets[-1])
        self._theta: RealArray = np.zeros(entries, dtype=problem.dtype) if base is None else base.copy()
        self._inverse_counting = inverse_counting(problem.program.counting_numbers)

    def set_weights(self, weights: FloatArray) -> None:
        if self._base is None:
            self._theta.fill(0.0)
        else:
            np.copyto(self._theta, self._base)
        self.features.apply(weights, self._theta)
        self.problem.set_potentials(self._theta)

    def tables(self) -> RealArray:
        return self._theta

    def evaluate(self, curvature: bool, slot: int | None = None) -> LinearEvaluation:
        value, beliefs = self.problem.value_and_beliefs()
        moments = self.features.moments(beliefs)
        diagonal = None
        if curvature:
            epsilon = self.problem.epsilon
            diagonal = np.zeros_like(moments)
            if epsilon > 0:
                diagonal = self.features.curvature(beliefs, self._inverse_counting) / epsilon
        products = np.zeros(0) if slot is None else self.problem.push(slot)
        return LinearEvaluation(float(value.sum()), moments, diagonal, products)

    def trial(self, direction: FloatArray, steps: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        along = np.zeros_like(self._theta)
        self.features.apply(direction, along)
        return self.problem.trial(along, np.asarray(steps, dtype=np.float64))

    def certificate(self, smoothing: float) -> tuple[Certificate, FloatArray]:
        certificate = self.problem.certificate(smoothing, candidate=True)
        assert certificate.candidate is not None
        return certificate, self.features.moments(certificate.candidate)

    def moments(self, d: RealArray) -> FloatArray:
        return self.features.moments(d)
