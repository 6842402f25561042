"""Models by the name given on the command line."""

from __future__ import annotations

from typing import Any

from blendfield.errors import OptionError
from blendfield.formats.factors import Model
from blendfield.formats.models import READERS, WRITERS, read_model

FORMATS = tuple(READERS)
WRITABLE = tuple(WRITERS)


def read(file: str, format: str | None, edges: Any = "hasse") -> Model:
    """`read_model`; a dash is the standard input."""
    if file == "-":
        if format is None:
            raise OptionError("-: expected --format, because a pipe has no name that says it")
        file = "/dev/stdin"
    return read_model(file, format, edges)
