"""A stand-in for a card: the kernels' text as a host program, arrays of NumPy.

`HostDevice()` is quick: a block is one thread, and so is a team. `HostDevice(block=128, team=32)` has those of a card
(`emulated_card.h`).
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

EMULATION = (Path(__file__).parent / "emulated_card.h").read_text()
FOLDER = Path(tempfile.gettempdir()) / "blendfield-host-device"


class HostDevice:
    """See `blendfield.backends.cuda.device.Device`."""

    xp = np

    def __init__(self, block: int = 1, team: int = 1) -> None:
        self.block = block
        self.team = team
        self._libraries: dict[str, ctypes.CDLL] = {}
        self.page_locked_arrays = 0

    def kernels(self, source: str, names: list[str]) -> dict[str, Any]:
        if source not in self._libraries:
            self._libraries[source] = _compile(source, self.block, self.team)
        return {name: _entry(self._libraries[source], name) for name in names}

    def launch(self, kernel: Any, blocks: int, *arguments: int | float) -> None:
        fault = kernel(blocks, *arguments)
        assert fault is None, fault.decode()

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
    function.restype = ctypes.c_char_p
    return function


def _loops(source: str) -> str:
    """Every kernel over all its blocks."""
    return "".join(
        f"""
extern "C" const char* run_{name}(long long blocks, const View<Real>* view, const int* at, long long a, long long b,
                                  long long c, long long d, double x) {{
    return emulated::run(blocks, [=] {{ {name}(view, at, a, b, c, d, x); }});
}}
"""
        for name in re.findall(r"^BF_ENTRY\((\w+)\)", source, re.MULTILINE)
    )


def _compile(source: str, block: int, team: int) -> ctypes.CDLL:
    FOLDER.mkdir(exist_ok=True)
    program = f"#define BF_BLOCK {block}\n#define BF_TEAM {team}\n{EMULATION}{source}{_loops(source)}"
    text = FOLDER / f"{hashlib.sha256(program.encode()).hexdigest()}.cpp"
    library = text.with_suffix(".so")
    if not library.exists():
        text.write_text(program)
        partial = library.with_suffix(f".{id(source)}")
        command = ["g++", "-std=c++20", "-O1", "-w", "-shared", "-fPIC", "-o", str(partial), str(text)]
        built = subprocess.run(command, capture_output=True, text=True)
        if built.returncode:
            raise RuntimeError(built.stderr[:4000])
        partial.rename(library)
    return ctypes.CDLL(str(library))
