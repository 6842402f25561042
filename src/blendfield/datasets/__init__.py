"""Data sets by name: `load("letters")` gives samples, `info("letters")` their licence, citation and checksums.

Data that may not be shipped is looked for under the folder named by the environment variable BLENDFIELD_DATA. What each
set's samples are, and which options its loader takes, is said in the set's own module.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from blendfield.datasets import binary_images, conll2000, letters, pictures, snakes
from blendfield.datasets.catalogue import DataFile, DatasetInfo, is_present
from blendfield.errors import OptionError

_SETS: dict[str, ModuleType] = {
    module.INFO.name: module for module in (pictures, binary_images, letters, snakes, conll2000)
}

__all__ = ["DataFile", "DatasetInfo", "info", "is_present", "load", "names"]


def names() -> tuple[str, ...]:
    """Every data set that `load` knows, here or not."""
    return tuple(_SETS)


def info(name: str) -> DatasetInfo:
    """What the set is, its size, licence, citation and files."""
    return _module(name).INFO  # type: ignore[no-any-return]


def load(name: str, **options: Any) -> list[Any]:
    """The samples of a set; options and type of a sample are those of `load` in `blendfield.datasets.<name>`.

    Raises DataNotFoundError when the files are not on this machine, FileFormatError when they are not the ones
    described by `info`.
    """
    return _module(name).load(**options)  # type: ignore[no-any-return]


def _module(name: str) -> ModuleType:
    if name not in _SETS:
        raise OptionError(f"data set: expected one of {', '.join(_SETS)}; got {name!r:.60}")
    return _SETS[name]
