"""The driver of norm-product: sweeps, mixed by Anderson's method behind a safeguard, certificates now and then."""

from __future__ import annotations

import math
import sys
import time
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from blendfield.backends.protocol import FloatArray, Problem
from blendfield.inference import memory
from blendfield.inference.anderson import History
from blendfield.inference.bounds import Bounds
from blendfield.inference.options import Options, Progress
from blendfield.inference.program import Kind, Models

SLACK = {"float64": 1e-13, "float32": 1e-7}
"""F may rise by this share of max(1, |F|): rounding."""


ANNEALING_FACTOR = 0.2
ANNEALING_SWEEPS = 20


def annealing_temperatures(epsilon: float, hottest: float) -> list[float]:
    """Temperatures from below `hottest` down to above `epsilon`.

    Where potentials are large against epsilon, descent from zero creeps; a few sweeps at each of these, certificates
    still being those at epsilon, give it a better start.
    """
    temperatures = []
    temperature = epsilon / ANNEALING_FACTOR
    while temperature < hottest:
        temperatures.append(temperature)
        temperature /= ANNEALING_FACTOR
    return temperatures[::-1]


def solve(problem: Problem, bounds: Bounds, monitor: Monitor, sweeper: Sweeper, annealing: list[float]) -> str:
    """Sweep until converged or told to stop; returns the reason. At the end the messages are those after a sweep."""
    monitor.watch_progress = False
    for temperature in annealing:
        reason = _solve_at(temperature, ANNEALING_SWEEPS, problem, bounds, monitor, sweeper)
        if reason is not None:
            return reason
    monitor.watch_progress = True
    reason = _solve_at(bounds.epsilon, sys.maxsize, problem, bounds, monitor, sweeper)
    return reason or "max_iterations"


def _solve_at(
    temperature: float, sweeps: int, problem: Problem, bounds: Bounds, monitor: Monitor, sweeper: Sweeper
) -> str | None:
    """Some sweeps at one temperature; bounds are always those at the temperature asked for."""
    problem.set_epsilon(temperature)
    sweeper.restart()
    for _ in range(sweeps):
        if (reason := monitor.exhausted()) is not None:
            return reason
        sweeper.advance()
        sweeper.sweep()
        monitor.iteration += 1
        bounds.exact_done |= temperature == bounds.epsilon
        if monitor.certificate_due():
            problem.set_epsilon(bounds.epsilon)
            bounds.certify()
            if monitor.labels_due():
                bounds.find_labels()
            if (reason := monitor.report()) is not None:
                return reason
            problem.set_epsilon(temperature)
    return None


def history_slots(models: Models, options: Options) -> int:
    """Steps of mixing history that fit; 0: no mixing."""
    if options.acceleration is None:
        return 0
    message_bytes = models.num_messages * np.dtype(options.dtype).itemsize
    return options.acceleration.slots(message_bytes, memory.available_bytes())


class Sweeper(Protocol):
    """One iteration: `advance` moves to the next starting point; `sweep` ends in a state that may be kept."""

    def sweep(self) -> None:
        """One full sweep."""

    def advance(self) -> None:
        """Mix."""

    def recover(self) -> None:
        """After an interruption: back to the state after the last complete sweep, where that is known."""

    def restart(self) -> None:
        """The problem changed: forget the past."""


class PlainSweeper:
    """Sweeps, and nothing else."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def sweep(self) -> None:
        self.problem.sweep()

    def advance(self) -> None:
        pass

    def recover(self) -> None:
        pass

    def restart(self) -> None:
        pass


class MixedSweeper:
    """Anderson-mixed sweeps where F measures progress (no negative counting numbers).

    F after the sweep from a mixed point must not be above F after the sweep before; else the messages go back to
    that sweep and the history is forgotten. A plain sweep never raises F, so F never rises (mathematics §8).
    """

    def __init__(self, problem: Problem, history: History, slack: float) -> None:
        self.problem = problem
        self.history = history
        self.slack = slack
        self.value = math.inf
        self.mixed = False
        self.fresh = False

    def sweep(self) -> None:
        self.problem.save_point()
        value = self.problem.sweep_value()
        limit = self.value + self.slack * max(1.0, abs(self.value)) if math.isfinite(self.value) else math.inf
        if self.mixed and not value <= limit:
            self.history.restore_latest()
            self.mixed = self.fresh = False
            return
        self.value = value
        self.history.push()
        self.mixed = False
        self.fresh = True

    def advance(self) -> None:
        self.mixed = self.fresh and self.history.mix()

    def recover(self) -> None:
        self.history.restore_latest()

    def restart(self) -> None:
        self.history.clear()
        self.value = math.inf
        self.mixed = self.fresh = False


class DampedSweeper:
    """Sweeps where F measures nothing (negative counting numbers on graphs with cycles): the residual does instead.

    The map is S(x) = x + step (T(x) - x). The step is halved when residuals of plain steps keep growing, unless the
    caller set it; a mixed point whose residual is more than twice the last one is taken back and the history forgotten.
    """

    SCRATCH = 2
    """slots of the history beyond those mixed: x and T(x)"""
    PATIENCE = 3
    """plain steps that turn back, with growing residuals, before the step is halved"""
    STRAIGHT = 0.2
    """what a growing residual counts that does not turn back: it may lead away from a fixed point that repels"""
    LEAST_STEP = 1 / 16
    CONTRACTIONS = 6
    """residuals in a row that have to fall before steps are mixed, unless the step is the least: mixing finds fixed
    points that repel plain steps, too
    """

    def __init__(self, problem: Problem, history: History, damping: float | None = None) -> None:
        """`damping`: share of the old messages that stays, the step is 1 - damping; None: found on the way."""
        self.problem = problem
        self.history = history
        self.step = 1.0 if damping is None else 1.0 - damping
        self.least_step = self.LEAST_STEP if damping is None else self.step
        self.restart()

    def restart(self) -> None:
        self.history.clear()
        self.residual = math.inf
        self.growths = 0.0
        self.falls = 0
        self.mixed = False

    def sweep(self) -> None:
        before, after = self.history.total - 2, self.history.total - 1
        self.problem.save_point()
        if self.step < 1.0:
            self.problem.push(before)
        self.problem.sweep()
        if self.step < 1.0:
            self.problem.push(after)
            weights: FloatArray = np.zeros(self.history.total)
            weights[[before, after]] = 1.0 - self.step, self.step
            self.problem.mix(weights)
        residual = math.sqrt(self.history.push()) / self.step
        if self.mixed and not residual <= 2.0 * self.residual:
            self.history.forget_newest()
            self.history.restore_latest()
            self.mixed = False
            self.falls = 0
            return
        self.falls = self.falls + 1 if residual < self.residual else 0
        if not self.mixed and residual >= self.residual:
            self.growths += 1.0 if self.history.turned() else self.STRAIGHT
            if self.growths >= self.PATIENCE and self.step > self.least_step:
                self.step /= 2.0
                self.history.clear()
                self.growths = 0.0
        self.residual = residual
        self.mixed = False

    def advance(self) -> None:
        settling = self.falls >= self.CONTRACTIONS or self.step <= self.least_step < 1.0
        self.mixed = settling and self.history.mix()

    def recover(self) -> None:
        self.history.restore_latest()


class Monitor:
    """Counts sweeps, says when certificates are due and when to stop, keeps the history."""

    def __init__(self, options: Options, bounds: Bounds, started: float) -> None:
        """`started`: time.perf_counter() when the call began."""
        self.options = options
        self.bounds = bounds
        self.started = started
        self.share_of_time = 1.0
        """of the time limit, for sweeps"""
        self.iteration = 0
        self.certified_at = -1
        self.certificates = 0
        self.next_certificate = 1 if options.certificate_every is None else options.certificate_every
        kinds = set(bounds.kind.tolist())
        self.one_sweep = bool(bounds.models.one_sweep.all())
        self.monotone = kinds <= {Kind.EXACT, Kind.CONVEX}
        # The history: one entry per certificate, bounds by model; see `history`.
        self.iterations: list[int] = []
        self.seconds: list[float] = []
        self.upper: list[FloatArray] = []
        self.lower: list[FloatArray] = []
        self.gap: list[FloatArray] = []
        self.watch_progress = True
        """stop when stalled"""
        self._mark = (0, math.inf, math.inf)  # iteration, upper and error when progress was last seen

    def elapsed(self) -> float:
        """Seconds since the call began."""
        return time.perf_counter() - self.started

    def exhausted(self) -> str | None:
        """The reason to stop before another sweep, if there is one."""
        if self.iteration >= self.options.max_iterations:
            return "max_iterations"
        return "time_limit" if self.late(self.share_of_time) else None

    def late(self, share: float = 1.0) -> bool:
        """That share of the time there is has gone."""
        return self.options.time_limit is not None and self.elapsed() >= share * self.options.time_limit

    def certificate_due(self) -> bool:
        """After 1, 2, 4, 8 sweeps, then after a quarter more each time, and after the last: never by the clock."""
        if self.one_sweep or self.iteration == self.options.max_iterations:
            return True
        if self.iteration < self.next_certificate:
            return False
        if self.options.certificate_every is not None:
            self.next_certificate = self.iteration + self.options.certificate_every
        elif self.iteration < 8:
            self.next_certificate = 2 * self.iteration
        else:
            self.next_certificate = math.ceil(1.25 * self.iteration)
        return True

    def labels_due(self) -> bool:
        """Labels are made at the certificates number 1, 2, 4, 8, ... if they may matter (and once more at the end)."""
        return (self.certificates + 1).bit_count() == 1 and self.bounds.scores_may_help()

    def report(self) -> str | None:
        """Enter a certificate into the history and tell the callback; the reason to stop, if there is one."""
        upper, lower, gap = self.record()
        self.certificates += 1
        stop = False
        if self.options.callback is not None:
            total_upper, total_lower = float(upper.sum()), float(lower.sum())
            progress = Progress(self.iteration, total_upper, total_lower, float(gap.sum()), self.seconds[-1])
            answer = self.options.callback(progress)
            stop = isinstance(answer, (bool, np.bool_)) and bool(answer)
        if stop:
            return "callback"
        if self.bounds.converged().all():
            return "converged"
        return "stalled" if self._stalled() else None

    def record(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Enter (upper, lower, gap), each float64 [N], into the history, in place of what it has for this iteration."""
        summary = self.bounds.summary()
        if self.certified_at == self.iteration:
            self.iterations.pop()
            self.seconds.pop()
            for entries in (self.upper, self.lower, self.gap):
                entries.pop()
        self.certified_at = self.iteration
        self.iterations.append(self.iteration)
        self.seconds.append(self.elapsed())
        for entries, values in zip((self.upper, self.lower, self.gap), summary, strict=True):
            entries.append(values)
        return summary

    def history(self) -> dict[str, npt.NDArray[Any]]:
        """iteration [C], upper, lower, gap [C, N], seconds [C]: one entry per certificate."""
        return {
            "iteration": np.array(self.iterations, dtype=np.int64),
            "upper": np.array(self.upper),
            "lower": np.array(self.lower),
            "gap": np.array(self.gap),
            "seconds": np.array(self.seconds),
        }

    def _stalled(self) -> bool:
        """Neither F nor the gap got any better during half as many sweeps again (and ten)."""
        if self.one_sweep:
            return self.iteration > 0
        if not (self.monotone and self.watch_progress):
            return False
        upper = float(self.bounds.upper.sum())
        error = float(self.bounds.errors()[~self.bounds.converged()].sum())
        at, best_upper, best_error = self._mark
        if upper < best_upper - 1e-15 * abs(best_upper) or error < 0.99 * best_error:
            self._mark = (self.iteration, min(upper, best_upper), min(error, best_error))
            return False
        return self.iteration >= 1.5 * at + 10
