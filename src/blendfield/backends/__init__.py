"""Backends do the arithmetic: one protocol (`protocol.py`), several implementations, chosen here by name."""

from __future__ import annotations

import importlib.util

from blendfield.backends.protocol import Backend, Certificate, Problem, Program
from blendfield.errors import OptionError

__all__ = ["Backend", "Certificate", "Problem", "Program", "get"]


def get(name: str = "auto") -> Backend:
    """The backend called "reference", "cpu" or "cuda"; "auto" is "cpu" where the compiled core is there, else
    "reference".
    """
    if name == "auto":
        compiled = importlib.util.find_spec("blendfield._core") and importlib.util.find_spec("blendfield.backends.cpu")
        name = "cpu" if compiled else "reference"
    if name == "reference":
        from blendfield.backends.reference import ReferenceBackend

        return ReferenceBackend()
    if name == "cpu":
        try:
            from blendfield.backends.cpu import CpuBackend
        except ImportError as error:
            raise OptionError("backend 'cpu' is not available: the compiled core cannot be imported") from error
        return CpuBackend()
    if name == "cuda":
        from blendfield.backends.cuda import CudaBackend, missing

        if (reason := missing()) is not None:
            raise OptionError(f"backend 'cuda' is not available: {reason}")
        return CudaBackend()
    raise OptionError(f"backend {name!r} is unknown; expected 'auto', 'reference', 'cpu' or 'cuda'")
