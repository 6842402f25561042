"""epsilon = 0: block descent on the maximum gets stuck, so the temperature comes down in steps (mathematics §6).

At each temperature T the sweeps go on until what the messages at T still lack is small against what T itself costs: let
gap_T be the gap of the candidate q for the program at T, gap_0 the gap of the same q for the program at 0. When
gap_T <= SHARE * gap_0, further sweeps at T would gain little at 0, and the temperature falls.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from blendfield.backends.protocol import Problem, RealArray
from blendfield.inference.bounds import Bounds
from blendfield.inference.norm_product import Monitor, Sweeper
from blendfield.inference.search import LabelSearch

FACTOR = 0.2
"""from one temperature to the next"""
SHARE = 0.3
ROUND = 10
"""sweeps between certificates, unless the caller says otherwise"""
MOST_ROUNDS = 20
"""at one temperature"""
CHUNK_ENTRIES = 1 << 16
COLDEST = {"float64": 1e-9, "float32": 1e-5}
"""times the hottest temperature: below, differences of potentials drown in rounding"""
WORTHWHILE = 0.01
PATIENCE = 2


class Patience:
    """Runs out where PATIENCE temperatures in a row close less than WORTHWHILE of the gap from a bound to a score."""

    def __init__(self) -> None:
        self.lowest = math.inf
        self.dull = 0

    def out(self, bound: float, score: float) -> bool:
        """After another temperature."""
        gained = self.lowest - bound > WORTHWHILE * (bound - score)
        self.dull = 0 if gained else self.dull + 1
        self.lowest = min(self.lowest, bound)
        return self.dull >= PATIENCE


class Continuation:
    """Sweeps at falling temperatures; every few of them bounds and labels at 0, of which the best are kept."""

    def __init__(self, problem: Problem, bounds: Bounds, monitor: Monitor, sweeper: Sweeper, hottest: float) -> None:
        """`hottest`: the first temperature, of the size of the potentials."""
        self.problem = problem
        self.bounds = bounds
        self.monitor = monitor
        self.sweeper = sweeper
        self.temperature = hottest
        self.coldest = COLDEST[monitor.options.dtype] * hottest
        self.round = monitor.options.certificate_every or ROUND
        self.one_sweep = bounds.models.one_sweep
        self.search = LabelSearch(problem, bounds, monitor)
        self.patience: Patience | None = None
        """where there are better things to do than to sweep on"""

    def solve(self, warm: bool) -> str:
        """Returns the reason to stop. `warm`: the messages are worth something, so start colder."""
        if self.one_sweep.any():
            if (reason := self.monitor.exhausted()) is not None:
                return reason
            self._solve_forests()
            if self.one_sweep.all():
                return self.monitor.report() or "stalled"
        self.monitor.watch_progress = False
        if warm:
            self.temperature *= FACTOR**2
            self.certify()
            if (reason := self.monitor.report()) is not None:
                return reason
        elif self.monitor.iteration == 0:  # the bound may well be better than after some sweeps at a high temperature
            self.problem.set_epsilon(0.0)
            self.bounds.take_ceiling()
        while True:
            if (reason := self._solve_at_temperature()) is not None:
                return reason
            if self.patience and self.patience.out(self.bounds.reached(), float(self.bounds.score.sum())):
                return "stalled"
            self.temperature = max(self.coldest, FACTOR * self.temperature)
            self.monitor.watch_progress = self.temperature == self.coldest

    def _solve_forests(self) -> None:
        """Forests and lone regions need no falling temperature: one upward and downward pass at 0."""
        self.problem.set_epsilon(0.0)
        self.problem.sweep()
        self.monitor.iteration += 1
        self.bounds.exact_done = True
        self.bounds.certify(self.temperature, self.one_sweep)
        self.bounds.find_labels()

    def _solve_at_temperature(self) -> str | None:
        """Sweep at the present temperature until another one promises more; the reason to stop, if there is one."""
        self.sweeper.restart()
        for _ in range(MOST_ROUNDS):
            self.problem.set_epsilon(self.temperature)
            for _ in range(self.round):
                if (reason := self.monitor.exhausted()) is not None:
                    return reason
                self.sweeper.advance()
                self.sweeper.sweep()
                self.monitor.iteration += 1
            gap_here = self.problem.certificate().spread[~self.one_sweep]
            self.certify()
            if (reason := self.monitor.report()) is not None:
                return reason
            gap_at_zero = self.bounds.spread[~self.one_sweep]
            known = np.isfinite(gap_here) & np.isfinite(gap_at_zero)
            if gap_here[known].sum() <= SHARE * gap_at_zero[known].sum():
                break
        return None

    def certify(self) -> None:
        """Bounds and labels at temperature 0, candidates from beliefs at the present temperature."""
        self.problem.set_epsilon(0.0)
        self.bounds.certify(self.temperature, ~self.one_sweep)
        self.bounds.find_labels()
        self.search.improve()


def potential_scale(tables: RealArray, offsets: npt.NDArray[np.int64]) -> float:
    """Root mean square over the regions of half their range of finite potentials; 1 if all are flat.

    tables: float [table layout], offsets: int64 [R+1].
    """
    squares, count = 0.0, 0
    regions = len(offsets) - 1
    step = max(1, CHUNK_ENTRIES * regions // max(1, int(offsets[-1])))  # little memory beyond the tables
    for first in range(0, regions, step):
        ends = offsets[first : first + step + 1]
        part, starts = tables[ends[0] : ends[-1]], ends[:-1] - ends[0]
        highest = np.maximum.reduceat(part, starts).astype(np.float64)
        lowest = np.minimum.reduceat(np.where(part == -np.inf, np.inf, part), starts).astype(np.float64)
        uneven = np.isfinite(highest) & np.isfinite(lowest) & (highest > lowest)
        squares += float((((highest - lowest)[uneven] / 2.0) ** 2).sum())
        count += int(uneven.sum())
    return math.sqrt(squares / count) if count else 1.0
