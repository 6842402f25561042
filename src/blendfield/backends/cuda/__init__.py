"""The CUDA backend: the kernels of `core/kernels` on a card, compiled when they are needed (`docs/cuda.md`)."""

from __future__ import annotations

from functools import cache

import numpy as np

from blendfield.backends.cuda.device import CudaDevice, Device
from blendfield.backends.cuda.linear import CudaPotentials
from blendfield.backends.cuda.problem import CudaProblem
from blendfield.backends.protocol import DataType, Features, LinearPotentials, Problem, Program, RealArray, Workspace


def missing() -> str | None:
    """Why there is no card to work on, in one line; None: there is one."""
    try:
        import cupy
    except ImportError as error:
        wrong = "" if isinstance(error, ModuleNotFoundError) else f" ({_first_line(error)})"
        return f"CuPy cannot be imported{wrong}: pip install 'blendfield[cuda]'"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"no usable CUDA driver or card: {_first_line(error)}"
    return None if count else "no CUDA card"


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


@cache
def _card() -> CudaDevice:
    """One for all problems: it keeps what it has compiled."""
    return CudaDevice()


class CudaBackend:
    """See `protocol.Backend`."""

    name = "cuda"
    chunk_entries = 1 << 25

    def __init__(self, device: Device | None = None) -> None:
        """`device`: the current card, or a stand-in."""
        self.device = _card() if device is None else device

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

    def linear(
        self, problem: Problem, features: Features, base: RealArray | None, workspace: Workspace
    ) -> LinearPotentials:
        del workspace  # everything stays on the card
        assert isinstance(problem, CudaProblem)
        return CudaPotentials(problem, features, base)

    def estimate_bytes(self, program: Program, dtype: DataType = "float64") -> int:
        """Tables, messages and indices, without mixing history."""
        size = np.dtype(dtype).itemsize
        tables = int(program.graph.table_offsets[-1])
        messages = int(program.graph.table_sizes[program.edge_children].sum())
        edges, regions = len(program.edge_children), program.graph.num_regions
        return (tables + messages) * size + 24 * edges + 48 * regions
