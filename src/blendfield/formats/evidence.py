"""Observed labels, `.uai.evid`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from blendfield.formats.compressed import Path, write_text
from blendfield.formats.numbers import IntArray, Numbers
from blendfield.graph import RegionGraph

Evidence = dict[int, int]


def read_evidence(path: Path, graph: RegionGraph | None = None) -> list[Evidence]:
    """The observed {variable: label} of every sample in the file; `infer` takes one of them as `evidence`.

    All dialects: one sample `n variable label ...`; a first number that says how many samples of that form follow; or
    a single 0, nothing observed, which is one empty sample. With `graph`, variables and labels that it lacks are an
    error.
    """
    numbers = Numbers(path)
    numbers.parse()
    num_samples = _samples(numbers)
    if num_samples is None:
        return [_sample(numbers, graph)]
    numbers.position = 1
    samples = [_sample(numbers, graph, more=num_samples - k - 1) for k in range(num_samples)]
    numbers.end()
    return samples or [{}]


def _samples(numbers: Numbers) -> int | None:
    """The number of samples in the dialect that states it; None: the file is one sample."""
    first = numbers.integer("the number of observed variables, or of samples")
    numbers.position = 0
    if len(numbers.values) == 1 + 2 * first and not _one_sample_per_line(numbers, first):
        return None
    if first == 1 or _follow(numbers, first):
        return first
    return None


def _follow(numbers: Numbers, count: int) -> bool:
    """Whether the rest of the file is so many samples."""
    position, values = 1, numbers.values
    for _ in range(count):
        if position >= len(values) or not 0 <= values[position] < len(values):
            return False
        position += 1 + 2 * int(values[position])
    return position == len(values)


def _one_sample_per_line(numbers: Numbers, count: int) -> bool:
    """Whether the first line has one number and each of the `count` others a sample: where both dialects would do."""
    lines = [line.split() for line in numbers.text.splitlines() if line.strip()]
    return (
        len(lines) == count + 1 > 1
        and len(lines[0]) == 1
        and all(line[0].isdigit() and len(line) == 1 + 2 * int(line[0][:10]) for line in lines[1:])
    )


def _sample(numbers: Numbers, graph: RegionGraph | None, more: int = 0) -> Evidence:
    count = numbers.integer("the number of observed variables")
    start = numbers.position
    pairs = numbers.integers(2 * count, f"the variable and the label of {count} observations").reshape(-1, 2)
    if not more:
        numbers.end()
    _check(numbers, pairs, start, graph)
    return {int(variable): int(label) for variable, label in pairs}


def _check(numbers: Numbers, pairs: IntArray, start: int, graph: RegionGraph | None) -> None:
    """pairs: (variable, label) [n, 2], numbers start, start + 1, ... of the file."""
    variables, labels = pairs.T
    if graph is not None:
        for k in np.flatnonzero(variables >= graph.num_variables)[:1].tolist():
            numbers.fail(start + 2 * k, f"a variable from 0 to {graph.num_variables - 1}")
        sizes = graph.cardinalities[variables]
        for k in np.flatnonzero(labels >= sizes)[:1].tolist():
            numbers.fail(start + 2 * k + 1, f"a label of variable {variables[k]} from 0 to {sizes[k] - 1}")
    order = np.argsort(variables, kind="stable")
    again = np.flatnonzero((np.diff(variables[order]) == 0) & (np.diff(labels[order]) != 0))
    for k in again[:1].tolist():
        place = int(order[k + 1])
        numbers.fail(start + 2 * place + 1, f"the label {labels[order[k]]} of variable {variables[place]} once more")


def write_evidence(path: Path, samples: Mapping[int, int] | Sequence[Mapping[int, int]]) -> None:
    """Writes one sample {variable: label} without, or a list of them with the leading number of samples."""
    lines = []
    if not isinstance(samples, Mapping):
        lines.append(str(len(samples)))
    for sample in [samples] if isinstance(samples, Mapping) else samples:
        lines.append(" ".join(map(str, [len(sample), *(k for pair in sample.items() for k in pair)])))
    write_text(path, ("\n".join(lines) + "\n").encode())
