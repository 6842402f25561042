"""The part of the training set that one worker has: some chunks, which answer together."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield.backends.protocol import FloatArray, RealArray
from blendfield.engines.budget import Budget
from blendfield.engines.protocol import Chunk, Recipe, Request
from blendfield.engines.spares import Copies
from blendfield.engines.sums import Node, fold
from blendfield.engines.support import Support

WEIGHT_VECTORS = {"iterate": 1, "finish": 1, "trial": 2, "certificate": 1, "complete": 1, "soft": 1, "advance": 1}
"""how many of a question's first arguments are, or hold, float64 [K]"""
SUMS = ("iterate", "finish", "trial", "certificate", "complete", "soft")
"""questions whose answers are added up"""
FIRST_SWEEPS = 5
"""of a chunk whose messages begin at zero in the middle of a run"""


@dataclass(frozen=True)
class Present:
    """What a chunk that is made in the middle of a run has to be told."""

    slots: int = 0
    epsilon: float | None = None
    weights: FloatArray | None = None
    """float64 [K]: the last asked for; None: nothing has been asked yet"""
    completion: tuple[float, float] | None = None
    """(epsilon, smoothing) of the last `complete`"""


@dataclass(frozen=True)
class ChunkFacts:
    """What the driver knows of a chunk."""

    num_weights: int
    all_exact: bool
    hidden: bool
    scale: float
    passes_per_sweep: float


class NotHere(Exception):
    """A worker was started again and has forgotten its chunks."""


class Shard:
    """Chunks by number, of `count` in the whole set. Everything that a worker is asked passes through here."""

    def __init__(
        self, count: int, threads: int | None, memory_limit: int | None = None, kind: type[Recipe] | None = None
    ) -> None:
        """`kind`: what chunks will be made by. A process that has read its name has imported what it needs."""
        self.count = count
        self._budget = Budget(memory_limit)
        self.threads = threads
        self.support = Support(0)
        self._chunks: dict[int, Chunk] = {}
        self._common: dict[str, Any] = {}
        self._touched: dict[int, npt.NDArray[np.bool_]] = {}
        self._copies: Copies | None = None
        self._kept: dict[int, RealArray] = {}

    def hello(self) -> dict[str, Any]:
        """Who is there."""
        return {"version": metadata.version("blendfield"), "process": os.getpid(), "chunks": sorted(self._chunks)}

    def build(
        self, recipes: Mapping[int, Recipe], present: Present, messages: Mapping[int, RealArray]
    ) -> tuple[dict[int, ChunkFacts], Support]:
        """Make chunks; without `messages` they begin with the copies that are here, or at zero. Returns their facts and
        what all chunks here touch.
        """
        facts = {}
        for number, recipe in recipes.items():
            chunk = self._budget.build(recipe, self.threads, self._common)
            self._touched[number] = recipe.touched()
            self._catch_up(chunk, present, messages.get(number), self._kept.get(number))
            self._chunks[number] = chunk
            facts[number] = ChunkFacts(
                chunk.num_weights, chunk.all_exact, chunk.hidden, chunk.scale, chunk.passes_per_sweep
            )
        self._find_support()
        self._kept.clear()
        return facts, self.support

    # The spare process of a machine, see `engines.spares`.

    def leave_copies_with(self, spare: Any) -> None:
        """Where this worker's messages are kept from now on; None: nowhere."""
        self._copies = None if spare is None else Copies(spare)

    def keep(self, messages: Mapping[int, RealArray]) -> None:
        """Messages of another worker's chunks."""
        self._kept.update(messages)

    def forget(self) -> None:
        """Everything."""
        self._chunks.clear()
        self._touched.clear()
        self._kept.clear()
        self._common.clear()
        self._budget = Budget(self._budget.limit)
        self._find_support()

    # Questions.

    def take(self, numbers: Sequence[int]) -> tuple[dict[int, RealArray], Support]:
        """Give up some chunks: their messages, and what the others touch."""
        found = {number: self._chunks.pop(number).messages() for number in numbers}
        for number in numbers:
            del self._touched[number]
        self._find_support()
        return found, self.support

    def ask(
        self, expected: Sequence[int], method: str, arguments: Sequence[Any], private: Mapping[int, Any]
    ) -> tuple[dict[Node, Any], float]:
        """(sums of the chunks' answers by node, seconds). `private`: an argument of each chunk's own, behind the first
        one. Answers that are no sums come one per chunk.
        """
        if set(expected) != set(self._chunks):
            raise NotHere(f"expected chunks {sorted(expected)}, have {sorted(self._chunks)}")
        started = time.perf_counter()
        vectors = WEIGHT_VECTORS.get(method, 0)
        shared = [self.support.widen(value) if k < vectors else value for k, value in enumerate(arguments)]
        answers: dict[Node, Any] = {}
        for number in sorted(self._chunks):
            own = [*shared[:1], private[number], *shared[1:]] if number in private else shared
            answers[0, number] = getattr(self._chunks[number], method)(*own)
        if method in SUMS:
            answers = {node: self.support.narrow(answer) for node, answer in fold(answers, self.count).items()}
        taken = time.perf_counter() - started
        if self._copies is not None and method in ("iterate", "finish"):
            self._copies.leave(self._chunks, taken)
        return answers, taken

    def _find_support(self) -> None:
        touched = list(self._touched.values())
        self.support = Support.of(np.logical_or.reduce(touched)) if touched else Support(0)

    def _catch_up(self, chunk: Chunk, present: Present, messages: RealArray | None, copies: RealArray | None) -> None:
        """Let a new chunk be as if it had been there all the time, but for its messages where there are only `copies`,
        of a moment ago, or none.
        """
        if present.slots:
            chunk.allocate(present.slots)
        if present.epsilon is not None:
            chunk.set_epsilon(present.epsilon)
        if messages is not None:
            chunk.set_messages(messages)
        elif present.weights is not None:
            if copies is not None:
                chunk.set_messages(copies)
            elif chunk.hidden:
                epsilon = present.epsilon or 0.0
                chunk.complete(present.weights, *(present.completion or (epsilon, epsilon or chunk.scale)))
            chunk.advance(Request(weights=present.weights, sweeps=FIRST_SWEEPS))
        chunk.fill_history()
