"""What is known of a data set, and where its files are."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield.errors import DataNotFoundError, FileFormatError

VARIABLE = "BLENDFIELD_DATA"


@dataclass(frozen=True)
class DataFile:
    """One file of a set: its path under BLENDFIELD_DATA, and the SHA-256 of its bytes in hexadecimal."""

    path: str
    sha256: str


@dataclass(frozen=True)
class DatasetInfo:
    """Facts about a set. Generated sets have no files."""

    name: str
    title: str
    size: int  # number of samples, all splits together
    licence: str
    citation: str
    files: tuple[DataFile, ...] = ()

    def __str__(self) -> str:
        where = ", ".join(file.path for file in self.files) or "generated"
        return f"{self.name}: {self.title}; {self.size:,} samples; licence: {self.licence}; {where}\n{self.citation}"


def is_present(info: DatasetInfo) -> bool:
    """Whether all files of the set are on this machine (their checksums are looked at when they are read)."""
    folder = os.environ.get(VARIABLE)
    return not info.files or (bool(folder) and all((Path(str(folder)) / file.path).is_file() for file in info.files))


def find(info: DatasetInfo, index: int = 0) -> Path:
    """Path of file `index` of the set, after comparing its checksum."""
    file = info.files[index]
    folder = os.environ.get(VARIABLE)
    if not folder:
        raise DataNotFoundError(
            f"data set {info.name}: set the environment variable {VARIABLE} to a folder that holds {file.path} "
            f"({info.title}; licence: {info.licence})"
        )
    path = Path(folder) / file.path
    if not path.is_file():
        raise DataNotFoundError(
            f"data set {info.name}: put the file at {path} ({info.title}; licence: {info.licence}), "
            f"or let {VARIABLE} name another folder"
        )
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != file.sha256:
        raise FileFormatError(
            f"{path}: damaged, or not the version of {info.name} that is known here: "
            f"expected SHA-256 {file.sha256[:12]}..., got {digest[:12]}..."
        )
    return path


def read_arrays(path: Path, names: tuple[str, ...]) -> list[npt.NDArray[Any]]:
    """The named arrays of an .npz file; no pickles."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return [archive[name] for name in names]
    except Exception as fault:
        raise FileFormatError(f"{path}: expected an .npz file with the arrays {', '.join(names)}") from fault
