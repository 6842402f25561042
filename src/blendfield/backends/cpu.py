"""The CPU backend: the compiled core behind the protocol (`core/cpu`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from blendfield import _core
from blendfield.backends.linear import HostPotentials
from blendfield.backends.protocol import (
    Certificate,
    DataType,
    Features,
    FloatArray,
    LabelArray,
    LinearPotentials,
    Problem,
    Program,
    RealArray,
    Workspace,
    unusable_potential,
)
from blendfield.errors import OptionError

CHUNK_EDGES = 1 << 16
LARGEST_BLOCK = 1 << 19
"""table entries of a block of lanes, see core/cpu/layout.cpp"""


class CpuProblem:
    """See `protocol.Problem`; the work is done by `_core.Problem64` or `_core.Problem32`."""

    def __init__(
        self, program: Program, tables: RealArray, epsilon: float, dtype: DataType, threads: int | None
    ) -> None:
        graph = program.graph
        self.program = program
        self.dtype = np.dtype(dtype)
        # Typed loosely here: both classes have the same methods.
        compiled: Any = _core.Problem64 if self.dtype == np.float64 else _core.Problem32
        self._core: Any = compiled(
            graph.cardinalities,
            graph.region_offsets,
            graph.region_variables,
            graph.table_offsets,
            np.ascontiguousarray(program.edge_parents, dtype=np.int32),
            np.ascontiguousarray(program.edge_children, dtype=np.int32),
            _all_or_one(program.counting_numbers, np.float64),
            np.ascontiguousarray(program.region_class),
            np.ascontiguousarray(program.schedule, dtype=np.int32),
            _all_or_one(program.segment, np.int32),
            program.num_segments,
            self._flat(tables),
            float(epsilon),
            threads or 0,
        )
        self.messages = self._core.messages
        self.set_epsilon = self._core.set_epsilon
        self.sweep = self._core.sweep
        self.sweep_value = self._core.sweep_value
        self.value = self._core.value
        self.beliefs = self._core.beliefs
        self.value_and_beliefs = self._core.value_and_beliefs
        self.decode = self._core.decode
        self.belief_labels = self._core.belief_labels
        self.allocate_history = self._core.allocate_history
        self.clear_history = self._core.clear_history
        self.save_point = self._core.save_point
        self.push = self._core.push
        self.restore = self._core.restore

    def _flat(self, values: RealArray) -> RealArray:
        return np.ascontiguousarray(values, dtype=self.dtype)

    @property
    def epsilon(self) -> float:
        return float(self._core.epsilon)

    @property
    def memory_bytes(self) -> int:
        return int(self._core.memory_bytes)

    def set_messages(self, flat: RealArray) -> None:
        self._core.set_messages(self._flat(flat))

    def set_potentials(self, tables: RealArray) -> None:
        flat = self._flat(tables)
        unusable = int(self._core.set_potentials(flat))
        if unusable >= 0:
            raise unusable_potential(self.program.graph, flat, unusable)

    def trial(self, direction: RealArray, steps: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        points: tuple[FloatArray, FloatArray, FloatArray] = self._core.trial(
            self._flat(direction), np.ascontiguousarray(steps, dtype=np.float64)
        )
        return points

    def certificate(
        self, smoothing: float | None = None, region_gaps: bool = False, candidate: bool = False
    ) -> Certificate:
        smoothing = self.epsilon if smoothing is None else smoothing
        if not smoothing > 0.0:
            raise OptionError("smoothing must be positive: at epsilon = 0 no candidate can be made from beliefs")
        return Certificate(*self._core.certificate(float(smoothing), region_gaps, candidate))

    def score(self, labels: LabelArray) -> FloatArray:
        scores: FloatArray = self._core.score(np.ascontiguousarray(labels, dtype=np.int64))
        return scores

    def local_search(self, labels: LabelArray, max_passes: int) -> LabelArray:
        better: LabelArray = self._core.local_search(np.ascontiguousarray(labels, dtype=np.int64), max_passes)
        return better

    def block_search(self, labels: LabelArray, rounds: int, seed: int) -> LabelArray:
        better: LabelArray = self._core.block_search(np.ascontiguousarray(labels, dtype=np.int64), rounds, seed)
        return better

    def mix(self, weights: FloatArray) -> None:
        self._core.mix(np.ascontiguousarray(weights, dtype=np.float64))


def _all_or_one(values: Any, dtype: Any) -> Any:
    """[R], or [1] where a single value is seen R times."""
    once = values[:1] if values.strides == (0,) else values
    return np.ascontiguousarray(once, dtype=dtype)


class CpuBackend:
    """See `protocol.Backend`."""

    name = "cpu"
    chunk_entries = 1 << 18
    in_host_memory = True

    def compile(
        self,
        program: Program,
        tables: RealArray,
        *,
        epsilon: float,
        dtype: DataType = "float64",
        threads: int | None = None,
    ) -> Problem:
        return CpuProblem(program, tables, epsilon, dtype, threads)

    def linear(
        self, problem: Problem, features: Features, base: RealArray | None, workspace: Workspace
    ) -> LinearPotentials:
        return HostPotentials(problem, features, base, workspace)

    def estimate_bytes(self, program: Program, dtype: DataType = "float64") -> int:
        """Tables, messages, indices, what certificates and labels take; without mixing history."""
        graph = program.graph
        size = np.dtype(dtype).itemsize
        tables = int(graph.table_offsets[-1])
        largest = int(graph.table_sizes.max(initial=0))
        edges, messages = len(program.edge_children), 0
        nested = False
        for first in range(0, edges, CHUNK_EDGES):
            children = program.edge_children[first : first + CHUNK_EDGES]
            messages += int(graph.table_sizes[children].sum())
            nested = nested or bool((graph.region_offsets[children + 1] - graph.region_offsets[children] > 1).any())
        held = (tables + messages) * size + 40 * edges + 48 * graph.num_regions
        blocks = 24 * _core.default_threads() * min(32 * largest, LARGEST_BLOCK)
        # Nested regions: consistent tables in float64, and their marginals.
        return held + 8 * largest + blocks + (10 * tables if nested else 0)
