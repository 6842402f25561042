"""One chunk of the training set: samples compiled together, with their messages.

The data part of the objective and its gradient at weights w and messages lambda (mathematics §2, §4):

    F       = sum_r eps c_r logsumexp(hat_r / (eps c_r)) - theta_r(y_r)
    dF/dw_k = sum_r <b_r, phi_{k,r}> - phi_{k,r}(y_r)
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from blendfield import backends
from blendfield.backends.linear import inverse_counting
from blendfield.backends.protocol import DataType, FloatArray, LabelArray, Program, RealArray
from blendfield.engines.protocol import Certificate, Evaluation, Request, SoftEvaluation, Trial
from blendfield.errors import BlendfieldError, BlendfieldWarning, CountingNumberError, LabelError
from blendfield.graph import counting_numbers as graph_counting_numbers
from blendfield.inference.continuation import potential_scale
from blendfield.inference.program import Kind, Models, build_models
from blendfield.learning.completion import Completion
from blendfield.learning.consistency import Consistency
from blendfield.learning.shared import Shared
from blendfield.model.feature_map import FeatureMap
from blendfield.model.inner import inner
from blendfield.model.losses import loss_table, true_entries
from blendfield.model.sample import Sample
from blendfield.model.weights import WeightLayout


class Chunk:
    """Samples compiled together. K weights, N table entries, R regions."""

    truth_stands_in = True
    """for consistent beliefs, where none can be made"""

    def __init__(
        self,
        samples: Sequence[Sample],
        layout: WeightLayout,
        counting_numbers: Any,
        epsilon: float,
        *,
        first: int = 0,
        dtype: DataType = "float64",
        threads: int | None = None,
        backend: str = "auto",
        shared: Shared | None = None,
        labelled: bool = True,
    ) -> None:
        """`first`: number of the first sample in the training set, for errors. `shared`: with other chunks, of which
        one is asked at a time. Not `labelled`: nothing is subtracted for a truth.
        """
        self.first = first
        shared = shared or Shared()
        models = shared.models(samples, counting_numbers)
        if models is None:
            models = program_of(samples, counting_numbers, epsilon, first)
            shared.keep(samples, counting_numbers, models)
        self.models = models
        graph = self.models.program.graph
        starts = graph.table_offsets[self.models.region_starts[:-1]].tolist()
        weights = [sample.weight for sample in samples]
        blocks = [sample.blocks for sample in samples]
        self.features = FeatureMap(layout, blocks, starts, graph.table_offsets, weights, threads, shared.same)
        self.num_weights = layout.size
        self.exact = bool((self.models.segment_kind == Kind.EXACT).any())
        """some sample is a forest with tree counting numbers"""
        self.all_exact = bool((self.models.segment_kind == Kind.EXACT).all())

        entries = int(graph.table_offsets[-1])
        labels, base = loss_and_known_potentials(samples, entries, starts, dtype, first, labelled)
        self.labels = labels
        self.scale = 1.0 if base is None else potential_scale(base, graph.table_offsets)
        """a temperature of the size of the first potentials"""
        self.true_moments: FloatArray = np.zeros(layout.size)
        """float64 [K]: sum_r phi_{k,r}(y_r), of the completed labels where some are unobserved"""
        self.true_base = 0.0
        self.true_entropy = 0.0
        """sum_r c_r H(q_r) of the completion"""
        self.hidden = bool((labels < 0).any())
        """some labels are unobserved"""
        self.completion: Completion | None = None
        if self.hidden:
            self.completion = Completion(self.models, labels, base, first, epsilon, dtype, threads, backend)
            self._base = base
        elif labelled:
            self._take_truth(labels, base, shared)

        self.passes_per_sweep = passes_per_sweep(self.models.program)

        self._slots = 0
        self._consistency: Consistency | None = None
        self._softness: FloatArray = np.zeros(0)
        self._sample_weights: FloatArray = np.array(weights)
        self._dtype = dtype
        engine = backends.get(backend)
        tables: RealArray = np.zeros(entries, dtype=dtype) if base is None else base
        self.problem = engine.compile(self.models.program, tables, epsilon=epsilon, dtype=dtype, threads=threads)
        self.potentials = engine.linear(self.problem, self.features, base, shared.workspace)

    # The truth.

    def _take_truth(self, labels: LabelArray, base: RealArray | None, shared: Shared) -> None:
        graph = self.models.program.graph
        entries, _ = true_entries(graph, labels)
        truth = shared.workspace.array("truth", int(graph.table_offsets[-1]), np.dtype(np.float64))
        truth.fill(0.0)
        truth[entries] = 1.0
        self.true_moments = self.features.moments(truth)
        self.true_base = 0.0 if base is None else float(base[entries].sum(dtype=np.float64))

    def _truth(self, weights: FloatArray, epsilon: float | None = None) -> float:
        """sum_r theta_r(y_r), and the entropy of the completion at `epsilon` (default: the problem's)."""
        temperature = self.problem.epsilon if epsilon is None else epsilon
        return inner(self.true_moments, weights) + self.true_base + temperature * self.true_entropy

    def complete(self, weights: FloatArray, epsilon: float, smoothing: float) -> float:
        """See `engines.protocol.Engine.complete`."""
        completion = self.completion
        if completion is None:
            return 0.0
        self.potentials.set_weights(weights)
        rise = completion.improve(self.potentials.tables(), epsilon, smoothing)
        self._take_completion()
        return rise

    def _take_completion(self) -> None:
        assert self.completion is not None
        q = self.completion.q
        assert q is not None
        self.true_moments = self.features.moments(q)
        self.true_base = 0.0 if self._base is None else float(q @ np.where(q > 0, self._base, 0.0))
        self.true_entropy = float(self.completion.entropy.sum())

    def require_positive_counting_numbers(self) -> None:
        """CountingNumberError where soft marginalisation is not convex."""
        program, models = self.models.program, self.models
        wrong = np.flatnonzero(program.counting_numbers <= 0)
        if len(wrong):
            region = int(wrong[0])
            sample = int(np.searchsorted(models.region_starts, region, side="right")) - 1
            raise CountingNumberError(
                f"sample {self.first + sample}, region {region - int(models.region_starts[sample])}: soft "
                f"marginalisation needs counting numbers > 0; got {program.counting_numbers[region]:g}"
            )

    # What engines are asked.

    def allocate(self, slots: int) -> None:
        """Room for so many steps of mixing history."""
        self.problem.allocate_history(slots)
        self._slots = slots

    def fill_history(self) -> None:
        """See `engines.protocol.Chunk`."""
        for slot in range(self._slots):
            self.problem.save_point()
            self.problem.push(slot)

    def set_epsilon(self, epsilon: float) -> None:
        """The temperature of what follows; messages stay."""
        self.problem.set_epsilon(epsilon)

    def messages(self) -> RealArray:
        """float [messages layout]; with unobserved labels those of the clamped inference and q [N] behind."""
        own = self.problem.messages()
        return own if self.completion is None else np.concatenate([own, self.completion.state(self._dtype)])

    def set_messages(self, flat: RealArray) -> None:
        """The reverse of `messages`."""
        size = self._message_size()
        self.problem.set_messages(flat[:size])
        if self.completion is not None:
            self.completion.restore(flat[size:], size)
            self._take_completion()

    def iterate(self, request: Request) -> Evaluation:
        """See `engines.protocol.Request`."""
        return self.finish(request, self.advance(request))

    def advance(self, request: Request) -> FloatArray:
        """See `engines.protocol.Chunk`; nothing is shared: float64 [0]."""
        problem = self.problem
        if request.mixing is not None:
            problem.mix(request.mixing)
        elif request.restore is not None:
            problem.restore(request.restore)
        if request.erase:
            problem.set_messages(np.zeros(self._message_size(), dtype=self._dtype))
        if request.forget:
            problem.clear_history()
        self.potentials.set_weights(request.weights)
        if request.slot is not None:
            problem.save_point()
        problem.sweep(request.sweeps)
        return np.zeros(0)

    def finish(self, request: Request, shared: FloatArray) -> Evaluation:
        """See `engines.protocol.Chunk`."""
        found = self.potentials.evaluate(request.curvature, request.slot)
        value, gradient = found.value - self._truth(request.weights), found.moments - self.true_moments
        return Evaluation(value, gradient, found.curvature, found.products)

    def beliefs(self) -> RealArray:
        """float [tables layout]"""
        return self.problem.beliefs()

    def soft(self, weights: FloatArray, messages: FloatArray, gamma: float, curvature: bool) -> SoftEvaluation:
        """See `engines.protocol.SoftEvaluation`."""
        problem = self.problem
        if self._consistency is None:
            self._consistency = Consistency(self.models.program)
            # A sample that counts m times has messages m times as large, for which each of its copies pays a share.
            program = self.models.program
            edge_sample = self.models.segment_model[program.segment[program.edge_children]]
            sizes = program.graph.table_sizes[program.edge_children]
            self._softness = np.repeat(1.0 / self._sample_weights[edge_sample], sizes)
        self.potentials.set_weights(weights)
        problem.set_messages(messages)
        value, beliefs = problem.value_and_beliefs()
        flat = np.asarray(beliefs, dtype=np.float64)
        consistency, strength = self._consistency, gamma * self._softness
        outer: FloatArray = np.asarray(consistency.parent @ flat)
        own: FloatArray = np.asarray(consistency.child @ flat)
        slopes = outer - own + strength * messages
        diagonal: FloatArray | None = None
        diagonals: list[FloatArray] = []
        if curvature:
            scale = inverse_counting(self.models.program.counting_numbers) / problem.epsilon
            moments, diagonal = self.features.statistics(beliefs, scale)
            of_parent = outer * (1.0 - outer) / consistency.parent_counting
            of_child = own * (1.0 - own) / consistency.child_counting
            diagonals = [(of_parent + of_child) / problem.epsilon + strength]
        else:
            moments = self.features.moments(beliefs)
        return SoftEvaluation(
            value=float(value.sum()) - self._truth(weights) + 0.5 * float(strength @ messages**2),
            gradient=moments - self.true_moments,
            slopes=[slopes],
            residual=float((slopes**2 / (2.0 * strength)).sum()),
            curvature=diagonal,
            curvatures=diagonals,
        )

    def trial(self, weights: FloatArray, direction: FloatArray, steps: FloatArray, restore: int | None) -> Trial:
        """See `engines.protocol.Engine.trial`."""
        if restore is not None:
            self.problem.restore(restore)
        if self.exact:  # every value needs messages of its own
            values = []
            for step in steps:
                self.potentials.set_weights(weights + step * direction)
                self.problem.sweep()
                values.append(float(self.problem.value().sum()) - self._truth(weights + step * direction))
            unknown = np.full(len(steps), np.nan)
            return Trial(np.array(values), unknown, unknown)
        self.potentials.set_weights(weights)
        value, slope, curvature = self.potentials.trial(direction, steps)
        fall = inner(self.true_moments, direction)
        return Trial(value - self._truth(weights) - steps * fall, slope - fall, curvature)

    def certificate(self, weights: FloatArray, epsilon: float, smoothing: float) -> Certificate:
        """See `engines.protocol.Engine.certificate`."""
        problem, models = self.problem, self.models
        before = problem.epsilon
        spread = 0.0
        if smoothing != epsilon:
            problem.set_epsilon(smoothing)
            spread = float(problem.certificate().spread.sum())
        problem.set_epsilon(epsilon)
        certificate, moments = self.potentials.certificate(smoothing)
        gap = np.where(models.segment_kind == Kind.EXACT, np.abs(certificate.gap), certificate.gap)
        failed = ~np.isfinite(gap)
        if failed.any() and self.truth_stands_in:  # it is the candidate there: no entropy, no loss, z = 0
            q = problem.certificate(smoothing, candidate=True).candidate
            assert q is not None
            self._put_truth(q, gap, certificate.value, failed, weights, epsilon)
            moments = self.potentials.moments(q)
        problem.set_epsilon(before)
        if smoothing == epsilon:
            spread = float(gap.sum())
        value = float(certificate.value.sum()) - self._truth(weights, epsilon)
        return Certificate(value, float(gap.sum()), moments - self.true_moments, spread)

    def _put_truth(
        self, q: FloatArray, gap: FloatArray, value: FloatArray, failed: Any, weights: FloatArray, epsilon: float
    ) -> None:
        """The truth into q, float64 [N], and its gap into gap [S], in the segments `failed`, bool [S]."""
        graph, segment = self.models.program.graph, self.models.program.segment
        inside = np.repeat(failed[segment], graph.table_sizes)
        if self.completion is not None and self.completion.q is not None:
            self.potentials.set_weights(weights)
            truth = self.completion.truth(self.completion.q, self.completion.entropy, self.potentials.tables(), epsilon)
            q[inside] = self.completion.q[inside]
        else:
            truth = self.problem.score(self.labels)
            q[inside] = 0.0
            q[true_entries(graph, self.labels)[0][failed[segment]]] = 1.0
        gap[failed] = (value - truth)[failed]

    def _message_size(self) -> int:
        return self.models.num_messages


def passes_per_sweep(program: Program) -> float:
    """Evaluations over all tables that a sweep is worth (2 on a grid): entries read over entries of the parents."""
    sizes = program.graph.table_sizes
    if len(program.edge_parents) == 0:
        return 1.0
    runs = np.bincount(program.schedule, minlength=int(program.region_class.max()) + 1)
    read = (runs[program.region_class[program.edge_children]] * sizes[program.edge_parents]).sum()
    parents = program.edge_parents[np.flatnonzero(np.diff(program.edge_parents, prepend=-1))]  # they are sorted
    return float(read / sizes[parents].sum())


def program_of(samples: Sequence[Sample], counting_numbers: Any, epsilon: float, first: int = 0) -> Models:
    """All samples as one program; only certified kinds of counting numbers."""
    per_sample = isinstance(counting_numbers, (list, tuple)) and not all(np.isscalar(item) for item in counting_numbers)
    specs = []
    for k, sample in enumerate(samples):
        spec = counting_numbers[first + k] if per_sample else counting_numbers
        try:
            numbers = graph_counting_numbers(sample.graph, spec)
        except BlendfieldError as error:
            raise type(error)(f"sample {first + k}: {error}") from error
        specs.append(numbers * sample.weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BlendfieldWarning)
        models = build_models([sample.graph for sample in samples], specs, epsilon, False)
    wrong = models.segment_kind > Kind.EXACT
    if wrong.any():
        number = first + int(models.segment_model[wrong.argmax()])
        raise CountingNumberError(
            f"sample {number}: negative counting numbers on a graph with cycles: the objective is then neither convex "
            "nor a bound. Use 'ones', 'cover' or 'cover-outer', or a rival trainer"
        )
    return models


def loss_and_known_potentials(
    samples: Sequence[Sample],
    entries: int,
    starts: Sequence[int],
    dtype: DataType,
    first: int = 0,
    labelled: bool = True,
) -> tuple[Any, RealArray | None]:
    """(labels int64 [V of all], none where not `labelled`; loss and known potentials float [N] or None)."""
    base: RealArray | None = None
    labels = []
    for k, (sample, start) in enumerate(zip(samples, starts, strict=True)):
        if labelled and sample.labels is None:
            raise LabelError(f"sample {first + k} has no labels; training needs them")
        loss = None
        if labelled and sample.labels is not None:
            labels.append(sample.labels)
            loss = loss_table(sample.graph, sample.labels, sample.loss)
        if loss is None and sample.fixed is None:
            continue
        if base is None:
            base = np.zeros(entries, dtype=dtype)
        stop = start + int(sample.graph.table_offsets[-1])
        for table in (loss, sample.fixed):
            if table is not None:
                base[start:stop] += table if sample.weight == 1.0 else table * sample.weight
        if labelled:
            require_possible_truth(sample, first + k)
    return np.concatenate([np.zeros(0, dtype=np.int64), *labels]), base


def require_possible_truth(sample: Sample, number: int) -> None:
    """LabelError where an observed label is forbidden; `number`: of the sample."""
    if sample.fixed is None or sample.labels is None:
        return
    true, observed = true_entries(sample.graph, sample.labels)
    impossible = np.isneginf(sample.fixed[true]) & observed
    if impossible.any():
        region = int(impossible.argmax())
        raise LabelError(f"sample {number}, region {region}: the true label is forbidden (-inf)")
