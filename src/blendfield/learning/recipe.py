"""How a chunk of the training set is made, here or on another machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield.engines.exchange import NOWHERE
from blendfield.engines.protocol import Chunk as AnyChunk
from blendfield.learning.chains import ChainChunk, chain_chunk
from blendfield.learning.chunk import Chunk
from blendfield.learning.estimate import estimate_memory
from blendfield.learning.options import LearnerOptions
from blendfield.learning.shared import Shared
from blendfield.learning.streamed import StreamedChunk
from blendfield.model.feature_map import touched_weights
from blendfield.model.sample import Sample
from blendfield.model.weights import WeightLayout


@dataclass(frozen=True)
class ChunkRecipe:
    """See `engines.protocol.Recipe`."""

    samples: Sequence[Sample]
    first: int
    """number of the first sample in the training set"""
    layout: WeightLayout
    counting_numbers: Any
    options: LearnerOptions
    size: int

    @property
    def places(self) -> npt.NDArray[np.int64]:
        """int64 [0]: whole samples share nothing."""
        return NOWHERE

    def build(self, threads: int | None, common: dict[str, Any] | None = None) -> AnyChunk:
        """The samples compiled, with so many threads unless the options say otherwise."""
        samples = list(self.samples)  # from files, where they are there
        if (chains := self._chains(samples, threads)) is not None:
            return chains
        chunk = Chunk(
            samples,
            self.layout,
            self.counting_numbers,
            self.options.epsilon,
            first=self.first,
            shared=None if common is None else common.setdefault("learning", Shared()),
            **self._wanted(threads),
        )
        if self.options.soft_marginalisation > 0:
            chunk.require_positive_counting_numbers()
        return chunk

    def build_chains(self, threads: int | None) -> ChainChunk | None:
        """The samples without their pairs written out, where they are chains; else None."""
        return self._chains(self.samples, threads)

    def _chains(self, samples: Sequence[Sample], threads: int | None) -> ChainChunk | None:
        if self.options.soft_marginalisation > 0:
            return None
        return chain_chunk(samples, self.layout, self.counting_numbers, self.options.epsilon, **self._wanted(threads))

    def _wanted(self, threads: int | None) -> dict[str, Any]:
        options = self.options
        return {"dtype": options.dtype, "threads": options.threads or threads, "backend": options.backend}

    def streamed(self, compiled: AnyChunk, threads: int | None) -> StreamedChunk:
        """The same, but not kept in memory between questions."""
        return StreamedChunk(self, threads, compiled)

    def needed_bytes(self) -> int:
        """About how many bytes the chunk holds, history included."""
        options = self.options
        return estimate_memory(self.samples, [(0, len(self.samples))], max(2, options.memory), options.dtype).total

    def touched(self) -> npt.NDArray[np.bool_]:
        """bool [K]."""
        return touched_weights(self.layout, [sample.blocks for sample in self.samples])
