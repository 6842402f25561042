"""Cutting graphs: every outer region once, everything below it there too, parts of about one size."""

import numpy as np
import pytest

import blendfield as bf
from blendfield.graph import partition as cutting
from blendfield.graph.partition import cut, partition, subgraph
from blendfield.testing import random_region_graph


def pixel_positions(height, width):
    return np.stack(np.unravel_index(np.arange(height * width), (height, width)), axis=1)


def edges_of(graph):
    return graph.edge_parents, graph.edge_children


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_parts_make_the_whole(seed, parts):
    graph = random_region_graph(np.random.default_rng(seed), 3, num_variables=6, max_labels=3)
    edges = edges_of(graph)
    found = cut(graph, edges, partition(graph, parts, method="order"))
    outer = np.setdiff1d(np.arange(graph.num_regions), graph.edge_children)
    copies = np.zeros(graph.num_regions, dtype=int)
    singles = set(graph.single_regions.tolist())
    for own in found.members:
        copies[own] += 1
        part = subgraph(graph, edges, own)
        variables = sorted({v for r in own for v in graph.regions[r]})
        for local, whole in enumerate(own):
            np.testing.assert_array_equal(np.array(variables)[list(part.regions[local])], graph.regions[whole])
            assert part.shape(local) == graph.shape(whole)
            np.testing.assert_array_equal(own[list(part.children[local])], graph.children[whole])
    np.testing.assert_array_equal(copies, found.copies)
    assert copies.min() == 1
    assert all(copies[r] == 1 for r in outer if r not in singles)


def test_geometric_parts_are_boxes():
    graph = bf.grid_graph((8, 12), 2)
    found = partition(graph, 6, pixel_positions(8, 12))
    for part in range(6):
        rows, columns = np.nonzero(found.reshape(8, 12) == part)
        assert len(rows) <= np.ptp(rows) * np.ptp(columns) + np.ptp(rows) + np.ptp(columns) + 1
        assert 13 <= len(rows) <= 19
    report = cut(graph, edges_of(graph), found).report()
    assert report.imbalance < 1.2
    assert report.shared_regions < 50
    strips = cut(graph, edges_of(graph), partition(graph, 6, method="order")).report()
    assert report.shared_regions < strips.shared_regions
    assert report.exchanged < strips.exchanged
    assert "parts of" in str(report)


def test_metis_cuts_little():
    pytest.importorskip("pymetis")
    rng = np.random.default_rng(0)
    shuffled = rng.permutation(400)
    grid = bf.grid_graph((20, 20), 2)
    pairs = shuffled[np.array([grid.regions[r] for r in range(grid.num_given)])]
    graph = bf.RegionGraph(np.full(400, 2), pairs)
    by_metis = cut(graph, edges_of(graph), partition(graph, 4, method="metis")).report()
    by_order = cut(graph, edges_of(graph), partition(graph, 4, method="order")).report()
    assert by_metis.shared_regions < 0.25 * by_order.shared_regions
    assert by_metis.imbalance < 1.2
    assert partition(graph, 1, method="metis").max() == 0


def test_faults():
    graph = bf.grid_graph((2, 2), 2)
    with pytest.raises(bf.GraphError, match="parts must be from 1"):
        partition(graph, 5)
    with pytest.raises(bf.GraphError, match="method must be"):
        partition(graph, 2, method="best")
    with pytest.raises(bf.GraphError, match="positions must be finite numbers"):
        partition(graph, 2, [[0, 0]])


def test_without_metis(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pymetis", None)
    graph = bf.grid_graph((4, 4), 2)
    with pytest.raises(bf.MissingExtraError, match="pip install"):
        partition(graph, 2, method="metis")
    monkeypatch.setattr(cutting.importlib.util, "find_spec", lambda name: None)
    np.testing.assert_array_equal(partition(graph, 2), np.repeat([0, 1], 8))
