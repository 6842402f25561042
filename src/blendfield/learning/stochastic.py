"""Learning by batches: the weights move after every batch of samples instead of after all of them.

Of every batch b the last gradient g_b and diagonal curvature d_b are remembered, with the weights w_b they belong to;
after each visit, with one sweep over the batch's messages,

    w <- argmin over v of  sum_b [ g_b.(v - w_b) + damping/2 sum_k d_bk (v_k - w_bk)^2 ] + h1(v) .

There are no step sizes. F is never evaluated at one point for all batches, so nothing is certified on the way: the sum
of what the batches said during an epoch is only an estimate, which may even lie below the optimum. Where it rises by
more than a little, the damping is doubled and the weights of the epoch before are taken up again. In the end one pass
over everything gives F and a bound for the final weights.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from blendfield.backends.protocol import FloatArray
from blendfield.engines.protocol import Chunk, Request
from blendfield.engines.sums import total
from blendfield.learning.blend import FADING
from blendfield.learning.dual import DualPoint, height_of
from blendfield.learning.regularisers import Regulariser, divergence

logger = logging.getLogger("blendfield.learning")

CLOSING_SWEEPS = 5
"""over all messages at the final weights, before they get their bounds"""
RISE = 0.01
"""of the estimate from epoch to epoch, relative, that is too much"""
SETTLING = 0.8
"""factor of the damping after an epoch that went down"""


@dataclass(frozen=True)
class EpochProgress:
    """What a callback is told after every epoch."""

    epoch: int
    estimate: float
    """of F: what the batches said, each at the weights of its visit; not a bound"""
    damping: float
    seconds: float
    weights: FloatArray
    """float64 [K]"""


class Surrogate:
    """The sum over batches of what each said last, as pull.v - v.(curvature v)/2 up to a constant. K weights."""

    def __init__(self, batches: int, size: int) -> None:
        self._said: list[tuple[FloatArray, FloatArray] | None] = [None] * batches
        self._pull: FloatArray = np.zeros(size)
        self._curvature: FloatArray = np.zeros(size)

    def hear(self, batch: int, weights: FloatArray, gradient: FloatArray, curvature: FloatArray) -> None:
        """Replace what the batch said before."""
        before = self._said[batch]
        if before is not None:
            curvature = np.maximum(curvature, FADING * before[1])
            self._pull -= before[0]
            self._curvature -= before[1]
        pull = curvature * weights - gradient
        self._said[batch] = pull, curvature
        self._pull += pull
        self._curvature += curvature

    def minimiser(self, regulariser: Regulariser, weights: FloatArray, damping: float) -> FloatArray:
        """float64 [K]; batches not heard yet are taken to be like the others. Damped, the way from `weights` gets
        shorter."""
        heard = sum(said is not None for said in self._said)
        scale = len(self._said) / heard
        curvature = scale * np.maximum(self._curvature, 0.0)
        gradient = curvature * weights - scale * self._pull
        return regulariser.minimiser(weights, gradient, damping * curvature)


@dataclass
class Outcome:
    """What came out, bounds included."""

    weights: FloatArray
    primal: float = math.inf
    gap: float = math.inf
    reason: str = "epochs"
    estimates: list[float] = field(default_factory=list)
    """by epoch"""
    seconds: list[float] = field(default_factory=list)


def run(
    chunks: Sequence[Chunk],
    regulariser: Regulariser,
    epsilon: float,
    weights: FloatArray,
    epochs: int,
    seed: int | None,
    sweeps: int,
    time_limit: float | None,
    callback: Callable[[EpochProgress], object] | None,
) -> Outcome:
    """Epochs over the chunks in random order, then the certified pass; Ctrl-C goes there at once."""
    rng = np.random.default_rng(seed)
    started = time.perf_counter()
    surrogate = Surrogate(len(chunks), len(weights))
    outcome = Outcome(regulariser.project(weights))
    w, damping, before = outcome.weights, 1.0, math.inf
    for chunk in chunks:
        chunk.set_epsilon(epsilon)
    try:
        for epoch in range(epochs):
            estimate = 0.0
            for batch in rng.permutation(len(chunks)).tolist():
                chunk = chunks[batch]
                if chunk.hidden:
                    chunk.complete(w, epsilon, epsilon)
                found = chunk.iterate(Request(weights=w, sweeps=sweeps, curvature=True))
                assert found.curvature is not None
                surrogate.hear(batch, w, found.gradient, found.curvature)
                w = surrogate.minimiser(regulariser, w, damping)
                estimate += found.value
            estimate += regulariser.value(w)
            seconds = time.perf_counter() - started
            outcome.estimates.append(estimate)
            outcome.seconds.append(seconds)
            logger.info("epoch %d: estimate %.9g, damping %.3g", epoch + 1, estimate, damping)
            if estimate > before + RISE * abs(before):
                w, damping = outcome.weights, 2.0 * damping
            else:
                outcome.weights, damping = w, max(1.0, SETTLING * damping)
            before = estimate
            if callback is not None and callback(EpochProgress(epoch + 1, estimate, damping, seconds, w)) is True:
                outcome.reason = "callback"
                break
            if time_limit is not None and seconds >= time_limit:
                outcome.reason = "time_limit"
                break
    except KeyboardInterrupt:
        outcome.reason = "interrupted"
    _certify(chunks, regulariser, epsilon, outcome)
    return outcome


def _certify(chunks: Sequence[Chunk], regulariser: Regulariser, epsilon: float, outcome: Outcome) -> None:
    """F and its gap at the weights that came out."""
    weights = outcome.weights
    certificates = []
    for chunk in chunks:
        if chunk.hidden:
            chunk.complete(weights, epsilon, epsilon)
        chunk.iterate(Request(weights=weights, sweeps=CLOSING_SWEEPS))
        certificates.append(chunk.certificate(weights, epsilon, epsilon))
    found = total(certificates)
    outcome.primal = found.value + regulariser.value(weights)
    dual = DualPoint(regulariser, len(weights))
    dual.add(height_of(found, weights), found.moments)
    gap = found.divergence + divergence(regulariser, weights, found.moments)
    outcome.gap = max(0.0, min(gap if gap == gap else math.inf, outcome.primal - dual.value))
