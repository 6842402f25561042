"""The local engine: all chunks in this process, one after the other, each with all threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import TypeVar

from blendfield.backends.protocol import FloatArray, RealArray
from blendfield.engines.protocol import Certificate, Chunk, Evaluation, Request, SoftEvaluation, Trial

T = TypeVar("T")


class LocalEngine:
    """See `engines.protocol.Engine`."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self.chunks: list[Chunk] = list(chunks)
        self.num_weights = self.chunks[0].num_weights
        self.exact = all(chunk.all_exact for chunk in self.chunks)
        self.hidden = any(chunk.hidden for chunk in self.chunks)

    def allocate(self, slots: int) -> None:
        for chunk in self.chunks:
            chunk.allocate(slots)

    def set_epsilon(self, epsilon: float) -> None:
        for chunk in self.chunks:
            chunk.set_epsilon(epsilon)

    def iterate(self, request: Request) -> Evaluation:
        return sum_evaluations([chunk.iterate(request) for chunk in self.chunks])

    def trial(self, weights: FloatArray, direction: FloatArray, steps: FloatArray, restore: int | None) -> Trial:
        return sum_trials([chunk.trial(weights, direction, steps, restore) for chunk in self.chunks])

    def certificate(self, weights: FloatArray, epsilon: float, smoothing: float) -> Certificate:
        return sum_certificates([chunk.certificate(weights, epsilon, smoothing) for chunk in self.chunks])

    def complete(self, weights: FloatArray, epsilon: float, smoothing: float) -> float:
        return sum(chunk.complete(weights, epsilon, smoothing) for chunk in self.chunks)

    def soft(self, weights: FloatArray, messages: list[FloatArray], gamma: float, curvature: bool) -> SoftEvaluation:
        parts = [chunk.soft(weights, own, gamma, curvature) for chunk, own in zip(self.chunks, messages, strict=True)]
        return SoftEvaluation(
            value=sum(part.value for part in parts),
            gradient=_sum(parts, lambda part: part.gradient),
            slopes=[slope for part in parts for slope in part.slopes],
            residual=sum(part.residual for part in parts),
            curvature=_sum(parts, lambda part: part.curvature) if curvature else None,  # type: ignore
            curvatures=[own for part in parts for own in part.curvatures],
        )

    def messages(self) -> list[RealArray]:
        return [chunk.messages() for chunk in self.chunks]

    def set_messages(self, messages: list[RealArray]) -> None:
        for chunk, flat in zip(self.chunks, messages, strict=True):
            chunk.set_messages(flat)

    def close(self) -> None:
        self.chunks = []


def _sum(parts: Sequence[T], of: Callable[[T], FloatArray]) -> FloatArray:
    """In chunk order, whoever computed the parts."""
    return reduce(add, (of(part) for part in parts))


def sum_evaluations(parts: Sequence[Evaluation]) -> Evaluation:
    """One evaluation of the whole set from those of its chunks, in order."""
    return Evaluation(
        value=sum(part.value for part in parts),
        gradient=_sum(parts, lambda part: part.gradient),
        curvature=None if parts[0].curvature is None else _sum(parts, lambda part: part.curvature),  # type: ignore
        products=_sum(parts, lambda part: part.products),
    )


def sum_trials(parts: Sequence[Trial]) -> Trial:
    """As `sum_evaluations`."""
    return Trial(
        _sum(parts, lambda part: part.value),
        _sum(parts, lambda part: part.slope),
        _sum(parts, lambda part: part.curvature),
    )


def sum_certificates(parts: Sequence[Certificate]) -> Certificate:
    """As `sum_evaluations`."""
    return Certificate(
        value=sum(part.value for part in parts),
        divergence=sum(part.divergence for part in parts),
        moments=_sum(parts, lambda part: part.moments),
        spread=sum(part.spread for part in parts),
    )
