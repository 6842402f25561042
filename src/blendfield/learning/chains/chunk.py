"""A chunk of chains that share their pair table: what engines ask, answered by exact passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from blendfield.backends.protocol import FloatArray, RealArray
from blendfield.engines.protocol import Certificate, Evaluation, Request, SoftEvaluation, Trial
from blendfield.graph import RegionGraph
from blendfield.learning.chains import passes
from blendfield.learning.chains.features import ChainFeatures
from blendfield.learning.chains.passes import LongArray, Marginals, Positions
from blendfield.model.inner import inner
from blendfield.model.losses import loss_table
from blendfield.model.pieces import Linear
from blendfield.model.sample import Sample
from blendfield.model.weights import WeightLayout


class ChainChunk:
    """See `engines.protocol.Chunk`; there are no messages to keep. L labels, N positions of all chains."""

    exact = True
    all_exact = True
    hidden = False
    passes_per_sweep = 2.0

    def __init__(
        self, samples: Sequence[Sample], labels: int, layout: WeightLayout, epsilon: float, threads: int | None
    ) -> None:
        """`labels`: their number at every position; see `chain_chunk`."""
        lengths: LongArray = np.array([sample.graph.num_variables for sample in samples], dtype=np.int64)
        self.positions = Positions(lengths)
        self.labels = labels
        self.num_weights = layout.size
        self.epsilon = epsilon
        self._slots = 0
        columns = [self.positions.of(k, int(n)) for k, n in enumerate(lengths)]
        self.features = ChainFeatures(samples, columns, labels, layout, threads)
        count = int(lengths.sum())
        self.base: FloatArray = np.zeros((labels, count))
        """float64 [L, N]: loss"""
        self._truth: LongArray = np.zeros(count, dtype=np.int64)
        self._weights: FloatArray = np.ones(count)
        self._chain_weights: FloatArray = np.ones(len(samples))
        steps: FloatArray = np.zeros((labels, labels))
        for k, (sample, place) in enumerate(zip(samples, columns, strict=True)):
            assert sample.labels is not None
            self._truth[place] = sample.labels
            self._weights[place] = self._chain_weights[self.positions.rank[k]] = sample.weight
            np.add.at(steps, (sample.labels[:-1], sample.labels[1:]), sample.weight)
            loss = loss_table(sample.graph, sample.labels, sample.loss)
            if loss is not None:
                self.base[:, place] = loss[(len(place) - 1) * labels**2 :].reshape(-1, labels).T
        self._num_pairs = max(float(steps.sum()), 1.0)
        self.true_moments = self.features.moments(self._indicator(self._truth), steps)
        """float64 [K]: sum_r phi_{k,r}(y_r)"""
        self.true_base = float((self._weights * self.base[self._truth, np.arange(count)]).sum())
        self.scale = float((self.base.max(axis=0) - self.base.min(axis=0)).max(initial=0.0)) or 1.0
        """a temperature of the size of the first potentials"""

    # What engines are asked.

    def allocate(self, slots: int) -> None:
        """Nothing is kept; the residuals of messages are none."""
        self._slots = slots

    def set_epsilon(self, epsilon: float) -> None:
        """The temperature of what follows."""
        self.epsilon = epsilon

    def complete(self, weights: FloatArray, epsilon: float, smoothing: float) -> float:
        """Every label is observed: nothing to be done."""
        return 0.0

    def soft(self, weights: FloatArray, messages: FloatArray, gamma: float, curvature: bool) -> SoftEvaluation:
        """There are no messages to soften: `Chunk` serves."""
        raise NotImplementedError

    def messages(self) -> RealArray:
        """None: every evaluation makes its own."""
        return np.zeros(0)

    def set_messages(self, flat: RealArray) -> None:
        """Nothing to be set."""

    def fill_history(self) -> None:
        """Nothing is kept."""

    def beliefs(self) -> RealArray:
        """They are not written out: `Chunk` serves."""
        raise NotImplementedError

    def advance(self, request: Request) -> FloatArray:
        """Nothing to be done, and nothing is shared."""
        return np.zeros(0)

    def finish(self, request: Request, shared: FloatArray) -> Evaluation:
        """All of `iterate`."""
        return self.iterate(request)

    def iterate(self, request: Request) -> Evaluation:
        """See `engines.protocol.Request`: the messages are the optimal ones, whatever was asked for them."""
        unary, pair = self.features.potentials(request.weights, self.base)
        found = self._marginals(unary, pair, self.epsilon)
        gradient = self._moments(found)
        curvature = None
        if request.curvature:
            curvature = self._curvature(found) / self.epsilon if self.epsilon > 0 else gradient * 0
        products = np.zeros(0 if request.slot is None else self._slots)
        return Evaluation(self._value(found.values, request.weights), gradient, curvature, products)

    def trial(self, weights: FloatArray, direction: FloatArray, steps: FloatArray, restore: int | None) -> Trial:
        """See `engines.protocol.Engine.trial`."""
        values = [self.iterate(Request(weights=weights + step * direction)).value for step in steps.tolist()]
        unknown = np.full(len(steps), np.nan)
        return Trial(np.array(values), unknown, unknown)

    def certificate(self, weights: FloatArray, epsilon: float, smoothing: float) -> Certificate:
        """See `engines.protocol.Engine.certificate`: q are the marginals at `smoothing`, and the divergence is

        A - <q, theta> - eps H(q),   H(q) = (A_smoothing - <q, theta>) / smoothing .
        """
        unary, pair = self.features.potentials(weights, self.base)
        found = self._marginals(unary, pair, smoothing)
        values, gap = found.values, 0.0
        if epsilon != smoothing:
            inner = float((self._weights * found.nodes * unary).sum() + (found.pairs * pair).sum())
            entropy = (float(self._chain_weights @ found.values) - inner) / smoothing
            values = self._marginals(unary, pair, epsilon).values
            gap = max(0.0, float(self._chain_weights @ values) - inner - epsilon * entropy)
        return Certificate(self._value(values, weights), gap, self._moments(found), 0.0)

    # Beliefs, and what is made of them.

    def _marginals(self, unary: FloatArray, pair: FloatArray, epsilon: float) -> Marginals:
        """At eps = 0 those of the best labelling."""
        if epsilon > 0:
            found = passes.marginals(unary / epsilon, pair / epsilon, self.positions, self._weights)
            return replace(found, values=epsilon * found.values)
        values, chosen = passes.best_labels(unary, pair, self.positions)
        pairs: FloatArray = np.zeros((self.labels, self.labels))
        for before, now in self.positions.steps:
            np.add.at(pairs, (chosen[before], chosen[now]), self._weights[now])
        nodes: FloatArray = np.zeros_like(unary)
        nodes[chosen, np.arange(len(chosen))] = 1.0
        return Marginals(values, nodes, pairs)

    def _indicator(self, labels: LongArray) -> FloatArray:
        """float64 [L, N], weighted, of labels int64 [N]."""
        nodes: FloatArray = np.zeros((self.labels, len(labels)))
        nodes[labels, np.arange(len(labels))] = self._weights
        return nodes

    def _moments(self, found: Marginals) -> FloatArray:
        """float64 [K]: sum_r <b_r, phi_{k,r}> - phi_{k,r}(y_r)."""
        nodes = found.nodes if (self._weights == 1.0).all() else found.nodes * self._weights
        return self.features.moments(nodes, found.pairs) - self.true_moments

    def _curvature(self, found: Marginals) -> FloatArray:
        """float64 [K]: sum_r Var_b(phi); the pairs' from their mean belief, which is no less."""
        mean = found.pairs / self._num_pairs
        return self.features.curvature(found.nodes, self._weights, self._num_pairs * mean * np.maximum(1.0 - mean, 0.0))

    def _value(self, values: FloatArray, weights: FloatArray) -> float:
        return float(self._chain_weights @ values) - inner(self.true_moments, weights) - self.true_base


def chain_chunk(
    samples: Sequence[Sample],
    layout: WeightLayout,
    counting_numbers: Any,
    epsilon: float,
    *,
    dtype: str = "float64",
    threads: int | None = None,
    backend: str = "auto",
) -> ChainChunk | None:
    """The samples as a `ChainChunk`; None where they are something else.

    They have to be chains as `chain_graph` makes them, with "bethe" numbers, one number of labels, all of them known,
    and losses on single variables only; on pairs only blocks that give all pairs of all samples the same features.
    """
    if not (isinstance(counting_numbers, str) and counting_numbers == "bethe"):
        return None
    if dtype != "float64" or backend not in ("auto", "cpu") or not samples or samples[0].graph.num_variables == 0:
        return None
    labels = int(samples[0].graph.cardinalities[0])
    known: dict[int, bool] = {}
    shared: dict[str, FloatArray] = {}
    for sample in samples:
        graph = sample.graph
        if id(graph) not in known:
            known[id(graph)] = _is_chain(graph, labels)
        usable = known[id(graph)] and sample.fixed is None and sample.labels is not None and (sample.labels >= 0).all()
        if not usable or not _simple_loss(sample, labels) or not _share_pairs(sample, labels, shared):
            return None
    return ChainChunk(samples, labels, layout, epsilon, threads)


def _is_chain(graph: RegionGraph, labels: int) -> bool:
    """As made by `chain_graph(length, labels)`, at least two labels and one variable."""
    length = graph.num_variables
    if labels < 2 or length < 1 or graph.num_regions != 2 * length - 1 or graph.num_given != length - 1:
        return False
    pairs = np.stack([np.arange(length - 1), np.arange(1, length)], axis=1).ravel()
    same = np.array_equal(graph.region_variables[: len(pairs)], pairs)
    return same and bool((graph.cardinalities == labels).all() and (graph.region_orders[: length - 1] == 2).all())


def _simple_loss(sample: Sample, labels: int) -> bool:
    """No loss on pairs."""
    if sample.loss is None or isinstance(sample.loss, str):
        return True
    assert sample.labels is not None
    table = loss_table(sample.graph, sample.labels, sample.loss)
    return table is None or not table[: (sample.graph.num_variables - 1) * labels**2].any()


def _share_pairs(sample: Sample, labels: int, shared: dict[str, FloatArray]) -> bool:
    """Every block on pairs gives all of them the same row; `shared`: the rows so far, by block."""
    length = sample.graph.num_variables
    pair_entries = (length - 1) * labels**2
    for block in sample.blocks:
        for piece in block.pieces:
            if len(piece.start) == 0 or not (piece.start < pair_entries).any():
                continue
            if not isinstance(piece, Linear) or not isinstance(piece.features, np.ndarray):
                return False
            if len(piece.start) != length - 1:
                return False
            row = shared.setdefault(block.name, piece.features[0])
            if not (piece.features == row).all():
                return False
    return True
