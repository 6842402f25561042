"""Chunks are spread by size."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from blendfield.engines.placement import contiguous, spread


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=60), st.integers(1, 9))
def test_runs_are_contiguous_and_even(sizes, workers):
    runs = contiguous(sizes, workers)
    assert len(runs) == workers
    assert sorted(chunk for run in runs for chunk in run) == list(range(len(sizes)))
    share = sum(sizes) / workers
    for run in runs:
        assert run == sorted(run)
        assert sum(sizes[k] for k in run) <= share + max(sizes)
    if len(sizes) >= workers and max(sizes) == min(sizes):
        assert all(runs)


def test_orphans_go_to_the_idle():
    placed = spread([0, 1, 2], [5, 3, 3], {0: 10.0, 1: 0.0})
    assert placed == {0: 1, 1: 1, 2: 1}
    placed = spread([0, 1], np.array([5, 5]), {0: 0.0, 1: 0.0})
    assert sorted(placed.values()) == [0, 1]
