"""Labels from single-variable beliefs, without computing the beliefs of all regions."""

from __future__ import annotations

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
        graph = program.graph
        region_of = single_regions(graph)
        self.segment: IntArray = program.segment[region_of]
        """int32 [V]: the segment of each variable"""
        self.sizes = graph.cardinalities.astype(np.int64)
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)])
        self.theta: FloatArray = np.empty(int(self.offsets[-1]))
        for n in np.unique(self.sizes):
            variables = np.flatnonzero(self.sizes == n)
            within = np.arange(n)
            self.theta[self.offsets[variables, None] + within] = tables[
                graph.table_offsets[region_of[variables], None] + within
            ]
        self.sign = np.where(program.counting_numbers[region_of] < 0, -1.0, 1.0)
        # Messages that leave single-variable regions: where they start, and whose they are.
        leaves = np.diff(graph.region_offsets)[program.edge_children] == 1
        starts = np.cumsum(graph.table_sizes[program.edge_children]) - graph.table_sizes[program.edge_children]
        self.message_start = starts[leaves]
        self.message_variable = graph.region_variables[graph.region_offsets[program.edge_children[leaves]]]

    def labels(self, messages: RealArray) -> LabelArray:
        """int64 [V], ties to the lowest label, from `messages`, float [message layout]."""
        hat = self.theta.copy()
        for first in range(0, len(self.message_start), CHUNK_EDGES):
            chunk = slice(first, first + CHUNK_EDGES)
            variables = self.message_variable[chunk]
            sizes = self.sizes[variables]
            within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            np.subtract.at(
                hat,
                np.repeat(self.offsets[variables], sizes) + within,
                messages[np.repeat(self.message_start[chunk], sizes) + within],
            )
        labels = np.zeros(len(self.sizes), dtype=np.int64)
        for n in np.unique(self.sizes):
            variables = np.flatnonzero(self.sizes == n)
            rows = hat[self.offsets[variables, None] + np.arange(n)]
            forbidden = np.isneginf(rows)
            rows = np.where(forbidden, -np.inf, self.sign[variables, None] * np.where(forbidden, 0.0, rows))
            labels[variables] = rows.argmax(axis=1)
        return labels
