import networkx as nx
import numpy as np
import pytest
from graph_strategies import region_lists
from hypothesis import given
from hypothesis import strategies as st

from blendfield.errors import BlendfieldError, GraphError
from blendfield.graph import (
    RegionGraph,
    chain_graph,
    factor_graph,
    graph_from_networkx,
    grid_graph,
    superpixel_graph,
    tree_graph,
)


def given_regions(graph):
    return graph.regions[: graph.num_given]


def test_chain():
    graph = chain_graph(4, 3)
    assert given_regions(graph) == [(0, 1), (1, 2), (2, 3)]
    assert graph.cardinalities.tolist() == [3] * 4
    assert chain_graph(3, [2, 3, 4]).shape(1) == (3, 4)
    assert chain_graph(1, 2).regions == [(0,)]
    assert chain_graph(0, 2).num_variables == 0


def test_tree():
    graph = tree_graph([2, -1, 1, 1, -1], np.array([2, 3, 4, 5, 6]))
    assert given_regions(graph) == [(2, 0), (1, 2), (1, 3)]
    assert graph.cardinalities.tolist() == [2, 3, 4, 5, 6]
    assert tree_graph([], 2).num_variables == 0


@pytest.mark.parametrize("parents", [[0], [1, 0], [1, 2, 0, -1], [-2], [3, -1], ["a"], None, [1.0, -1]])
def test_not_a_tree(parents):
    with pytest.raises(GraphError):
        tree_graph(parents, 2)


def test_grid():
    graph = grid_graph((2, 3), 2)
    assert given_regions(graph) == [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)]
    diagonal = grid_graph((2, 3), 2, neighbours=8)
    assert given_regions(diagonal)[7:] == [(0, 4), (1, 5), (1, 3), (2, 4)]
    labels = np.array([[2, 3, 4], [5, 6, 7]])
    assert grid_graph((2, 3), labels).cardinalities.tolist() == [2, 3, 4, 5, 6, 7]
    assert grid_graph((2, 3), labels.ravel().tolist()).cardinalities.tolist() == [2, 3, 4, 5, 6, 7]
    assert grid_graph((1, 1), 2).num_edges == 0
    assert grid_graph((0, 5), 2).num_variables == 0


def test_superpixels():
    label_map = np.array([[0, 0, 3], [1, 1, 3], [1, 0, 0]])
    graph = superpixel_graph(label_map, 5)
    assert graph.num_variables == 4  # number 2 has no pixel
    assert given_regions(graph) == [(0, 1), (0, 3), (1, 3)]
    assert superpixel_graph(label_map.astype(np.uint8), [2, 3, 4, 5, 6]).cardinalities.tolist() == [2, 3, 4, 5, 6]
    solid = np.arange(8).reshape(2, 2, 2)
    assert superpixel_graph(solid, 2).num_given == 12
    assert superpixel_graph(np.zeros((4, 4), int), 2).regions == [(0,)]
    assert superpixel_graph(np.zeros((0, 4), int), 2).num_variables == 0


@given(st.integers(1, 4), st.integers(1, 4), st.data())
def test_superpixels_are_all_touching_pairs(height, width, data):
    label_map = np.array(data.draw(st.lists(st.integers(0, 5), min_size=height * width, max_size=height * width)))
    label_map = label_map.reshape(height, width)
    expected = set()
    for a, b in [(label_map[:, :-1], label_map[:, 1:]), (label_map[:-1], label_map[1:])]:
        expected |= {(min(p), max(p)) for p in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True) if p[0] != p[1]}
    assert given_regions(superpixel_graph(label_map, 2)) == sorted(expected)


def test_factors():
    graph, regions = factor_graph([2, 3, 4], [(1, 0), (), (2,), (0, 1), (0, 1, 2), [2]])
    assert given_regions(graph) == [(1, 0), (2,), (0, 1, 2)]
    assert regions.tolist() == [0, -1, 1, 0, 2, 1]
    assert regions.dtype == np.int32
    assert graph.children[2] == (0, 1)
    singles_only, _ = factor_graph([2, 3, 4], [(0, 1), (0, 1, 2)], edges="variables")
    assert singles_only.children[1] == (2, 3, 4)
    assert factor_graph([], [])[1].tolist() == []
    assert factor_graph([2], [()])[1].tolist() == [-1]


@given(region_lists())
def test_distinct_factors_are_regions(given_lists):
    graph, regions = factor_graph(*given_lists)
    assert graph.children == RegionGraph(*given_lists).children
    assert regions.tolist() == list(range(len(given_lists[1])))


def test_factor_errors_name_the_factor():
    with pytest.raises(GraphError, match=r"factor 2 \(0, 7\)"):
        factor_graph([2, 2], [(), (0, 1), (0, 7)])


def test_networkx():
    nx_graph = nx.MultiDiGraph([("b", "a"), ("a", "b"), ("a", "c"), ("b", "a")])
    nx_graph.add_node("alone")
    graph = graph_from_networkx(nx_graph, 3)
    assert list(nx_graph) == ["b", "a", "c", "alone"]
    assert given_regions(graph) == [(0, 1), (1, 2)]
    assert graph.num_variables == 4
    nx.set_node_attributes(nx_graph, {"a": 2, "b": 3, "c": 4, "alone": 5}, "states")
    assert graph_from_networkx(nx_graph, "states").cardinalities.tolist() == [3, 2, 4, 5]
    assert graph_from_networkx(nx_graph, [1, 2, 3, 4]).cardinalities.tolist() == [1, 2, 3, 4]
    assert graph_from_networkx(nx.Graph(), 2).num_variables == 0
    grid = graph_from_networkx(nx.grid_2d_graph(3, 4), 2)
    assert sorted(map(sorted, given_regions(grid))) == sorted(map(sorted, given_regions(grid_graph((3, 4), 2))))


def test_networkx_errors():
    with pytest.raises(GraphError, match="networkx graph, got int"):
        graph_from_networkx(3, 2)
    with pytest.raises(GraphError, match="node 'a' has a loop"):
        graph_from_networkx(nx.Graph([("a", "a")]), 2)
    with pytest.raises(GraphError, match="node 'a' has no attribute 'states'"):
        graph_from_networkx(nx.Graph([("a", "b")]), "states")


@pytest.mark.parametrize(
    "build",
    [
        lambda: chain_graph(-1, 2),
        lambda: chain_graph(2.0, 2),
        lambda: chain_graph(True, 2),
        lambda: chain_graph("3", 2),
        lambda: chain_graph(10**30, 2),
        lambda: chain_graph(10**5000, 2),
        lambda: chain_graph(2, 0),
        lambda: chain_graph(2, 2.5),
        lambda: chain_graph(2, None),
        lambda: chain_graph(2, "ab"),
        lambda: chain_graph(2, [2]),
        lambda: chain_graph(2, [2, 0]),
        lambda: chain_graph(2, [[2, 2]]),
        lambda: chain_graph(2, np.array([[2, 2]])),
        lambda: chain_graph(2, np.array([2.0, 2.0])),
        lambda: grid_graph(5, 2),
        lambda: grid_graph("55", 2),
        lambda: grid_graph((1, 2, 3), 2),
        lambda: grid_graph((2, -1), 2),
        lambda: grid_graph((2**20, 2**20), 2),
        lambda: grid_graph((2, 2), 2, neighbours=6),
        lambda: grid_graph((2, 2), 2, neighbours="4"),
        lambda: grid_graph((2, 2), [2, 2, 2]),
        lambda: grid_graph((2, 2), np.full((4, 1), 2)),
        lambda: superpixel_graph([[0, -1]], 2),
        lambda: superpixel_graph([[0, 2**40]], 2),
        lambda: superpixel_graph([0, 1], 2),
        lambda: superpixel_graph([[0.0, 1.0]], 2),
        lambda: superpixel_graph([[0, 1], [2]], 2),
        lambda: superpixel_graph([[0, 1]], [2]),
        lambda: superpixel_graph([[0, 1]], 0),
        lambda: superpixel_graph(None, 2),
        lambda: factor_graph([2], [(0, 0)]),
        lambda: factor_graph(None, []),
        lambda: factor_graph([2], None),
        lambda: factor_graph([0], [()]),
    ],
)
def test_errors(build):
    with pytest.raises(BlendfieldError):
        build()
