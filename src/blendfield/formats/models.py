"""Models in any format, by the suffix of the file."""

from __future__ import annotations

import os
from typing import Any

from blendfield.errors import FileFormatError
from blendfield.formats.cfn import read_cfn
from blendfield.formats.compressed import Path
from blendfield.formats.factors import Model
from blendfield.formats.fg import read_fg, write_fg
from blendfield.formats.uai import read_uai, write_uai
from blendfield.formats.wcsp import read_wcsp
from blendfield.graph import RegionGraph

READERS = {"uai": read_uai, "fg": read_fg, "wcsp": read_wcsp, "cfn": read_cfn}
WRITERS = {"uai": write_uai, "fg": write_fg}


def read_model(path: Path, format: str | None = None, edges: Any = "hasse") -> Model:
    """(graph, potentials) of a `.uai`, `.fg`, `.wcsp` or `.cfn` file, with `.gz` or `.xz` behind it or not.

    format: "uai", "fg", "wcsp" or "cfn", where the name does not say it. Everything else is as in `read_uai`.
    """
    return READERS[check_format(path, format, tuple(READERS))](path, edges)


def write_model(path: Path, graph: RegionGraph, potentials: Any, format: str | None = None) -> None:
    """Writes a `.uai` or `.fg` file, compressed if its name goes on with `.gz` or `.xz`."""
    WRITERS[check_format(path, format, tuple(WRITERS))](path, graph, potentials)


def suffix(path: Path) -> str:
    """The suffix without the dot, and without that of a compression."""
    name = os.path.basename(os.fspath(path))
    return name.removesuffix(".gz").removesuffix(".xz").rpartition(".")[2]


def check_format(path: Path, format: str | None, known: tuple[str, ...]) -> str:
    """The format given or that of the suffix; FileFormatError when it is not one of those known."""
    found = suffix(path) if format is None else format
    if found not in known:
        kinds = ", ".join(f".{name}" for name in known)
        raise FileFormatError(f"{path}: expected a name that ends in one of {kinds} (.gz and .xz may follow)")
    return found
