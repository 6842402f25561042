"""Backends do the arithmetic: one protocol (`protocol.py`), several implementations, chosen here by name."""

from __future__ import annotations

import importlib.util
import logging

from blendfield.backends.protocol import Backend, Certificate, Problem, Program
from blendfield.errors import OptionError

__all__ = ["Backend", "Certificate", "Problem", "Program", "choose", "get"]

logger = logging.getLogger("blendfield.backends")

CARD_ENTRIES = 1 << 20
"""table entries from which on a card is faster than the cores beside it (docs/cuda.md)"""
CARD_BYTES = 40
"""that a table entry takes at most, messages and indices included, about; for `choose`"""


def choose(name: str, entries: int) -> str:
    """The backend for models of so many table entries together: `name` itself, but for "auto".

    "auto" is "cuda" where a card is there, has room, and the models are large enough to gain; else as `get` says. The
    log (blendfield.backends) says which and why.
    """
    if name != "auto" or entries < CARD_ENTRIES:
        return name
    from blendfield.backends.cuda import CudaBackend, missing

    reason = missing()
    if reason is None:
        free = CudaBackend().free_bytes()
        if free is not None and entries * CARD_BYTES > free:
            reason = f"{entries} table entries may need {entries * CARD_BYTES >> 20} MiB; {free >> 20} MiB are free"
    if reason is not None:
        logger.info("backend: not on a card (%s)", reason)
        return name
    logger.info("backend: cuda, for %d table entries", entries)
    return "cuda"


def get(name: str = "auto") -> Backend:
    """The backend called "reference", "cpu" or "cuda"; "auto" (see `choose`) is "cpu" where the compiled core is
    there, else "reference".
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
