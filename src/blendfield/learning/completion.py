"""Unobserved labels: consistent beliefs q that agree with what is observed stand for the truth (mathematics §7).

    J(w, lambda, q) = sum_r eps c_r logsumexp(hat_r / (eps c_r)) - T(q),
    T(q) = sum_r <q_r, theta_r> + eps c_r H(q_r)

is convex in (w, lambda) at fixed q. The best q at fixed w is a clamped inference, with messages of its own. A new q is
kept, component by component, only where T rises, so that J never does.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from blendfield import backends
from blendfield.backends.protocol import DataType, FloatArray, RealArray
from blendfield.errors import LabelError, SupportError
from blendfield.inference.program import Models
from blendfield.model.losses import true_entries

LabelArray = npt.NDArray[np.int64]
SWEEPS = 30
"""of the clamped inference at each completion; its messages are kept"""
SEARCH_PASSES = 10


class Completion:
    """The clamped problem of one chunk and the present q. N table entries, S segments."""

    def __init__(
        self,
        models: Models,
        labels: LabelArray,
        base: RealArray | None,
        first: int,
        epsilon: float,
        dtype: DataType,
        threads: int | None,
        backend: str,
    ) -> None:
        """labels: int64 [V], -1 where unobserved; base: as `Chunk.base`; first: number of the first sample."""
        self.program = models.program
        graph = self.program.graph
        tables = np.zeros(int(graph.table_offsets[-1]), dtype=dtype) if base is None else base.copy()
        seen = np.flatnonzero(labels >= 0)
        regions = graph.single_regions[seen]
        for label in range(int(graph.cardinalities.max(initial=0))):
            wrong = (graph.cardinalities[seen] > label) & (labels[seen] != label)
            tables[graph.table_offsets[regions[wrong]] + label] = -np.inf
        try:
            self.problem = backends.get(backend).compile(
                self.program, tables, epsilon=epsilon, dtype=dtype, threads=threads
            )
        except SupportError as error:
            found = re.search(r"region (\d+)", str(error))
            region = int(found.group(1)) if found else 0
            sample = int(np.searchsorted(models.region_starts, region, side="right")) - 1
            raise LabelError(
                f"sample {first + sample}, region {region - int(models.region_starts[sample])}: no joint label agrees "
                "with the observed labels and the forbidden ones (-inf)"
            ) from error
        self._segment = np.repeat(self.program.segment, graph.table_sizes)
        self._counting = np.repeat(self.program.counting_numbers, graph.table_sizes)
        self.q: FloatArray | None = None
        """float64 [N]; None before the first `improve`"""
        self.entropy: FloatArray = np.zeros(self.program.num_segments)
        """float64 [S]: sum_r c_r H(q_r)"""

    def _entropy(self, q: FloatArray) -> FloatArray:
        logarithms = np.log(q, out=np.zeros_like(q), where=q > 0)
        return self._sums(-self._counting * q * logarithms)

    def _sums(self, entries: FloatArray) -> FloatArray:
        """float64 [S] of values [N]."""
        return np.bincount(self._segment, weights=entries, minlength=self.program.num_segments).astype(np.float64)

    def truth(self, q: FloatArray, entropy: FloatArray, theta: RealArray, epsilon: float) -> FloatArray:
        """float64 [S]: T(q); forbidden entries, where q is 0, take no part."""
        return self._sums(q * np.where(q > 0, theta, 0.0)) + epsilon * entropy

    def improve(self, theta: RealArray, epsilon: float, smoothing: float) -> float:
        """Clamped inference at potentials theta, float [N]; by how much T has risen (from nothing: inf)."""
        problem = self.problem
        problem.set_potentials(theta)
        problem.set_epsilon(epsilon or smoothing)
        problem.sweep(SWEEPS)
        problem.set_epsilon(epsilon)
        candidate = problem.certificate(epsilon or smoothing, candidate=True)
        assert candidate.candidate is not None
        usable = np.isfinite(candidate.gap)
        before = -np.inf if self.q is None else self._total(theta, epsilon)
        if epsilon == 0 or not usable.all():
            self._try(self._labelling(), theta, epsilon, np.ones(len(usable), dtype=bool))
        self._try(candidate.candidate, theta, epsilon, usable)
        return self._total(theta, epsilon) - before

    def state(self, dtype: DataType) -> RealArray:
        """float [messages layout + N]: the clamped messages and q; q is zero before the first `improve`."""
        q = np.zeros(len(self._segment)) if self.q is None else self.q
        return np.concatenate([self.problem.messages(), q]).astype(dtype)

    def restore(self, state: RealArray, messages: int) -> None:
        """The reverse of `state`; so many entries of it are messages."""
        self.problem.set_messages(state[:messages])
        self.q = state[messages:].astype(np.float64)
        self.entropy = self._entropy(self.q)

    def _total(self, theta: RealArray, epsilon: float) -> float:
        assert self.q is not None
        return float(self.truth(self.q, self.entropy, theta, epsilon).sum())

    def _try(self, q: FloatArray, theta: RealArray, epsilon: float, usable: npt.NDArray[np.bool_]) -> None:
        """Take q over where it is better, in the segments that are `usable`, bool [S]."""
        entropy = self._entropy(q)
        better = usable.copy()
        if self.q is not None:
            better &= self.truth(q, entropy, theta, epsilon) > self.truth(self.q, self.entropy, theta, epsilon)
            q = np.where(better[self._segment], q, self.q)
        self.q = q
        self.entropy = np.where(better, entropy, self.entropy)

    def _labelling(self) -> FloatArray:
        """float64 [N]: 1 at the joint labels of the best labelling found."""
        labels = self.problem.local_search(self.problem.decode(), SEARCH_PASSES)
        q = np.zeros(len(self._segment))
        q[true_entries(self.program.graph, labels)[0]] = 1.0
        return q
