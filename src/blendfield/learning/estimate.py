"""How much memory training will take, from the sizes of graphs and features alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from blendfield.inference.memory import in_words
from blendfield.model.pieces import Linear, Rows, Terms
from blendfield.model.sample import Sample


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes beyond the samples themselves, about."""

    tables: int
    """potentials, losses, and the compiled copies of them"""
    messages: int
    features: int
    """compiled; dense matrices are copied once"""
    history: int
    """of the mixing: see the option `memory`"""
    indices: int
    """what belongs to whom"""
    temporary: int
    """beliefs of the largest chunk and the like"""
    largest_chunk: int
    """of all this, what one chunk takes: at least so much has to fit, however the set is kept"""

    @property
    def total(self) -> int:
        """With all chunks in memory."""
        names = (field.name for field in fields(self) if field.name != "largest_chunk")
        return sum(getattr(self, name) for name in names)

    def __str__(self) -> str:
        parts = ", ".join(
            f"{field.name.replace('_', ' ')} {in_words(getattr(self, field.name))}" for field in fields(self)
        )
        return f"{in_words(self.total)} ({parts})"


def estimate_memory(
    samples: Sequence[Sample], bounds: Sequence[tuple[int, int]], slots: int, dtype: str
) -> MemoryEstimate:
    """`bounds`: (first, last) of every chunk. `slots`: steps of mixing history."""
    item = np.dtype(dtype).itemsize
    total = dict.fromkeys(("tables", "messages", "features", "history", "indices"), 0)
    largest = temporary = 0
    for first, last in bounds:
        part = dict.fromkeys(total, 0)
        entries = 0
        for sample in samples[first:last]:  # in order: they may come from files
            graph = sample.graph
            size = int(graph.table_offsets[-1])
            message = int(graph.table_sizes[graph.edge_children].sum()) * item
            entries += size
            # theta and the problem's own; the loss and known potentials
            part["tables"] += size * item * (3 if sample.fixed is not None or sample.loss is not None else 2)
            part["messages"] += message
            part["history"] += (2 * slots + 1) * message
            part["indices"] += 60 * graph.num_edges + 100 * graph.num_regions
            part["features"] += sum(_compiled(piece) for block in sample.blocks for piece in block.pieces)
        # beliefs, the certificate's candidate in float64, and one array more while either is made
        work = entries * (2 * item + 8)
        temporary = max(temporary, work)
        largest = max(largest, work + sum(part.values()))
        for name, size in part.items():
            total[name] += size
    return MemoryEstimate(**total, temporary=temporary, largest_chunk=largest)


def _compiled(piece: Any) -> int:
    """Bytes of the kernel that a piece becomes part of."""
    count = len(piece.start)
    if isinstance(piece, Terms):
        own_tables = piece.tables.nbytes if piece.table is None else 0
        return count * (32 if piece.coefficient is not None else 24) + own_tables
    if isinstance(piece, Rows):
        return count * (28 if piece.coefficient is not None else 20)
    assert isinstance(piece, Linear)
    matrix = piece.features
    if hasattr(matrix, "tocsr"):  # with its squares and its transpose
        return count * 16 + 3 * int(matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes)
    return count * 16 + int(matrix.nbytes)
