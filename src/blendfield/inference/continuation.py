"""epsilon = 0: block descent on the maximum gets stuck, so the temperature comes down in steps (mathematics §6)."""

from __future__ import annotations

import numpy as np

from blendfield.backends.protocol import FloatArray, Problem, RealArray
from blendfield.inference.bounds import Bounds
from blendfield.inference.norm_product import Monitor, Sweeper
from blendfield.inference.program import Kind

FACTOR = 0.5
SWEEPS = 20


class Continuation:
    """Sweeps at falling temperatures; after each temperature, bounds and labels at 0 (the best are kept)."""

    def __init__(self, problem: Problem, bounds: Bounds, monitor: Monitor, sweeper: Sweeper, hottest: float) -> None:
        """`hottest`: the first temperature."""
        self.problem = problem
        self.bounds = bounds
        self.monitor = monitor
        self.sweeper = sweeper
        self.temperature = hottest
        self.exact = bounds.kind == Kind.EXACT

    def solve(self) -> str:
        """Returns the reason to stop."""
        if self.exact.any():
            if (reason := self.monitor.exhausted()) is not None:
                return reason
            self._solve_forests()
            if self.exact.all():
                return self.monitor.report() or "stalled"
        while True:
            self.problem.set_epsilon(self.temperature)
            self.sweeper.restart()
            for step in range(SWEEPS):
                if (reason := self.monitor.exhausted()) is not None:
                    return reason
                if step:
                    self.sweeper.advance()
                self.sweeper.sweep()
                self.monitor.iteration += 1
            self.certify()
            if (reason := self.monitor.report()) is not None:
                return reason
            self.temperature *= FACTOR

    def _solve_forests(self) -> None:
        """Forests need no falling temperature: one upward and downward pass at 0."""
        self.problem.set_epsilon(0.0)
        self.problem.sweep()
        self.monitor.iteration += 1
        self.bounds.exact_done = True
        self.bounds.certify(self.temperature, self.exact)
        self.bounds.find_labels()

    def certify(self) -> None:
        """Bounds and labels at temperature 0, candidates from beliefs at the present temperature."""
        self.problem.set_epsilon(0.0)
        self.bounds.certify(self.temperature, ~self.exact)
        self.bounds.find_labels()


def potential_scale(tables: RealArray, offsets: FloatArray) -> float:
    """Root mean square over the regions of half their range of finite potentials; 1 if all are flat."""
    starts = offsets[:-1]
    if not len(starts):
        return 1.0
    highest = np.maximum.reduceat(tables, starts).astype(np.float64)
    lowest = np.minimum.reduceat(np.where(np.isneginf(tables), np.inf, tables), starts).astype(np.float64)
    finite = np.isfinite(highest) & np.isfinite(lowest)
    half = (highest[finite] - lowest[finite]) / 2.0
    half = half[half > 0]
    return float(np.sqrt(np.mean(half**2))) if len(half) else 1.0
