"""Sequences in the text that CRFsuite reads: an item per line, its label and attributes between tabs.

    NP-B <tab> word=the <tab> tag=DT <tab> length:3

A blank line ends a sequence. `name:value` gives an attribute a value other than 1; a colon or backslash that belongs to
a name is written `\\:` or `\\\\`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from blendfield.errors import FileFormatError
from blendfield.formats.compressed import Path, read_text


@dataclass(frozen=True)
class Sequences:
    """n sequences; sequence i has T_i items. A attributes."""

    features: list[Any]
    """csr_array float64 [T_i, A] each"""
    labels: list[list[str]]
    names: list[str]
    """of the attributes [A], in the order of their first use"""


def parse_crfsuite(path: Path, names: Sequence[str] | None = None, min_frequency: int = 1) -> Sequences:
    """All sequences of a file.

    names: the attributes of a model; others are passed over. Without them all count that come up `min_frequency` times
    or more. FileFormatError names the line.
    """
    try:
        lines = read_text(path).decode().split("\n")
    except UnicodeDecodeError as fault:
        before = fault.object[: fault.start].count(b"\n")
        raise FileFormatError(f"{path}:{before + 1}: expected text in UTF-8 ({fault.reason})") from None
    reader = _Reader(path, names)
    for number, line in enumerate(lines, start=1):
        reader.take(line.removesuffix("\r"), number)
    reader.end_sequence()
    if not reader.labels:
        raise FileFormatError(f"{path}: expected at least one sequence, got an empty file")
    return reader.sequences(min_frequency)


class _Reader:
    """Lines so far."""

    def __init__(self, path: Path, names: Sequence[str] | None) -> None:
        self.path = path
        self.columns: dict[str, int] = {name: k for k, name in enumerate(names or ())}
        self.growing = names is None
        self.labels: list[list[str]] = []
        self._own: list[str] = []
        self._known: dict[str, tuple[int, float]] = {}  # fields as they are written, so that most are looked up once
        self._indices: list[int] = []
        self._values: list[float] = []
        self._item_ends: list[int] = [0]

    def take(self, line: str, number: int) -> None:
        """One line."""
        if not line:
            self.end_sequence()
            return
        label, *fields = line.split("\t")
        if not label.strip():
            raise FileFormatError(
                f"{self.path}:{number}: expected a label and attributes between tabs, got {line!r:.60}"
            )
        for field in fields:
            entry = self._known.get(field)
            if entry is None:
                if not field:
                    continue  # a tab at the end of a line
                entry = self._attribute(field, number)
                if entry[1] == 1.0:  # other values may all be different
                    self._known[field] = entry
            if entry[0] >= 0:
                self._indices.append(entry[0])
                self._values.append(entry[1])
        self._own.append(label)
        self._item_ends.append(len(self._indices))

    def end_sequence(self) -> None:
        """A blank line, or the end of the file."""
        if self._own:
            self.labels.append(self._own)
            self._own = []

    def _attribute(self, field: str, number: int) -> tuple[int, float]:
        """(column or -1, value) of a field."""
        name, value = field, 1.0
        if ":" in field or "\\" in field:
            parts = _split(field)
            name = parts[0]
            if len(parts) > 1:
                try:
                    value = float(parts[1]) if len(parts) == 2 else math.nan
                except ValueError:
                    value = math.nan
                if not math.isfinite(value):
                    raise FileFormatError(
                        f"{self.path}:{number}: expected name or name:number, got {field!r:.60} (is the colon part "
                        "of the name? then it is written \\:)"
                    )
        if not name:
            raise FileFormatError(f"{self.path}:{number}: expected a name before the colon, got {field!r:.60}")
        if self.growing:
            return self.columns.setdefault(name, len(self.columns)), value
        return self.columns.get(name, -1), value

    def sequences(self, min_frequency: int) -> Sequences:
        """All of them."""
        from scipy.sparse import csr_array

        indices = np.array(self._indices, dtype=np.int64)
        values, ends = np.array(self._values), np.array(self._item_ends, dtype=np.int64)
        names = list(self.columns)
        if self.growing and min_frequency > 1:
            keep = np.bincount(indices, minlength=len(names)) >= min_frequency
            kept = keep[indices]
            place = np.cumsum(keep) - 1
            ends = np.concatenate([[0], np.cumsum(kept)])[ends]
            indices, values = place[indices[kept]], values[kept]
            names = [name for name, wanted in zip(names, keep.tolist(), strict=True) if wanted]
        matrix = csr_array((values, indices, ends), shape=(len(ends) - 1, len(names)))
        matrix.sum_duplicates()
        starts = np.concatenate([[0], np.cumsum([len(own) for own in self.labels])]).tolist()
        features = [matrix[first:last] for first, last in pairwise(starts)]
        return Sequences(features, self.labels, names)


def _split(field: str) -> list[str]:
    """Parts between colons, escapes undone."""
    parts, escaped = [""], False
    for character in field:
        if escaped or character not in "\\:":
            parts[-1] += character
            escaped = False
        elif character == "\\":
            escaped = True
        else:
            parts.append("")
    return parts
