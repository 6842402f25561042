"""The local engine: all chunks in this process, one after the other, each with all threads."""

from __future__ import annotations

from collections.abc import Sequence

from blendfield.backends.protocol import FloatArray, RealArray
from blendfield.engines.exchange import NOWHERE, Exchange
from blendfield.engines.protocol import Certificate, Chunk, Evaluation, Request, SoftEvaluation, Trial
from blendfield.engines.sums import total


class LocalEngine:
    """See `engines.protocol.Engine`."""

    def __init__(self, chunks: Sequence[Chunk], exchange: Exchange | None = None) -> None:
        """`exchange`: where chunks share regions."""
        self._exchange = exchange or Exchange([NOWHERE] * len(chunks))
        self.chunks: list[Chunk] = list(chunks)
        self.num_weights = self.chunks[0].num_weights
        self.exact = all(chunk.all_exact for chunk in self.chunks)
        self.hidden = any(chunk.hidden for chunk in self.chunks)
        self.scale = max(chunk.scale for chunk in self.chunks)
        self.passes_per_sweep = max(chunk.passes_per_sweep for chunk in self.chunks)

    def allocate(self, slots: int) -> None:
        for chunk in self.chunks:
            chunk.allocate(slots)

    def set_epsilon(self, epsilon: float) -> None:
        for chunk in self.chunks:
            chunk.set_epsilon(epsilon)

    def iterate(self, request: Request) -> Evaluation:
        if not self._exchange.needed:
            return total(chunk.iterate(request) for chunk in self.chunks)
        shared = self._exchange.means([chunk.advance(request) for chunk in self.chunks])
        return total(chunk.finish(request, own) for chunk, own in zip(self.chunks, shared, strict=True))

    def trial(self, weights: FloatArray, direction: FloatArray, steps: FloatArray, restore: int | None) -> Trial:
        return total([chunk.trial(weights, direction, steps, restore) for chunk in self.chunks])

    def certificate(self, weights: FloatArray, epsilon: float, smoothing: float) -> Certificate:
        return total(chunk.certificate(weights, epsilon, smoothing) for chunk in self.chunks)

    def complete(self, weights: FloatArray, epsilon: float, smoothing: float) -> float:
        return total([chunk.complete(weights, epsilon, smoothing) for chunk in self.chunks])

    def soft(self, weights: FloatArray, messages: list[FloatArray], gamma: float, curvature: bool) -> SoftEvaluation:
        parts = [chunk.soft(weights, own, gamma, curvature) for chunk, own in zip(self.chunks, messages, strict=True)]
        return total(parts)

    def messages(self) -> list[RealArray]:
        return [chunk.messages() for chunk in self.chunks]

    def set_messages(self, messages: list[RealArray]) -> None:
        for chunk, flat in zip(self.chunks, messages, strict=True):
            chunk.set_messages(flat)

    def beliefs(self) -> list[RealArray]:
        return [chunk.beliefs() for chunk in self.chunks]

    def close(self) -> None:
        self.chunks = []
