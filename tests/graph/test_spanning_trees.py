import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blendfield import _core
from blendfield.graph import spanning_trees
from blendfield.graph.spanning_trees import edge_appearance


@st.composite
def simple_graphs(draw):
    count = draw(st.integers(1, 6))
    possible = list(itertools.combinations(range(count), 2))
    chosen = draw(st.lists(st.sampled_from(possible), unique=True)) if possible else []
    links = np.array(chosen, np.int32).reshape(-1, 2)
    return count, np.ascontiguousarray(links[:, 0]), np.ascontiguousarray(links[:, 1])


def count_components(count, starts, ends):
    return _core.components(count, np.ascontiguousarray(starts), np.ascontiguousarray(ends))[1]


def spanning_forests(count, starts, ends):
    """All largest sets of edges without a cycle."""
    size = count - count_components(count, starts, ends)
    for chosen in itertools.combinations(range(len(starts)), size):
        links = list(chosen)
        if count_components(count, starts[links], ends[links]) == count - size:
            yield links


@settings(max_examples=40)
@given(simple_graphs())
def test_small_components_are_kirchhoff(graph):
    forests = list(spanning_forests(*graph))
    uses = np.zeros(len(graph[1]))
    for links in forests:
        uses[links] += 1
    np.testing.assert_allclose(edge_appearance(*graph), uses / len(forests), atol=1e-9)


@given(simple_graphs())
def test_drawn_trees(graph):
    """A mixture of spanning forests that uses every edge: 0 < rho <= 1, bridges 1, and the right sum."""
    count, starts, ends = graph
    uses, trees = _core.spanning_tree_uses(count, starts, ends, 3, 0)
    if len(starts) == 0:
        assert trees == 0
        return
    assert uses.min() >= 3
    assert uses.max() <= trees
    components = count_components(count, starts, ends)
    assert uses.sum() == trees * (count - components)
    for link in range(len(starts)):
        others = np.arange(len(starts)) != link
        if count_components(count, starts[others], ends[others]) > components:
            assert uses[link] == trees


def test_drawn_trees_prefer_unused_edges_and_are_reproducible():
    starts, ends = (side.astype(np.int32) for side in np.triu_indices(30, 1))
    uses, trees = _core.spanning_tree_uses(30, starts, ends, 1, 0)
    assert trees <= 30  # 435 edges by 29 at a time need at least 15
    again, _ = _core.spanning_tree_uses(30, starts, ends, 1, 0)
    assert np.array_equal(uses, again)


def test_large_components_are_drawn(monkeypatch):
    starts, ends = (side.astype(np.int32) for side in np.triu_indices(5, 1))
    both = np.concatenate([starts, [5, 6, 7]]).astype(np.int32), np.concatenate([ends, [6, 7, 5]]).astype(np.int32)
    monkeypatch.setattr(spanning_trees, "_LARGEST_DENSE", 4)
    probabilities = edge_appearance(9, *both)
    assert probabilities[:10].sum() == pytest.approx(4)
    assert probabilities[:10].min() > 0
    np.testing.assert_allclose(probabilities[10:], 2 / 3)


def test_many_components_at_once(monkeypatch):
    """Components of the same size are inverted together, in batches."""
    monkeypatch.setattr(spanning_trees, "_ENTRIES_AT_ONCE", 30)
    first = np.arange(0, 60, 3, dtype=np.int32)
    starts, ends = np.concatenate([first, first + 1, first + 2]), np.concatenate([first + 1, first + 2, first])
    np.testing.assert_allclose(edge_appearance(60, starts, ends), 2 / 3)
