import numpy as np
import pytest
from graph_strategies import region_graphs
from hypothesis import given
from hypothesis import strategies as st

from blendfield.errors import GraphError
from blendfield.graph import RegionGraph, counting_numbers, disjoint_union


@given(st.lists(region_graphs(max_regions=5), min_size=1, max_size=4))
def test_is_the_graphs_side_by_side(graphs):
    union, region_starts, variable_starts = disjoint_union(graphs)
    assert region_starts.tolist() == np.cumsum([0, *(g.num_regions for g in graphs)]).tolist()
    assert variable_starts.tolist() == np.cumsum([0, *(g.num_variables for g in graphs)]).tolist()
    for k, graph in enumerate(graphs):
        rows = slice(region_starts[k], region_starts[k + 1])
        moved = variable_starts[k]
        assert union.regions[rows] == [tuple(i + moved for i in region) for region in graph.regions]
        assert union.parents[rows] == [tuple(p + region_starts[k] for p in row) for row in graph.parents]
        assert union.children[rows] == [tuple(c + region_starts[k] for c in row) for row in graph.children]
        assert union.table_sizes[rows].tolist() == graph.table_sizes.tolist()
        for name in ("cover", "bethe"):
            expected = counting_numbers(graph, name).tolist()
            assert counting_numbers(union, name)[rows].tolist() == expected


@given(st.lists(region_graphs(max_regions=5, edges=("hasse",)), min_size=2, max_size=3))
def test_equals_a_graph_built_from_the_union(graphs):
    union = disjoint_union(graphs).graph
    built = RegionGraph(union.cardinalities, union.regions)
    assert built.children == union.children
    assert built.num_given == union.num_given == union.num_regions


def test_one_graph_is_returned_as_it_is():
    graph = RegionGraph([2, 2], [(0, 1)])
    union = disjoint_union([graph])
    assert union.graph is graph
    assert union.region_starts.tolist() == [0, 3]
    assert union.variable_starts.tolist() == [0, 2]


def test_no_graphs():
    assert disjoint_union([]).graph.num_regions == 0


def test_too_many_regions(monkeypatch):
    monkeypatch.setattr("blendfield.graph.union.MAX_COUNT", 5)
    graph = RegionGraph([2, 2], [(0, 1)])
    with pytest.raises(GraphError, match="together"):
        disjoint_union([graph, graph])
