"""A stand-in for a card: the kernels' text as a host program, arrays of NumPy.

A thread block is one thread and a team is one thread; blocks run one after the other. What cannot be seen here are
races between threads and what the shuffles of a team do.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(tempfile.gettempdir()) / "blendfield-host-device"


class HostDevice:
    """See `blendfield.backends.cuda.device.Device`."""

    xp = np
    block = 1
    team = 1

    def __init__(self) -> None:
        self._libraries: dict[str, ctypes.CDLL] = {}
        self.page_locked_arrays = 0

    def kernels(self, source: str, names: list[str]) -> dict[str, Any]:
        if source not in self._libraries:
            self._libraries[source] = _compile(source)
        return {name: _entry(self._libraries[source], name) for name in names}

    def launch(self, kernel: Any, blocks: int, *arguments: int | float) -> None:
        kernel(blocks, *arguments)

    def address(self, array: Any) -> int:
        return int(array.ctypes.data)

    def host(self, array: Any) -> Any:
        return np.array(array)

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        return work

    def scarce(self) -> bool:
        return False

    def page_locked(self, size: int, dtype: Any) -> Any:
        self.page_locked_arrays += 1
        return np.zeros(size, dtype=dtype)

    def sparse(self, matrix: Any) -> Any:
        return matrix

    def free_bytes(self) -> int:
        return 1 << 30


def _entry(library: ctypes.CDLL, name: str) -> Any:
    function = getattr(library, f"run_{name}")
    function.argtypes = [ctypes.c_longlong] * 7 + [ctypes.c_double]
    function.restype = None
    return function


def _loops(source: str) -> str:
    """Every kernel over all its blocks."""
    return "".join(
        f"""
extern "C" void run_{name}(long long blocks, const View<Real>* view, const int* at, long long a, long long b,
                           long long c, long long d, double x) {{
    for (emulated_block_number = 0; emulated_block_number < blocks; ++emulated_block_number)
        {name}(view, at, a, b, c, d, x);
}}
"""
        for name in re.findall(r"^BF_ENTRY\((\w+)\)", source, re.MULTILINE)
    )


def _compile(source: str) -> ctypes.CDLL:
    FOLDER.mkdir(exist_ok=True)
    text = FOLDER / f"{hashlib.sha256(source.encode()).hexdigest()}.cpp"
    library = text.with_suffix(".so")
    if not library.exists():
        text.write_text(source + _loops(source))
        partial = library.with_suffix(f".{id(source)}")
        command = ["g++", "-std=c++20", "-O1", "-w", "-shared", "-fPIC", "-o", str(partial), str(text)]
        built = subprocess.run(command, capture_output=True, text=True)
        if built.returncode:
            raise RuntimeError(built.stderr[:4000])
        partial.rename(library)
    return ctypes.CDLL(str(library))
