"""Answers of the UAI competitions: `.PR`, `.MAR` and `.MPE` files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield.formats.compressed import Path, write_text
from blendfield.formats.numbers import FloatArray, IntArray, Numbers

_BEGIN = b"-BEGIN-"


def read_pr(path: Path) -> float:
    """log10 of the partition function, as the file has it; -inf for an impossible model."""
    numbers = _numbers(path, b"PR")
    if numbers.left == 2 and numbers.values[0] == 1:
        numbers.position = 1  # the number of samples
    numbers.need(1, "log10 of the partition function")
    value = float(numbers.values[numbers.position])
    if not value < np.inf:
        numbers.fail(numbers.position, "log10 of the partition function")
    numbers.position += 1
    numbers.end()
    return value


def read_mar(path: Path) -> list[FloatArray]:
    """The marginals of the variables: one float64 array [labels] for each."""
    numbers = _numbers(path, b"MAR")
    if numbers.left and numbers.values[0] == 1 and _marginals_end(numbers, 1) == len(numbers.values):
        numbers.position = 1  # the number of samples
    count = numbers.integer("the number of variables")
    numbers.need(count, "the marginals of the variables")
    marginals = []
    for variable in range(count):
        labels = numbers.integer(f"the number of labels of variable {variable}", least=1)
        numbers.need(labels, f"the marginal of variable {variable}")
        start = numbers.position
        marginal = numbers.values[start : start + labels]
        numbers.check(marginal, (marginal >= 0) & (marginal <= 1 + 1e-3), start, "a probability")
        numbers.position += labels
        marginals.append(marginal.copy())
    numbers.end()
    return marginals


def read_mpe(path: Path) -> IntArray:
    """The best labelling: int64 [V]."""
    numbers = _numbers(path, b"MPE", b"MAP")
    if len(numbers.values) > 1 and numbers.values[0] == 1 and len(numbers.values) == numbers.values[1] + 2:
        numbers.position = 1  # the number of samples
    count = numbers.integer("the number of variables")
    labels = numbers.integers(count, "a label")
    numbers.end()
    return labels


def _numbers(path: Path, *titles: bytes) -> Numbers:
    """What follows the title; of several solutions, the last."""
    numbers = Numbers(path)
    begin = numbers.text.rfind(_BEGIN)
    title = b" or ".join(titles).decode()
    numbers.keyword(f"{title} on the first line", *titles)
    if begin >= 0:
        numbers.skip(begin + len(_BEGIN))
    numbers.parse()
    return numbers


def _marginals_end(numbers: Numbers, position: int) -> int:
    """Where marginals that begin at `position` end; -1 if they do not fit the file."""
    values = numbers.values
    count = values[position] if position < len(values) else -1
    if not 0 <= count <= len(values):
        return -1
    position += 1
    for _ in range(int(count)):
        if position >= len(values) or not 1 <= values[position] <= len(values):
            return -1
        position += 1 + int(values[position])
    return position


def write_pr(path: Path, log10_partition_function: float) -> None:
    write_text(path, f"PR\n{float(log10_partition_function)!r}\n".encode())


def write_mar(path: Path, marginals: Sequence[npt.NDArray[Any]]) -> None:
    """marginals: one array [labels] per variable."""
    fields = [str(len(marginals))]
    for marginal in marginals:
        fields += [str(len(marginal)), *map(repr, np.asarray(marginal, np.float64).tolist())]
    write_text(path, f"MAR\n{' '.join(fields)}\n".encode())


def write_mpe(path: Path, labels: Sequence[int] | npt.NDArray[Any]) -> None:
    """labels: [V]."""
    write_text(path, f"MPE\n{' '.join(map(str, [len(labels), *map(int, labels)]))}\n".encode())
