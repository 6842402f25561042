"""Tighter bounds on the best score at epsilon = 0: the same scores over larger and larger regions.

Each round joins regions along an order of elimination into tables of a limited size (mini-buckets), and sweeps over
the join graph at falling temperatures. F of its messages at 0 bounds the scores of the model as it was given, whatever
the regions are; rounding its messages gives labels, too. Where all fits in one junction tree, one sweep finds the best.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from blendfield.backends.protocol import Backend, Problem, RealArray
from blendfield.errors import NotEnoughMemoryError, SupportError
from blendfield.graph import JoinGraph, join_graph
from blendfield.inference import memory
from blendfield.inference.anderson import History
from blendfield.inference.bounds import Bounds
from blendfield.inference.continuation import COLDEST, FACTOR, Patience, potential_scale
from blendfield.inference.norm_product import SLACK, MixedSweeper, Monitor, PlainSweeper, Sweeper, history_slots
from blendfield.inference.program import Kind, Models, build_models

GROWTH = 4.0
"""table entries of a round over those of the round before, at least"""
MOST_ENTRIES = 2.0**28
"""of one table"""
SWEEPS = 5
"""between two looks at the bound"""
SETTLED = 0.1
"""of what the temperature costs: where that many sweeps gain no more, it falls"""
SECONDS = 1e-6
"""per table entry, for enough sweeps to be worth a round: it is not begun where less time is left"""


class Tightening:
    """Rounds of larger regions for N models side by side."""

    def __init__(self, models: Models, tables: RealArray, backend: Backend, bounds: Bounds, monitor: Monitor) -> None:
        """`tables`: float [table layout of the union], evidence clamped."""
        self.models = models
        self.source = models.program.graph
        self.tables = tables
        self.backend = backend
        self.bounds = bounds
        self.monitor = monitor
        self.options = monitor.options
        self.entries = float(self.source.table_offsets[-1])
        self.most_entries = float(self.source.table_sizes.max(initial=1))
        bounds.bound_scores(tables)

    def run(self, reason: str) -> str:
        """All rounds, while there is time and something to be gained; the reason to stop, `reason` for no other."""
        self.monitor.watch_progress = False
        for _ in range(self.options.tighten):
            if self.bounds.labels_are_best():
                return reason
            if self._late():
                return "time_limit"
            joined = self._larger()
            if joined is None:
                return reason
            stop = self._round(joined, reason)
            if stop is not None or joined.exact:
                return stop or reason
        return reason

    def _late(self) -> bool:
        return self.monitor.late(self.monitor.share_of_time)

    def _larger(self) -> JoinGraph | None:
        """The join graph of the next round; None where there is none, or it would take too much time or memory."""
        if self.most_entries > MOST_ENTRIES:
            return None
        target = GROWTH * self.entries
        while True:
            self.most_entries *= 2.0
            joined = join_graph(self.source, self.most_entries)
            entries = float(joined.graph.table_offsets[-1])
            if joined.exact or entries >= target or self.most_entries > MOST_ENTRIES:
                break
            if self._late():
                return None
        self.entries = entries
        limit = self.options.time_limit
        if limit is not None and self.monitor.elapsed() + SECONDS * entries > self.monitor.share_of_time * limit:
            return None
        return joined

    def _round(self, joined: JoinGraph, reason: str) -> str | None:
        """Bounds and labels of one join graph; the reason to stop, None for none. Without the memory, nothing."""
        models = build_models([joined.graph], ["bethe" if joined.exact else "ones"], 0.0, True, warn_uncertified=False)
        tables_bytes = joined.graph.table_offsets.itemsize * int(self.entries)
        needed = self.backend.estimate_bytes(models.program, self.options.dtype) + tables_bytes
        try:
            memory.require(needed, "tightening", self.options.memory_limit)
        except NotEnoughMemoryError:
            return reason
        tables = joined.tables(self.tables)
        hottest = potential_scale(tables, joined.graph.table_offsets)
        options = self.options
        try:
            problem = self.backend.compile(
                models.program, tables, epsilon=0.0, dtype=options.dtype, threads=options.threads
            )
        except SupportError:
            raise SupportError("every labelling is forbidden (-inf); at least one must stay") from None
        del tables
        if (models.segment_kind == Kind.EXACT).all():
            problem.sweep()
            self._offer(problem)
            return self.monitor.report()
        return self._cool(problem, self._sweeper(models, problem), hottest)

    def _cool(self, problem: Problem, sweeper: Sweeper, hottest: float) -> str | None:
        """Sweeps at falling temperatures until they gain little; the reason to stop, None for none."""
        temperature, patience = hottest, Patience()
        left = self.options.max_iterations
        while temperature > COLDEST[self.options.dtype] * hottest:
            problem.set_epsilon(temperature)
            sweeper.restart()
            settled, before = False, math.inf
            while not settled and left > 0 and not self._late():
                for _ in range(min(SWEEPS, left)):
                    sweeper.advance()
                    sweeper.sweep()
                    if self._late():
                        break
                left -= SWEEPS
                here, at_zero = float(problem.value().sum()), float(problem.value(0.0).sum())
                settled = before - here <= SETTLED * (here - at_zero)
                before = here
            value = self._offer(problem)
            if (reason := self.monitor.report()) is not None:
                return reason
            if self._late():
                return "time_limit"
            if left <= 0 or patience.out(value, float(self.bounds.score.sum())):
                return None
            temperature *= FACTOR
        return None

    def _sweeper(self, models: Models, problem: Problem) -> Sweeper:
        mixing, slots = self.options.acceleration, history_slots(models, self.options)
        if mixing is None or slots == 0:
            return PlainSweeper(problem)
        return MixedSweeper(problem, History(problem, slots, mixing.regularisation), SLACK[self.options.dtype])

    def _offer(self, problem: Problem) -> float:
        """The bound and labels at the messages as they are; returns the bound on the sum over the models."""
        program = problem.program
        starts = self.models.variable_starts
        model_of_segment: npt.NDArray[np.int64] = np.zeros(program.num_segments, dtype=np.int64)
        segment_of_variable = program.segment[program.graph.single_regions]
        model_of_segment[segment_of_variable] = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        values = problem.value(0.0)
        sums = np.bincount(model_of_segment, weights=values, minlength=len(starts) - 1)
        self.bounds.offer_upper(sums.astype(np.float64))
        problem.set_epsilon(0.0)
        self.bounds.find_labels(problem)
        return float(values.sum())
