"""theta = base + Phi w in the memory of the host, for backends that work there (`protocol.LinearPotentials`)."""

from __future__ import annotations

import numpy as np

from blendfield.backends.protocol import (
    Certificate,
    Features,
    FloatArray,
    LinearEvaluation,
    Problem,
    RealArray,
    Workspace,
)


def inverse_counting(counting_numbers: FloatArray) -> FloatArray:
    """float64 [R]: 1 / |c_r|, 0 where c_r = 0."""
    c = np.abs(counting_numbers)
    inverse: FloatArray = np.divide(1.0, c, out=np.zeros_like(c), where=c > 0)
    return inverse


class HostPotentials:
    """See `protocol.LinearPotentials`."""

    def __init__(self, problem: Problem, features: Features, base: RealArray | None, workspace: Workspace) -> None:
        self.problem = problem
        self.features = features
        self._base = base
        self._workspace = workspace
        self._entries = int(problem.program.graph.table_offsets[-1])
        self._inverse_counting = inverse_counting(problem.program.counting_numbers)

    def _array(self, name: str) -> RealArray:
        """float [tables layout]"""
        return self._workspace.array(name, self._entries, self.problem.dtype)

    def set_weights(self, weights: FloatArray) -> None:
        theta = self.tables()
        if self._base is None:
            theta.fill(0.0)
        else:
            np.copyto(theta, self._base)
        self.features.apply(weights, theta)
        self.problem.set_potentials(theta)

    def tables(self) -> RealArray:
        return self._array("theta")

    def evaluate(self, curvature: bool, slot: int | None = None) -> LinearEvaluation:
        values, beliefs = self.problem.value_and_beliefs(self._array("beliefs"))
        variances = None
        if curvature:
            moments, variances = self.features.statistics(beliefs, self._inverse_counting)
            variances = variances / self.problem.epsilon if self.problem.epsilon > 0 else np.zeros_like(variances)
        else:
            moments = self.features.moments(beliefs)
        products = np.zeros(0) if slot is None else self.problem.push(slot)
        return LinearEvaluation(float(values.sum()), moments, variances, products)

    def trial(self, direction: FloatArray, steps: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        along = self._array("direction")
        along.fill(0.0)
        self.features.apply(direction, along)
        return self.problem.trial(along, np.asarray(steps, dtype=np.float64))

    def certificate(self, smoothing: float) -> tuple[Certificate, FloatArray]:
        certificate = self.problem.certificate(smoothing, candidate=True)
        assert certificate.candidate is not None
        return certificate, self.features.moments(certificate.candidate)

    def moments(self, d: RealArray) -> FloatArray:
        return self.features.moments(d)
