"""A chunk that is not kept in memory: made anew from its samples for every question, its messages in a file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np

from blendfield.backends.protocol import FloatArray, RealArray
from blendfield.engines.protocol import Certificate, Evaluation, Recipe, Request, SoftEvaluation, Trial
from blendfield.engines.protocol import Chunk as AnyChunk
from blendfield.model.inner import inner


class StreamedChunk:
    """See `engines.protocol.Chunk`. M messages, m slots of history.

    The file has no name, so that nothing is left of it however the process ends. In it are the messages and the pairs
    (f, g) of the history, which the compiled problem would keep otherwise: `2 m + 1` rows of M numbers.
    """

    def __init__(self, recipe: Recipe, threads: int | None, compiled: AnyChunk) -> None:
        """`compiled`: the chunk, which is let go of after this."""
        self.recipe = recipe
        self.threads = threads
        self.num_weights = compiled.num_weights
        self.all_exact, self.hidden = compiled.all_exact, compiled.hidden
        self.scale, self.passes_per_sweep = compiled.scale, compiled.passes_per_sweep
        first = compiled.messages()
        self._size, self._dtype = len(first), first.dtype
        self._file = tempfile.TemporaryFile(prefix="blendfield-")  # noqa: SIM115 - closed with the chunk
        self._epsilon: float | None = None
        self._slots = 0
        self._filled: set[int] = set()
        self._write(0, first)
        self._untouched = True  # the messages are those that a compiled chunk begins with

    # The file: row 0 the messages, then f and g of every slot.

    def _read(self, row: int) -> RealArray:
        self._file.seek(row * self._size * self._dtype.itemsize)
        values: Any = np.fromfile(self._file, dtype=self._dtype, count=self._size)
        return cast(RealArray, values)

    def _write(self, row: int, values: RealArray) -> None:
        self._file.seek(row * self._size * self._dtype.itemsize)
        np.ascontiguousarray(values, dtype=self._dtype).tofile(self._file)
        self._file.flush()

    @contextmanager
    def _compiled(self, messages: RealArray) -> Iterator[AnyChunk]:
        chunk = self.recipe.build(self.threads)
        if self._epsilon is not None:
            chunk.set_epsilon(self._epsilon)
        if not self._untouched:
            chunk.set_messages(messages)
        self._untouched = False
        yield chunk

    # What engines are asked.

    def allocate(self, slots: int) -> None:
        """Room for so many steps of mixing history."""
        self._slots = slots
        self._filled.clear()

    def set_epsilon(self, epsilon: float) -> None:
        """The temperature of what follows; messages stay."""
        self._epsilon = epsilon

    def messages(self) -> RealArray:
        """As the compiled chunk's."""
        return self._read(0)

    def set_messages(self, flat: RealArray) -> None:
        """The reverse of `messages`."""
        if len(flat) != self._size:
            raise ValueError(f"messages have {len(flat)} entries, expected {self._size}")
        self._untouched = False
        self._write(0, flat)

    def fill_history(self) -> None:
        """See `engines.protocol.Chunk`."""
        messages = self._read(0)
        for slot in range(self._slots):
            self._push(slot, np.zeros_like(messages), messages)

    def beliefs(self) -> RealArray:
        """Those of whole samples are not asked for."""
        raise NotImplementedError

    def advance(self, request: Request) -> FloatArray:
        """Nothing is shared; see `finish`."""
        return np.zeros(0)

    def finish(self, request: Request, shared: FloatArray) -> Evaluation:
        """All of `iterate`."""
        return self.iterate(request)

    def iterate(self, request: Request) -> Evaluation:
        """See `engines.protocol.Request`."""
        before = self._start(request)
        with self._compiled(before) as chunk:
            found = chunk.iterate(Request(weights=request.weights, sweeps=request.sweeps, curvature=request.curvature))
            after = chunk.messages()
        self._write(0, after)
        products = found.products
        if request.slot is not None:
            products = self._push(request.slot, after - before, after)
        return Evaluation(found.value, found.gradient, found.curvature, products)

    def _start(self, request: Request) -> RealArray:
        """The messages before the sweep."""
        messages = self._read(0)
        if request.mixing is not None:
            mixed: FloatArray = np.zeros(self._size)
            for slot in sorted(self._filled):
                if request.mixing[slot] != 0.0:
                    mixed += request.mixing[slot] * self._read(2 + 2 * slot)
            messages = cast(RealArray, mixed.astype(self._dtype))
        elif request.restore in self._filled and request.restore is not None:
            messages = self._read(2 + 2 * request.restore)
        if request.erase:
            messages = np.zeros_like(messages)
        if request.forget:
            self._filled.clear()
        return messages

    def _push(self, slot: int, moved: RealArray, messages: RealArray) -> FloatArray:
        """float64 [m]: inner products of the residual with those of all slots."""
        self._write(1 + 2 * slot, moved)
        self._write(2 + 2 * slot, messages)
        self._filled.add(slot)
        products: FloatArray = np.zeros(self._slots)
        long = moved.astype(np.float64)
        for other in sorted(self._filled):
            products[other] = inner(long, self._read(1 + 2 * other).astype(np.float64))
        return products

    def trial(self, weights: FloatArray, direction: FloatArray, steps: FloatArray, restore: int | None) -> Trial:
        """See `engines.protocol.Engine.trial`."""
        messages = self._read(0 if restore not in self._filled or restore is None else 2 + 2 * restore)
        with self._compiled(messages) as chunk:
            found = chunk.trial(weights, direction, steps, None)
            self._write(0, chunk.messages())
        return found

    def certificate(self, weights: FloatArray, epsilon: float, smoothing: float) -> Certificate:
        """See `engines.protocol.Engine.certificate`."""
        with self._compiled(self._read(0)) as chunk:
            chunk.iterate(Request(weights=weights, sweeps=0))  # theta(w)
            return chunk.certificate(weights, epsilon, smoothing)

    def complete(self, weights: FloatArray, epsilon: float, smoothing: float) -> float:
        """See `engines.protocol.Engine.complete`."""
        if not self.hidden:
            return 0.0
        with self._compiled(self._read(0)) as chunk:
            rise = chunk.complete(weights, epsilon, smoothing)
            self._write(0, chunk.messages())
        return rise

    def soft(self, weights: FloatArray, messages: FloatArray, gamma: float, curvature: bool) -> SoftEvaluation:
        """See `engines.protocol.SoftEvaluation`."""
        with self._compiled(messages) as chunk:
            return chunk.soft(weights, messages, gamma, curvature)
