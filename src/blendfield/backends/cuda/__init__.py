"""The CUDA backend: the kernels of `core/kernels` on a card, compiled when they are needed (`docs/cuda.md`)."""

from __future__ import annotations

from functools import cache

import numpy as np

from blendfield.backends.cuda.device import CudaDevice, Device, in_gigabytes, require
from blendfield.backends.cuda.linear import CudaPotentials
from blendfield.backends.cuda.problem import CudaProblem
from blendfield.backends.protocol import DataType, Features, LinearPotentials, Problem, Program, RealArray, Workspace

LEAST_FREE = 1 << 28
"""bytes: a card with less counts as full"""


def missing() -> str | None:
    """Why there is no card to work on, in one line; None: there is one."""
    try:
        import cupy
    except ImportError as error:
        wrong = "" if isinstance(error, ModuleNotFoundError) else f" ({_first_line(error)})"
        return f"CuPy cannot be imported{wrong}: pip install 'blendfield[cuda]'"
    try:
        if not cupy.cuda.runtime.getDeviceCount():
            return "no CUDA card"
        free, total = cupy.cuda.runtime.memGetInfo()
    except Exception as error:
        return f"no usable CUDA driver or card: {_first_line(error)}"
    try:
        cupy.cuda.nvrtc.getVersion()
    except Exception as error:
        return f"this CuPy is for another version of CUDA than is installed: {_first_line(error)}"
    free += cupy.get_default_memory_pool().free_bytes()
    if free < LEAST_FREE:
        return f"the card is full: {in_gigabytes(free)} of {in_gigabytes(total)} free"
    return None


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


@cache
def _card() -> CudaDevice:
    """One for all problems: it keeps what it has compiled."""
    return CudaDevice()


class CudaBackend:
    """See `protocol.Backend`."""

    name = "cuda"
    chunk_entries = 1 << 28
    in_host_memory = False

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
        # Besides the problem itself: the caller's tables, as they are on the way to their places.
        need = self.estimate_bytes(program, dtype) + len(tables) * np.dtype(dtype).itemsize
        require(self.device, need, "the tables and messages")
        return CudaProblem(self.device, program, tables, epsilon, dtype)

    def free_bytes(self) -> int | None:
        return self.device.free_bytes()

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
