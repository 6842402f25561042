"""The CUDA backend: the kernels of `core/kernels` on a card, compiled when they are needed (`docs/cuda.md`)."""

from __future__ import annotations

import numpy as np

from blendfield.backends.cuda.device import CudaDevice, Device
from blendfield.backends.cuda.problem import CudaProblem
from blendfield.backends.protocol import DataType, Problem, Program, RealArray


class CudaBackend:
    """See `protocol.Backend`."""

    name = "cuda"

    def __init__(self, device: Device | None = None) -> None:
        """`device`: the current card, or a stand-in."""
        self.device = CudaDevice() if device is None else device

    def compile(
        self,
        program: Program,
        tables: RealArray,
        *,
        epsilon: float,
        dtype: DataType = "float64",
        threads: int | None = None,
    ) -> Problem:
        del threads
        return CudaProblem(self.device, program, tables, epsilon, dtype)

    def estimate_bytes(self, program: Program, dtype: DataType = "float64") -> int:
        """Tables, messages and indices, without mixing history."""
        size = np.dtype(dtype).itemsize
        tables = int(program.graph.table_offsets[-1])
        messages = int(program.graph.table_sizes[program.edge_children].sum())
        edges, regions = len(program.edge_children), program.graph.num_regions
        return (tables + messages) * size + 24 * edges + 48 * regions
