"""Mean field: coordinate ascent over products of distributions, from one start or several.

    lower = max_q F(q) found,    F(q) = sum_r <q_r, theta_r> + eps sum_i H(q_i) <= eps log sum exp(score / eps)

holds for any product q (Gibbs' inequality), converged or not; upper = inf. Every labelling is such a product too, of
entropy zero, so that lower is never below the score found. Models run side by side and stop one by one: a model's
result does not depend on the company it has.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield.backends.mean_field import FieldProgram, MeanField, compile_mean_field, variable_classes
from blendfield.backends.protocol import FloatArray, LabelArray
from blendfield.errors import PotentialError
from blendfield.graph import DisjointUnion, disjoint_union
from blendfield.inference.options import Progress
from blendfield.inference.outcome import Outcome
from blendfield.inference.result import Result
from blendfield.inference.solution import FinishedSolution
from blendfield.inference.task import Task

BoolArray = npt.NDArray[np.bool_]

SEARCH_PASSES = 10
"""passes of local search on the labels of each start"""


def mean_field(task: Task) -> Outcome:
    """The best of 1 + restarts starts, model by model."""
    union = disjoint_union(task.graphs)
    entries, labels = int(union.graph.table_offsets[-1]), int(union.graph.cardinalities.sum(dtype=np.int64))
    incidences = len(union.graph.region_variables)
    item = 8 if task.options.dtype == "float64" else 4
    task.require_memory(2 * item * entries + 24 * (labels + incidences), "mean field")
    starts = _given_starts(task)
    models = np.repeat(np.arange(len(task.graphs), dtype=np.int32), np.diff(union.variable_starts))
    # Each graph by itself, so that the order of the updates does not depend on the others.
    of_graph = {id(graph): variable_classes(graph) for graph in task.graphs}
    classes = np.concatenate([of_graph[id(graph)] for graph in task.graphs])
    program = FieldProgram(union.graph, task.take_tables(), task.options.epsilon, classes, models, len(task.graphs))
    search = Search(task, union, program)
    try:
        reason = search.run(starts)
    except KeyboardInterrupt:
        reason = "interrupted"
    return search.outcome(reason)


class Search:
    """Starts, sweeps, and the best found so far. N models, V variables, L labels of all of them."""

    def __init__(self, task: Task, union: DisjointUnion, program: FieldProgram) -> None:
        self.task = task
        self.options = task.options
        self.union = union
        self.program = program
        self.field = compile_mean_field(self.options.backend, program, self.options.threads)
        self.finder: MeanField | None = None
        """the same at epsilon = 0, which is local search; made when first needed"""
        count = program.num_models
        graph = program.graph
        self.label_starts = np.cumsum(graph.cardinalities, dtype=np.int64) - graph.cardinalities
        self.model_of_label = np.repeat(program.models, graph.cardinalities)
        self.best = self.field.distributions()
        """float64 [L]: of the highest F"""
        self.value: FloatArray = np.full(count, -np.inf)
        """float64 [N]: the highest F"""
        self.labels: LabelArray = np.zeros(graph.num_variables, dtype=np.int64)
        self.score: FloatArray = np.full(count, -np.inf)
        self.converged: BoolArray = np.zeros(count, dtype=bool)
        """bool [N]: the start that found the best did"""
        self.iteration = 0
        self.next_report = 1
        self.told = -1
        """iteration at which the callback was called last"""
        self.history: dict[str, list[Any]] = {name: [] for name in ("iteration", "lower", "seconds")}

    def run(self, starts: FloatArray | None) -> str:
        """Returns why those that did not converge stopped."""
        reason = self._ascend(starts)
        barred = np.isneginf(self.value) & np.isfinite(self.score)
        if barred.any() and reason in ("converged", "max_iterations"):
            reason = self._ascend(self._products(self.labels), barred)  # no product around it, but a labelling there is
        for number in range(self.options.restarts):
            if reason not in ("converged", "max_iterations"):
                break
            reason = self._ascend(self._random_starts(number))
        return "max_iterations" if reason == "converged" else reason

    def _ascend(self, start: FloatArray | None, chosen: BoolArray | None = None) -> str:
        """Coordinate ascent of the models `chosen`, bool [N], from one start (None: uniform)."""
        if start is not None:
            self.field.set(start)
        active = np.ones(self.program.num_models, dtype=bool) if chosen is None else chosen.copy()
        settled = ~active
        sweeps = 0
        reason = "converged"
        try:
            while active.any():
                if sweeps >= self.options.max_iterations:
                    reason = "max_iterations"
                    break
                if self.options.time_limit is not None and self._seconds() >= self.options.time_limit:
                    reason = "time_limit"
                    break
                change = self.field.sweep(active)
                sweeps += 1
                self.iteration += 1
                settled |= active & (change <= self.options.tolerance)
                active &= ~settled
                due = active.any() and self.iteration >= self.next_report
                if due and self._report(self._field_value()):
                    reason = "callback"
                    break
        finally:
            self._keep(settled)
            self._find_labels()
            stop = self._report(self.value)
        return "callback" if stop else reason

    def _keep(self, settled: BoolArray) -> None:
        """Take the field's distributions where they are the best so far."""
        value = self._field_value()
        better = (value > self.value) | ((value == self.value) & settled & ~self.converged)
        better |= np.isneginf(self.value)
        self.value = np.where(better, value, self.value)
        self.converged = np.where(better, settled, self.converged)
        self.best = np.where(better[self.model_of_label], self.field.distributions(), self.best)

    def _field_value(self) -> FloatArray:
        """float64 [N]: F of the field as it is."""
        value, forbidden = self.field.value()
        return np.where(forbidden > 0, -np.inf, value)

    def _find_labels(self) -> None:
        """The most probable labels of the field, made better by local search."""
        q = self.field.distributions()
        if self.finder is None:
            cold = replace(self.program, epsilon=0.0)
            self.finder = compile_mean_field(self.options.backend, cold, self.options.threads)
        self.finder.set(self._products(self._modes(q)))
        active = np.ones(self.program.num_models, dtype=bool)
        for _ in range(SEARCH_PASSES):
            active &= self.finder.sweep(active) > 0
            if not active.any():
                break
        score, forbidden = self.finder.value()
        score = np.where(forbidden > 0, -np.inf, score)
        better = score > self.score
        self.score = np.where(better, score, self.score)
        found = self._modes(self.finder.distributions())
        self.labels = np.where(better[self.program.models], found, self.labels)

    def _modes(self, q: FloatArray) -> LabelArray:
        """int64 [V]: the most probable label of each variable, the lowest of several."""
        modes: LabelArray = np.zeros(len(self.label_starts), dtype=np.int64)
        if len(modes):
            highest = np.repeat(np.maximum.reduceat(q, self.label_starts), self.program.graph.cardinalities)
            places = np.where(q == highest, np.arange(len(q)), len(q))
            modes = np.minimum.reduceat(places, self.label_starts) - self.label_starts
        return modes

    def _products(self, labels: LabelArray) -> FloatArray:
        """float64 [L]: certainty of `labels`, int64 [V]."""
        q: FloatArray = np.zeros(len(self.model_of_label))
        q[self.label_starts + labels] = 1.0
        return q

    def _random_starts(self, number: int) -> FloatArray:
        """float64 [L]: uniform on the simplices; the same for a model whatever stands beside it."""
        starts = self.union.variable_starts
        ends = np.append(self.label_starts, len(self.model_of_label))[starts]
        sizes = np.diff(ends)
        draws = [np.random.default_rng([number]).standard_exponential(int(size)) for size in sizes]
        q: FloatArray = np.concatenate([np.zeros(0), *draws])
        if len(q):
            q /= np.repeat(np.add.reduceat(q, self.label_starts), self.program.graph.cardinalities)
        return q

    def _seconds(self) -> float:
        return time.perf_counter() - self.task.started

    def _report(self, value: FloatArray) -> bool:
        """Enter the bounds into the history, `value` among them, tell the callback; True when it wants to stop."""
        self.next_report = max(self.iteration + 1, -(-5 * self.iteration // 4))
        if self.options.certificate_every is not None:
            self.next_report = self.iteration + self.options.certificate_every
        lower = np.maximum(np.maximum(value, self.value), self.score)
        if self.history["lower"]:
            lower = np.maximum(lower, self.history["lower"][-1])  # a bound stays a bound
        if self.history["iteration"] and self.history["iteration"][-1] == self.iteration:
            for entries in self.history.values():
                entries.pop()
        self.history["iteration"].append(self.iteration)
        self.history["lower"].append(lower)
        self.history["seconds"].append(self._seconds())
        if self.options.callback is None or self.told == self.iteration:
            return False
        self.told = self.iteration
        answer = self.options.callback(
            Progress(self.iteration, np.inf, float(lower.sum()), np.inf, self.history["seconds"][-1])
        )
        return isinstance(answer, (bool, np.bool_)) and bool(answer)

    def outcome(self, reason: str) -> Outcome:
        self.field.set(self.best)
        count, regions = self.program.num_models, self.program.graph.num_regions
        lower = np.array(self.history["lower"]).reshape(-1, count)
        infinite: FloatArray = np.full(count, np.inf)
        return Outcome(
            union=self.union,
            labels=self.labels,
            score=self.score,
            upper=infinite,
            lower=lower[-1] if len(lower) else np.maximum(self.value, self.score),
            gap=infinite,
            certified=np.ones(count, dtype=bool),
            converged=self.converged,
            reason=reason,
            iterations=self.iteration,
            history={
                "iteration": np.array(self.history["iteration"], dtype=np.int64),
                "upper": np.full(lower.shape, np.inf),
                "lower": lower,
                "gap": np.full(lower.shape, np.inf),
                "seconds": np.array(self.history["seconds"]),
            },
            counting_numbers=np.full(regions, np.nan),
            solution=FinishedSolution(
                self.task.graphs,
                self.field.beliefs(),
                np.full(regions, np.nan),
                np.zeros(self.program.graph.num_variables, dtype=bool),
            ),
        )


def _given_starts(task: Task) -> FloatArray | None:
    """The distributions to start from: those of the Results given, else uniform; None if no model has any."""
    if all(initial is None for initial in task.initial):
        return None
    parts = [np.zeros(0)]
    for k, (graph, initial) in enumerate(zip(task.graphs, task.initial, strict=True)):
        q = np.repeat(1.0 / graph.cardinalities, graph.cardinalities)
        if initial is not None:
            if not isinstance(initial, Result):
                where = "" if task.single else f"model {k}: "
                raise PotentialError(f"{where}initial: mean field starts from a Result; messages mean nothing to it")
            flat, offsets = initial.beliefs.flat, graph.table_offsets
            singles = [flat[offsets[r] : offsets[r + 1]] for r in graph.single_regions.tolist()]
            q = np.concatenate([np.zeros(0), *singles]).astype(np.float64)
            starts = np.cumsum(graph.cardinalities, dtype=np.int64) - graph.cardinalities
            if len(q):
                q /= np.repeat(np.add.reduceat(q, starts), graph.cardinalities)
        parts.append(q)
    return np.concatenate(parts)
