"""How far training is: the time that is left, and one line on the terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from blendfield.terminal import TerminalLine

if TYPE_CHECKING:
    from blendfield.learning.training import TrainingProgress

FEWEST = 3
"""certificates before anything is foretold"""


class Forecast:
    """When the gap will be small enough, if it goes on falling at the rate of the later half of its certificates."""

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self._iterations: list[int] = []
        self._logs: list[float] = []

    def add(self, iteration: int, relative_gap: float) -> None:
        """A certificate: gap / max(1, |primal|)."""
        if 0 < relative_gap < math.inf:
            self._iterations.append(iteration)
            self._logs.append(math.log(relative_gap))

    def last_iteration(self) -> float:
        """Of a run that ends by convergence; inf when nothing speaks for it."""
        first = len(self._logs) // 2
        if self.tolerance <= 0 or len(self._logs) < FEWEST or len(self._logs) - first < 2:
            return math.inf
        slope, _ = np.polyfit(self._iterations[first:], self._logs[first:], 1)
        if not slope < 0:
            return math.inf
        return self._iterations[-1] + max(0.0, (math.log(self.tolerance) - self._logs[-1]) / float(slope))

    def seconds_left(self, iteration: int, seconds: float, max_iterations: int, time_limit: float | None) -> float:
        """Until the first of convergence, iterations and time runs out."""
        if iteration == 0:
            return math.nan
        last = min(self.last_iteration(), max_iterations)
        left = max(0.0, last - iteration) * seconds / iteration
        return left if time_limit is None else min(left, max(0.0, time_limit - seconds))


class TrainingLine(TerminalLine):
    """Shows a `TrainingProgress` on the terminal."""

    def __call__(self, progress: TrainingProgress) -> None:
        if self.due:
            self.show(text_of(progress))


def text_of(progress: TrainingProgress) -> str:
    """One line."""
    parts = [f"iteration {progress.iteration}"]
    if math.isfinite(progress.primal):
        parts.append(f"primal {progress.primal:.6g}")
    if math.isfinite(progress.gap):
        parts.append(f"gap {progress.gap:.2g}")
    if math.isfinite(progress.validation):
        parts.append(f"validation error {progress.validation:.4g}")
    parts.append(duration(progress.seconds))
    if math.isfinite(progress.seconds_left):
        parts.append(f"about {duration(progress.seconds_left)} left")
    return "  ".join(parts)


def duration(seconds: float) -> str:
    """ "4.2 s", "3:05", "2:03:05" """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
