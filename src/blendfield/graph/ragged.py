"""A read-only sequence of tuples of integers over two flat arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, overload

import numpy as np
import numpy.typing as npt

_ROWS_AT_A_TIME = 65536


class Ragged(Sequence[tuple[int, ...]]):
    """Row `r` is `tuple(values[offsets[r] : offsets[r + 1]])`; nothing is stored per row.

    offsets: int64 [n + 1];  values: int32 [offsets[n]].
    Equal to any list or tuple of lists or tuples with the same numbers.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, offsets: npt.NDArray[np.int64], values: npt.NDArray[np.int32]) -> None:
        self.offsets = offsets
        self.values = values

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> tuple[int, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[int, ...]]: ...
    def __getitem__(self, index: int | slice) -> tuple[int, ...] | list[tuple[int, ...]]:
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        row = range(len(self))[index]  # negative indices, and an IndexError beyond the ends
        return tuple(self.values[self.offsets[row] : self.offsets[row + 1]].tolist())

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        for first in range(0, len(self), _ROWS_AT_A_TIME):
            ends = self.offsets[first : first + _ROWS_AT_A_TIME + 1]
            numbers = self.values[ends[0] : ends[-1]].tolist()
            bounds = (ends - ends[0]).tolist()
            for start, stop in pairwise(bounds):
                yield tuple(numbers[start:stop])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Ragged):
            return np.array_equal(self.offsets, other.offsets) and np.array_equal(self.values, other.values)
        if not isinstance(other, list | tuple):
            return NotImplemented
        return len(self) == len(other) and all(map(_same_row, self, other))

    def __repr__(self) -> str:
        shown = ", ".join(map(str, self[:6]))
        return f"[{shown}, ... {len(self)} in all]" if len(self) > 6 else f"[{shown}]"


def _same_row(row: tuple[int, ...], other: Any) -> bool:
    return isinstance(other, list | tuple) and row == tuple(other)
