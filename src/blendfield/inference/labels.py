"""Labels from single-variable beliefs, without computing the beliefs of all regions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from blendfield.backends.protocol import FloatArray, IntArray, LabelArray, RealArray
from blendfield.inference.evidence import single_regions
from blendfield.inference.program import Models

CHUNK_EDGES = 1 << 16


class BeliefLabels:
    """argmax of b_i for every variable i.

    b_i = softmax(hat_i / (eps c_i)) has its maximum where sign(c_i) hat_i has it, and a single-variable region has no
    children, so the messages are enough:

        hat_i = theta_i - sum_{p in P(i)} lambda_{i->p}
    """

    def __init__(self, models: Models, tables: RealArray) -> None:
        """`tables`: all potentials, float [table layout]; only the single-variable ones are copied."""
        program = models.program
        self.program = program
        region_of = single_regions(program.graph)
        self.segment: IntArray = program.segment[region_of]
        """int32 [V]: the segment of each variable"""
        self.theta: FloatArray = np.empty(int(program.graph.cardinalities.sum(dtype=np.int64)))
        offsets = self._offsets()
        for variables, within in self._by_size():
            places = program.graph.table_offsets[region_of[variables]]
            self.theta[offsets[variables, None] + within] = tables[places[:, None] + within]
        self.negative = program.counting_numbers[region_of] < 0

    def labels(self, messages: RealArray) -> LabelArray:
        """int64 [V], ties to the lowest label, from `messages`, float [message layout]."""
        hat, offsets = self.theta.copy(), self._offsets()
        self._subtract_messages(hat, offsets, messages)
        labels = np.zeros(len(self.negative), dtype=np.int64)
        for variables, within in self._by_size():
            rows = hat[offsets[variables, None] + within]
            flipped = self.negative[variables]
            rows[flipped] = np.where(np.isneginf(rows[flipped]), -np.inf, -rows[flipped])
            labels[variables] = rows.argmax(axis=1)
        return labels

    def _subtract_messages(self, hat: FloatArray, offsets: LabelArray, messages: RealArray) -> None:
        """hat_i -= the messages that leave the single-variable regions; in chunks, to need little room."""
        graph, children = self.program.graph, self.program.edge_children
        start = 0
        for first in range(0, len(children), CHUNK_EDGES):
            chunk = children[first : first + CHUNK_EDGES]
            sizes = graph.table_sizes[chunk]
            starts = start + np.cumsum(sizes) - sizes
            start += int(sizes.sum())
            single = graph.region_offsets[chunk + 1] - graph.region_offsets[chunk] == 1
            sizes, starts = sizes[single], starts[single]
            variables = graph.region_variables[graph.region_offsets[chunk[single]]]
            within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            np.subtract.at(
                hat,
                np.repeat(offsets[variables], sizes) + within,
                messages[np.repeat(starts, sizes) + within],
            )

    def _offsets(self) -> LabelArray:
        """int64 [V]: where each variable's labels start in `theta`."""
        sizes = self.program.graph.cardinalities.astype(np.int64)
        offsets: LabelArray = np.cumsum(sizes) - sizes
        return offsets

    def _by_size(self) -> Iterator[tuple[LabelArray, LabelArray]]:
        """(variables with n labels, 0..n-1), some thousands of variables at a time."""
        sizes = self.program.graph.cardinalities
        for n in np.unique(sizes):
            variables = np.flatnonzero(sizes == n)
            for first in range(0, len(variables), CHUNK_EDGES):
                yield variables[first : first + CHUNK_EDGES], np.arange(n)
