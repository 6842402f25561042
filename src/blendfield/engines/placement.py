"""Which worker gets which chunks: by size, neighbours together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from blendfield.backends.protocol import RealArray


def contiguous(sizes: Sequence[int], workers: int) -> list[list[int]]:
    """Chunks in order, cut into `workers` runs of about the same size; no run is empty while there are chunks enough.

    Chunk k goes where the middle of it lies, so that no run is more than one chunk from its share.
    """
    runs: list[list[int]] = [[] for _ in range(workers)]
    whole, before = max(1, sum(sizes)), 0
    for number, size in enumerate(sizes):
        share = min(workers - 1, int((before + size / 2) * workers / whole))
        runs[share].append(number)
        before += size
    for empty in [k for k, run in enumerate(runs) if not run]:  # next to a giant
        longest = max(runs, key=len)
        if len(longest) > 1:
            runs[empty].append(longest.pop())
    return [sorted(run) for run in runs]


def spread(numbers: Sequence[int], sizes: Sequence[int], load: Mapping[int, float]) -> dict[int, int]:
    """Where chunks without a worker go: {chunk: worker}, the largest first, each to whoever would be done first.

    load: what every worker has, in chunk sizes; the slow ones count theirs for more.
    """
    loads = dict(load)
    placed = {}
    for number in sorted(numbers, key=lambda number: -sizes[number]):
        worker = min(loads, key=lambda worker: (loads[worker], worker))
        placed[number] = worker
        loads[worker] += sizes[number]
    return placed


def recut(parts: Sequence[RealArray], sizes: Sequence[int]) -> list[RealArray]:
    """What lies one behind the other in `parts`, cut into other sizes; ValueError where the total is another one."""
    if [len(part) for part in parts] == list(sizes):
        return list(parts)
    flat = np.concatenate(parts)
    if len(flat) != sum(sizes):
        raise ValueError(f"messages have {len(flat)} entries, expected {sum(sizes)}")
    return np.split(flat, np.cumsum(sizes)[:-1])
