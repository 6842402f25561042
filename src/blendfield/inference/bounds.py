"""What is known so far: bounds, labels and the messages that belong to them, per segment; sums per model."""

from __future__ import annotations

import numpy as np

from blendfield.backends.protocol import FloatArray, LabelArray, Problem, Program, RealArray
from blendfield.inference.program import BoolArray, Kind, Models

MANY = 10.0
CHUNK_REGIONS = 1 << 16
ROUNDING = {"float64": 1e-9, "float32": 1e-4}
"""of F, relative"""
SEARCH_PASSES = 10
"""passes of local search per candidate labelling"""


class Bounds:
    """Bounds and labels of S segments and N models, made better at every certificate."""

    def __init__(
        self,
        models: Models,
        problem: Problem,
        epsilon: float,
        tolerance: float,
        keep_messages: bool,
        settling: float | None = None,
    ) -> None:
        """`epsilon` is the temperature asked for (during a continuation the problem's own is higher).

        `keep_messages`: the best messages must be copied, because the last ones need not be the best of every segment.

        `settling`: where no gap says it, messages count as converged when a sweep moves none of them by more than
        tolerance * settling; None: when the beliefs agree.
        """
        self.models = models
        self.problem = problem
        self.epsilon = epsilon
        self.tolerance = tolerance
        self.settling = settling
        self.smoothing = settling if epsilon == 0 else None
        """temperature of the certificate's candidates at epsilon = 0, when nobody says otherwise"""
        self.kind = models.segment_kind
        segments = models.program.num_segments
        self.upper: FloatArray = np.full(segments, np.inf)
        """float64 [S]: the least F seen where F is a bound, else the latest"""
        self._reached = self.upper
        """float64 [S]: F at the messages kept"""
        self._ceiling = self.upper
        """float64 [S]: what is known without messages"""
        self.dual: FloatArray = np.full(segments, -np.inf)
        """float64 [S]: the greatest dual value seen"""
        self.spread: FloatArray = np.full(segments, np.inf)
        """float64 [S]: how inconsistent the latest beliefs were"""
        self.score: FloatArray = np.full(segments, -np.inf)
        """float64 [S]: of the best labelling seen"""
        self.score_upper: FloatArray | None = None
        """float64 [N]: no labelling has a better score, where that is asked for: the bounds are then those of the best
        score instead of the program's optimum
        """
        self._whole: BoolArray = np.zeros(len(models.graphs), dtype=bool)
        self.labels: LabelArray = np.zeros(models.program.graph.num_variables, dtype=np.int64)
        self.exact_done = False
        """a full sweep was made at `epsilon`, so that the exact segments are exact"""
        self.settled: BoolArray = np.zeros(len(models.graphs), dtype=bool)
        """bool [N]: messages did not move any more when last looked at"""
        self._entropy = epsilon * _entropies(models.program)
        """float64 [S]: the most that entropies can add to the optimum"""
        self._best = BestMessages(models, problem) if keep_messages else None

    # Made better.

    def certify(self, smoothing: float | None = None, chosen: BoolArray | None = None) -> None:
        """Take F and the certificate at the present messages, for the segments `chosen`, bool [S] (default: all)."""
        certificate = self.problem.certificate(smoothing or self.smoothing)
        value, gap = certificate.value, certificate.gap
        exact = self.kind == Kind.EXACT
        if self.epsilon > 0:
            # On a tree the certificate is signed rounding; where it could not be made, the theorem stands alone.
            gap = np.where(exact, np.where(np.isfinite(gap), np.abs(gap), 0.0), gap)
        falls = (self.kind != Kind.CONVEX) | (value < self._reached)
        falls &= ~exact | self.exact_done
        bounded = (self.kind != Kind.UNKNOWN) & (~exact | self.exact_done)
        if chosen is not None:
            falls &= chosen
            bounded &= chosen
        self._reached = np.where(falls, value, self._reached)
        self.upper = np.minimum(self._reached, self._ceiling)
        self.dual = np.where(bounded, np.fmax(self.dual, value - gap), self.dual)
        self.spread = certificate.spread
        if self.settling is not None:
            self._settle(self.settling)
        if self._best is not None and falls.any():
            self._best.take(falls)

    def take_ceiling(self) -> None:
        """At epsilon = 0: F now is a bound. The messages are not kept: later ones, if as good, are worth more."""
        self._ceiling = np.where(self.kind == Kind.CONVEX, self.problem.value(), np.inf)

    def reached(self) -> float:
        """F at the messages kept, of all segments together."""
        return float(self._reached.sum())

    def _settle(self, settling: float) -> None:
        """Try a sweep, look how far it moves the messages of each model, and take it back."""
        before = self.problem.messages()
        self.problem.sweep()
        after = self.problem.messages()
        self.problem.set_messages(before)
        program, ends = self.models.program, self.models.message_ends
        first_edges = np.searchsorted(program.edge_parents, self.models.region_starts)
        rounding = 8.0 * float(np.finfo(before.dtype).eps)
        for k in range(len(self.models.graphs)):
            part = slice(int(ends[first_edges[k]]), int(ends[first_edges[k + 1]]))
            moved = float(np.abs(after[part] - before[part]).max(initial=0.0))
            size = float(np.abs(after[part]).max(initial=0.0))
            self.settled[k] = moved <= max(self.tolerance * settling, rounding * size)

    def scores_may_help(self) -> bool:
        """A score may be the better lower bound in some segment that has not converged.

        It has no entropy, and where the most there could be is many times the gap, it hardly closes that gap.
        """
        gap = self.upper - self.segment_lower()
        open_gap = ~(gap <= self.tolerance * np.maximum(1.0, np.abs(self.upper)))
        return bool((open_gap & ~(self._entropy > MANY * gap)).any())

    def find_labels(self, rounded: Problem | None = None) -> None:
        """Round in two ways, search locally, keep the best labelling of each segment. `rounded`: another problem with
        the same variables; None: this one.
        """
        rounded = rounded or self.problem
        for round_beliefs in (rounded.decode, rounded.belief_labels):
            self.offer(self.problem.local_search(round_beliefs(), SEARCH_PASSES))

    def offer(self, labels: LabelArray) -> None:
        """Keep `labels`, int64 [V], on the segments where they are better."""
        score = self.problem.score(labels)
        better = score > self.score
        self.score = np.where(better, score, self.score)
        if better.all():
            self.labels = labels
        elif better.any():
            program = self.models.program
            self.labels = np.where(better[program.segment[program.graph.single_regions]], labels, self.labels)

    def bound_scores(self, tables: RealArray) -> None:
        """From now on bounds are those of the best score. tables: float [table layout of the union]."""
        graph = self.models.program.graph
        model = np.repeat(np.arange(len(self.models.graphs)), np.diff(self.models.region_starts))
        highest: FloatArray = np.zeros(len(self.models.graphs))
        broken: FloatArray = np.zeros(len(self.models.graphs))
        for first in range(0, graph.num_regions, CHUNK_REGIONS):
            ends = graph.table_offsets[first : first + CHUNK_REGIONS + 1]
            part, starts = tables[ends[0] : ends[-1]].astype(np.float64), ends[:-1] - ends[0]
            models = model[first : first + CHUNK_REGIONS]
            weights = np.maximum.reduceat(part, starts)
            highest += np.bincount(models, weights=weights, minlength=len(highest))
            fractions = np.add.reduceat(np.isfinite(part) & (part != np.rint(part)), starts, dtype=np.float64)
            broken += np.bincount(models, weights=fractions, minlength=len(broken))
        self._whole = broken == 0
        self.score_upper = highest

    def offer_upper(self, values: FloatArray) -> None:
        """Keep `values`, float64 [N], above which no score is, where they are lower."""
        assert self.score_upper is not None
        self.score_upper = np.fmin(self.score_upper, values)

    def restore_messages(self) -> None:
        """Put the best messages back into the problem."""
        if self._best is not None:
            self._best.restore()

    # Read off.

    def segment_lower(self) -> FloatArray:
        """float64 [S]: the best dual value or score, nan where neither is a bound."""
        lower = np.maximum(self.dual, self.score)
        lower = np.where(self.kind == Kind.CONCAVE_ENTROPY, lower, np.minimum(lower, self.upper))
        return np.where(self.kind == Kind.UNKNOWN, np.nan, lower)

    def errors(self) -> FloatArray:
        """float64 [N]: how far each model is from converged: gap of the bounds, or spread where there is none."""
        if self.score_upper is not None:
            upper, lower = self._of_scores(self.score_upper)
            return upper - lower
        by_gap = (self.kind == Kind.CONVEX) | (self.kind == Kind.EXACT)
        spread = self.spread
        if self.settling is not None:
            spread = np.where(self.settled[self.models.segment_model], 0.0, np.inf)
        return self.models.per_model(np.where(by_gap, self.upper - self.segment_lower(), spread))

    def converged(self) -> BoolArray:
        """bool [N]: error <= tolerance * max(1, |upper|)."""
        return np.asarray(self.errors() <= self._allowed())

    def labels_are_best(self) -> bool:
        """At epsilon = 0: no labelling of any model can be better by more than the tolerance."""
        if self.score_upper is not None:
            return bool(self.converged().all())
        return bool((self.models.per_model(self.upper - self.score) <= self._allowed()).all())

    def _allowed(self) -> FloatArray:
        upper = self.models.per_model(self.upper) if self.score_upper is None else self.score_upper
        return self.tolerance * np.maximum(1.0, np.abs(upper))

    def _of_scores(self, known: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(upper, lower), each float64 [N]: bounds of the best score, `known` being one from above.

        The score is whole where all potentials are whole numbers.
        """
        lower = self.models.per_model(self.score)
        upper = np.fmin(known, np.where(self._bounded(), self.models.per_model(self.upper), np.inf))
        slack = ROUNDING[self.problem.dtype.name] * np.maximum(1.0, np.abs(upper))
        upper = np.where(self._whole, np.floor(upper + slack), upper)
        return np.maximum(upper, lower), lower

    def certified(self) -> BoolArray:
        """bool [N]: lower and upper are bounds."""
        return self._bounded() if self.score_upper is None else np.ones(len(self.models.graphs), dtype=bool)

    def _bounded(self) -> BoolArray:
        """bool [N]: F and the dual value are bounds."""
        unsure = (self.kind == Kind.UNKNOWN) | (self.kind == Kind.CONCAVE_ENTROPY)
        if not self.exact_done:
            unsure |= self.kind == Kind.EXACT
        return np.asarray(self.models.per_model(unsure.astype(np.float64)) == 0)

    def summary(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(upper, lower, gap), each float64 [N], as reported: nan where there is no bound, gap never negative."""
        if self.score_upper is not None:
            upper, lower = self._of_scores(self.score_upper)
            return upper, lower, upper - lower
        reweighted = self.kind == Kind.CONCAVE_ENTROPY
        lower = self.segment_lower()
        # Tree-reweighted: F bounds nothing until the beliefs agree; then it is the optimum.
        settled = self.converged()[self.models.segment_model]
        upper = np.where(reweighted, np.where(settled, np.fmax(self.upper, lower), np.nan), self.upper)
        upper, lower = self.models.per_model(upper), self.models.per_model(lower)
        return upper, lower, np.maximum(upper - lower, 0.0)


def _entropies(program: Program) -> FloatArray:
    """float64 [S]: sum of |c_r| log |Y_r|, part by part, to spare memory."""
    total: FloatArray = np.zeros(program.num_segments)
    for first in range(0, program.graph.num_regions, CHUNK_REGIONS):
        part = slice(first, first + CHUNK_REGIONS)
        terms = np.abs(program.counting_numbers[part]) * np.log(program.graph.table_sizes[part])
        total += np.bincount(program.segment[part], weights=terms, minlength=program.num_segments)
    return total


class BestMessages:
    """A copy of the best messages seen, segment by segment."""

    def __init__(self, models: Models, problem: Problem) -> None:
        program = models.program
        self.problem = problem
        self.edge_segment = program.segment[program.edge_children]
        self.edge_size = program.graph.table_sizes[program.edge_children]
        self.messages: RealArray | None = None

    def take(self, chosen: BoolArray) -> None:
        """Copy the problem's messages on the segments `chosen`, bool [S]."""
        if self.messages is None or chosen.all():
            self.messages = self.problem.messages()
        else:
            entries = np.repeat(chosen[self.edge_segment], self.edge_size)
            self.messages = np.where(entries, self.problem.messages(), self.messages)

    def restore(self) -> None:
        """Make them the problem's messages."""
        if self.messages is not None:
            self.problem.set_messages(self.messages)
