"""Exact inference by eliminating variables: value, marginals of every region, and labels.

The order of the variables decides what it costs: it is looked for first, and with it the memory is known before any is
taken. Evidence and forbidden labels make the tables smaller. An exact result has upper = lower = the value.
"""

from __future__ import annotations

import math
import time
from typing import Any, cast

import numpy as np

from blendfield.backends.elimination import Elimination, EliminationProgram, compile_elimination
from blendfield.backends.mean_field import FieldProgram, compile_mean_field, variable_classes
from blendfield.backends.protocol import FloatArray, LabelArray, RealArray
from blendfield.errors import BlendfieldError, NotEnoughMemoryError, SupportError
from blendfield.graph import DisjointUnion, disjoint_union
from blendfield.inference import memory
from blendfield.inference.options import Progress
from blendfield.inference.outcome import BoolArray, Outcome
from blendfield.inference.solution import FinishedSolution
from blendfield.inference.task import Task

SLICE = float(1 << 27)
"""table entries between two looks at the clock and for Ctrl-C"""
CERTAIN = 1.0 - 1e-12
"""at epsilon = 0: a label that all of the best labellings have"""


def exact(task: Task) -> Outcome:
    """Up, down, and read off."""
    union = disjoint_union(task.graphs)
    graph = union.graph
    item = 8 if task.options.dtype == "float64" else 4
    entries = int(graph.table_offsets[-1])
    task.require_memory(3 * item * entries, "exact inference")
    tables = task.take_tables()
    models = np.repeat(np.arange(len(task.graphs), dtype=np.int32), np.diff(union.variable_starts))
    program = EliminationProgram(graph, tables, task.options.epsilon, models, len(task.graphs))
    elimination = compile_elimination(task.options.backend, program, task.options.threads)
    _require_support(task, union, elimination)
    needed = elimination.bytes + 2 * item * entries
    _require_memory(task, needed)
    run = Run(task, union, program)
    try:
        reason = run.run(elimination)
    except KeyboardInterrupt:
        reason = "interrupted"
    except MemoryError as error:
        if isinstance(error, BlendfieldError):
            raise
        words = memory.in_words(int(needed))
        raise NotEnoughMemoryError(f"allocation failed; estimated need {words}") from error
    return run.outcome(reason)


def _require_memory(task: Task, needed: float) -> None:
    """NotEnoughMemoryError before anything is allocated; estimates beyond counting included."""
    if math.isfinite(needed) and needed < 2**62:
        task.require_memory(int(needed), "exact inference")
        return
    words = f"about 2^{math.log2(needed):.0f} bytes" if math.isfinite(needed) else "more bytes than can be counted"
    raise NotEnoughMemoryError(f"exact inference would need {words} of memory: no order of elimination keeps it small")


def _require_support(task: Task, union: DisjointUnion, elimination: Elimination) -> None:
    """SupportError when a model has no allowed labelling, as far as is known."""
    region = elimination.infeasible
    if region < 0:
        return
    model = int(np.searchsorted(union.region_starts, region, side="right")) - 1
    where = "" if task.single else f"model {model}: "
    raise SupportError(
        f"{where}region {region - int(union.region_starts[model])}: every label is forbidden (-inf), by itself or "
        "together with other regions; at least one labelling must stay"
    )


class Run:
    """What is known so far, in the end all."""

    def __init__(self, task: Task, union: DisjointUnion, program: EliminationProgram) -> None:
        self.task = task
        self.options = task.options
        self.union = union
        self.program = program
        graph, count = program.graph, program.num_models
        self.upper: FloatArray = np.full(count, np.inf)
        self.lower: FloatArray = np.full(count, -np.inf)
        self.score: FloatArray = np.full(count, -np.inf)
        self.labels: LabelArray = np.zeros(graph.num_variables, dtype=np.int64)
        self.beliefs: RealArray | None = None
        self.done = False
        self.seconds = 0.0

    def run(self, elimination: Elimination) -> str:
        """The reason to stop."""
        if self.options.max_iterations == 0:
            return "max_iterations"
        elimination.load()
        while not elimination.up(SLICE):
            if self._late():
                return "time_limit"
        _require_support(self.task, self.union, elimination)
        values = elimination.values()
        self._find_labels(elimination.labels())
        if self.options.epsilon > 0:
            self.upper = self.lower = values
        else:  # the best labelling is at hand: its score has no rounding of the passes
            self.upper = self.lower = self.score
        while not elimination.down(SLICE):
            if self._late():
                return "time_limit"
        self.beliefs = elimination.beliefs()
        self.done = True
        self._tell()
        return "converged"

    def _late(self) -> bool:
        limit = self.options.time_limit
        return limit is not None and time.perf_counter() - self.task.started >= limit

    def _find_labels(self, labels: LabelArray) -> None:
        """Local search at epsilon > 0, where the labels need not be the best; and their score."""
        graph = self.program.graph
        fields = FieldProgram(
            graph, self.program.tables, 0.0, variable_classes(graph), self.program.models, self.program.num_models
        )
        finder = compile_mean_field(self.options.backend, fields, self.options.threads)
        starts = np.cumsum(graph.cardinalities, dtype=np.int64) - graph.cardinalities
        certain: FloatArray = np.zeros(int(graph.cardinalities.sum(dtype=np.int64)))
        certain[starts + labels] = 1.0
        finder.set(certain)
        if self.options.epsilon > 0:
            active: BoolArray = np.ones(self.program.num_models, dtype=bool)
            for _ in range(10):
                active &= finder.sweep(active) > 0
                if not active.any():
                    break
            found = np.flatnonzero(finder.distributions() == 1.0)
            labels = found - starts
        self.labels = labels
        score, forbidden = finder.value()
        self.score = np.where(forbidden > 0, -np.inf, score)

    def _tell(self) -> None:
        self.seconds = time.perf_counter() - self.task.started
        if self.options.callback is not None:
            total = float(self.upper.sum())
            self.options.callback(Progress(1, total, total, 0.0, self.seconds))

    def outcome(self, reason: str) -> Outcome:
        graph, count = self.program.graph, self.program.num_models
        beliefs = self.beliefs
        if beliefs is None:  # stopped before there were any
            sizes = graph.table_sizes
            beliefs = cast(RealArray, np.repeat(1.0 / sizes, sizes).astype(self.program.tables.dtype))
        if not self.seconds:
            self.seconds = time.perf_counter() - self.task.started
        certain: BoolArray = np.zeros(graph.num_variables, dtype=bool)
        if self.done and self.options.epsilon == 0:
            certain = beliefs[graph.table_offsets[graph.single_regions] + self.labels] >= CERTAIN
        gap = np.where(self.upper == self.lower, 0.0, np.inf)
        history: dict[str, Any] = {
            "iteration": np.array([int(self.done)], dtype=np.int64),
            "upper": self.upper[None],
            "lower": self.lower[None],
            "gap": gap[None],
            "seconds": np.array([self.seconds]),
        }
        return Outcome(
            union=self.union,
            labels=self.labels,
            score=self.score,
            upper=self.upper,
            lower=self.lower,
            gap=gap,
            certified=np.ones(count, dtype=bool),
            converged=np.full(count, self.done),
            reason=reason,
            iterations=int(self.done),
            history=history,
            counting_numbers=np.full(graph.num_regions, np.nan),
            solution=FinishedSolution(self.task.graphs, beliefs, np.zeros(graph.num_regions), certain),
        )
