"""Sums over chunks do not depend on where the chunks are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blendfield.engines.sums import fold, total, whole


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=40), st.lists(st.integers(0, 7), min_size=40, max_size=40))
def test_same_bits_wherever_the_chunks_are(values, homes):
    parts = {(0, k): np.array([value, 1.0]) for k, value in enumerate(values)}
    nodes = {}
    for home in range(8):
        own = {node: part for node, part in parts.items() if homes[node[1]] == home}
        nodes.update(fold(own, len(values)))
    answer = whole(nodes, len(values))
    assert answer.tobytes() == total([np.array([value, 1.0]) for value in values]).tobytes()
    assert answer[1] == len(values)
    assert answer[0] == pytest.approx(sum(values), rel=1e-12, abs=1e-3)


def test_neighbours_send_one_sum():
    nodes = fold({(0, k): 1.0 for k in range(8)}, 16)
    assert nodes == {(3, 0): 8.0}


def test_a_missing_chunk_is_noticed():
    with pytest.raises(ValueError, match="unpack"):
        whole({(0, 0): 1.0, (0, 2): 1.0}, 3)
