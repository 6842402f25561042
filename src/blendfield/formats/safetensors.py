"""Arrays by name in one file: the safetensors format, written and read here because it is a page long.

    8 bytes       length n of the header, little-endian
    n bytes       JSON: {"__metadata__": {str: str}, name: {"dtype", "shape", "data_offsets": [begin, end]}, ...}
    the rest      the arrays, little-endian, C order; begin and end count from here

The safetensors package reads what is written here, and the reverse. The reader is strict: every byte of the data
belongs to exactly one array, or the file is refused.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from blendfield.errors import FileFormatError
from blendfield.files import written_atomically

Path = str | os.PathLike[str]
Array = npt.NDArray[Any]

DATA_TYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "BOOL": "|b1",
}
NAMES = {np.dtype(code): name for name, code in DATA_TYPES.items()}
METADATA = "__metadata__"
MAX_HEADER = 100_000_000
"""bytes; the limit of the safetensors package too"""


def write_tensors(path: Path, tensors: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    """Writes the file; readers see all of it or nothing."""
    with written_atomically(path) as file:
        _write(file, tensors, metadata)


def _write(file: IO[bytes], tensors: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    header: dict[str, Any] = {METADATA: dict(metadata)}
    # The widest first: then every array lies at a multiple of its item size.
    names = sorted(tensors, key=lambda name: -np.asarray(tensors[name]).dtype.itemsize)
    arrays, begin = [], 0
    for name in names:
        array = np.asarray(tensors[name])
        kind = NAMES.get(array.dtype.newbyteorder("<"))
        if kind is None or name == METADATA:
            raise TypeError(f"{name!r}: arrays of {array.dtype} have no place in a safetensors file")
        end = begin + array.nbytes
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [begin, end]}
        arrays.append(np.asarray(array, dtype=DATA_TYPES[kind], order="C"))
        begin = end
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER:
        raise ValueError(f"{len(names)} arrays are too many for one file")
    file.write(len(text).to_bytes(8, "little"))
    file.write(text)
    for array in arrays:
        file.write(array.reshape(-1).view(np.uint8).data)


class TensorFile(Mapping[str, Array]):
    """A file whose header has been read and checked; an array is read when it is asked for, into memory of its own.

    Attributes: path, metadata {str: str}.
    """

    def __init__(self, path: Path) -> None:
        """A missing or unreadable file stays an OSError; anything else that is wrong is a FileFormatError."""
        self.path = path
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or not 2 <= length <= min(MAX_HEADER, size - 8):
                raise FileFormatError(f"{path}: no safetensors file, or cut off within its header")
            text = file.read(length)
        self._start = 8 + length
        try:
            header = json.loads(text.decode(), object_pairs_hook=_without_repetition)
        except (ValueError, RecursionError) as fault:
            raise FileFormatError(f"{path}: the header is no JSON as safetensors files have it ({fault})") from None
        if not isinstance(header, dict):
            raise FileFormatError(f"{path}: the header must be a JSON object")
        self.metadata: dict[str, str] = header.pop(METADATA, {})
        if not isinstance(self.metadata, dict) or not all(isinstance(v, str) for v in self.metadata.values()):
            raise FileFormatError(f"{path}: {METADATA} must map strings to strings")
        self._entries = {name: self._entry(name, entry) for name, entry in header.items()}
        place, last = 0, "the header"
        for name, (_, _, begin, end) in sorted(self._entries.items(), key=lambda item: item[1][2:]):
            if begin != place:
                what = "overlaps" if begin < place else "leaves a hole after"
                raise FileFormatError(
                    f"{path}: array {name!r:.60} {what} {last!r:.60}: it begins at {begin}, not {place}"
                )
            place, last = end, name
        if self._start + place != size:
            what = "is cut off" if self._start + place > size else "goes on after the last array"
            raise FileFormatError(f"{path}: the file {what}: {size} bytes instead of {self._start + place}")

    def _entry(self, name: str, entry: Any) -> tuple[str, tuple[int, ...], int, int]:
        """(type code, shape, begin, end) of one array."""
        where = f"{self.path}: array {name!r:.60}"
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
            raise FileFormatError(f"{where}: expected dtype, shape and data_offsets")
        code = DATA_TYPES.get(entry["dtype"]) if isinstance(entry["dtype"], str) else None
        if code is None:
            raise FileFormatError(f"{where}: dtype {entry['dtype']!r:.60} is unknown")
        shape, offsets = entry["shape"], entry["data_offsets"]
        for numbers in (shape, offsets):
            if not isinstance(numbers, list) or not all(type(n) is int and 0 <= n < 2**62 for n in numbers):
                raise FileFormatError(f"{where}: shape and data_offsets must be lists of integers >= 0")
        if len(offsets) != 2 or len(shape) > 32:
            raise FileFormatError(f"{where}: expected two data_offsets and at most 32 axes")
        if offsets[1] - offsets[0] != math.prod(shape) * np.dtype(code).itemsize:
            raise FileFormatError(
                f"{where}: {offsets[1] - offsets[0]} bytes do not fit {entry['dtype']} {tuple(shape)}"
            )
        return code, tuple(shape), offsets[0], offsets[1]

    def __getitem__(self, name: str) -> Array:
        code, shape, begin, end = self._entries[name]
        array = np.empty(shape, dtype=code)
        with open(self.path, "rb") as file:
            file.seek(self._start + begin)
            if file.readinto(array.reshape(-1).view(np.uint8).data) != end - begin:
                raise FileFormatError(f"{self.path}: array {name!r:.60}: the file has become shorter")
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of an array, without reading it."""
        return self._entries[name][1]

    def require(self, kind: str, version: int) -> None:
        """FileFormatError unless the metadata says that this is a file of that kind, no newer than `version`."""
        found = self.metadata.get("format")
        if found != kind:
            raise FileFormatError(f"{self.path}: expected a file of format {kind!r}, got {found!r:.60}")
        number = self.metadata.get("format_version", "")
        if not number.isascii() or not number.isdigit() or len(number) > 9 or int(number) < 1:
            raise FileFormatError(f"{self.path}: format_version must be a whole number, got {number!r:.60}")
        if int(number) > version:
            raise FileFormatError(
                f"{self.path}: written by a newer blendfield: format version {number}; this one reads up to {version}"
            )


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of a name that is there twice, either could be meant."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name comes up twice")
    return found
