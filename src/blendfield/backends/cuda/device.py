"""The card: arrays, kernels compiled at run time and launched by name, recorded launches. CuPy does the work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from blendfield.errors import NotEnoughMemoryError

OPTIONS = ("-std=c++17", "-default-device", "-diag-suppress=161,177")
"""of NVRTC: lambdas need no annotation; pragmas of other compilers and constants that are not used may stand"""

SCARCE = 0.35
"""share of the card's memory"""
Replay = Callable[[], None]


class Device(Protocol):
    """What the host side needs; `tests/backends/host_device.py` is another."""

    xp: Any
    """array module: numpy or cupy"""
    block: int
    """threads per block"""
    team: int
    """threads that work together on a lane"""

    def kernels(self, source: str, names: list[str]) -> dict[str, Any]:
        """Compiled kernels by name."""

    def launch(self, kernel: Any, blocks: int, *arguments: int | float) -> None:
        """Start so many thread blocks."""

    def address(self, array: Any) -> int:
        """Where an array begins."""

    def host(self, array: Any) -> Any:
        """The array as NumPy."""

    def record(self, work: Replay) -> Replay:
        """The launches that `work` makes (and nothing else), as one."""

    def sparse(self, matrix: Any) -> Any:
        """A scipy.sparse CSR matrix on the device."""

    def page_locked(self, size: int, dtype: Any) -> Any:
        """Zeros [size] in the memory of the host, at an address that kernels can use."""

    def free_bytes(self) -> int:
        """Memory that can still be allocated."""

    def scarce(self) -> bool:
        """So little of it is left that problems should share room."""


class CudaDevice:
    """The current card of CuPy."""

    block = 128
    team = 32

    def __init__(self) -> None:
        import cupy

        self.xp = cupy
        self._compiled: dict[str, Any] = {}

    def kernels(self, source: str, names: list[str]) -> dict[str, Any]:
        if source not in self._compiled:
            self._compiled[source] = self.xp.RawModule(code=source, options=OPTIONS)
        module = self._compiled[source]
        return {name: module.get_function(name) for name in names}

    def launch(self, kernel: Any, blocks: int, *arguments: int | float) -> None:
        if blocks:
            kernel((blocks,), (self.block,), arguments)

    def address(self, array: Any) -> int:
        return int(array.data.ptr)

    def host(self, array: Any) -> Any:
        return array.get()

    def record(self, work: Replay) -> Replay:
        stream = self.xp.cuda.Stream(non_blocking=True)
        with stream:
            stream.begin_capture()
            work()
            graph = stream.end_capture()
        return lambda: graph.launch()

    def page_locked(self, size: int, dtype: Any) -> Any:
        cupy, bytes_needed = self.xp, size * np.dtype(dtype).itemsize
        try:
            held = cupy.cuda.alloc_pinned_memory(bytes_needed)
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise NotEnoughMemoryError(
                f"{in_gigabytes(bytes_needed)} of page-locked memory cannot be had: {error}; a shorter mixing history "
                "(memory=2) takes less"
            ) from None
        memory = cupy.cuda.UnownedMemory(held.ptr, bytes_needed, held, cupy.cuda.Device().id)
        array = cupy.ndarray(size, dtype=dtype, memptr=cupy.cuda.MemoryPointer(memory, 0))
        array.fill(0)
        return array

    def sparse(self, matrix: Any) -> Any:
        from cupyx.scipy.sparse import csr_matrix

        return csr_matrix(matrix)

    def free_bytes(self) -> int:
        free, _ = self.xp.cuda.runtime.memGetInfo()
        return int(free) + int(self.xp.get_default_memory_pool().free_bytes())

    def scarce(self) -> bool:
        return bool(self.free_bytes() < SCARCE * self.xp.cuda.runtime.memGetInfo()[1])


def require(device: Device, need: int, what: str) -> None:
    """NotEnoughMemoryError, before anything is allocated, where `need` bytes are more than are free."""
    free = device.free_bytes()
    if need > free:
        raise NotEnoughMemoryError(
            f"{what} would need about {in_gigabytes(need)} on the card, but only {in_gigabytes(free)} is free; "
            "backend='cpu' works in the memory of the host"
        )


def in_gigabytes(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"


def bits(value: float) -> int:
    """A float64 as the int64 with the same bits."""
    return int(np.float64(value).view(np.int64))
