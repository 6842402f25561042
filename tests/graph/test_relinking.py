import numpy as np
import pytest
from graph_strategies import edge_list, region_graphs
from hypothesis import given
from hypothesis import strategies as st

from blendfield.errors import GraphError
from blendfield.graph import RegionGraph, counting_numbers, relink


def by_definition(edges, numbers):
    """Replace one edge after the other."""
    parents = {c: {p for p, other in edges if other == c} for _, c in edges}
    edges = set(edges)
    while wrong := [(p, r) for p, r in edges if parents.get(p) and numbers[p] <= 0]:
        for p, r in wrong:
            edges.remove((p, r))
            edges |= {(above, r) for above in parents[p]}
    return sorted(edges)


def relinked(graph, numbers):
    parents, children = relink(graph, numbers)
    assert parents.dtype == children.dtype == np.int32
    return list(zip(parents.tolist(), children.tolist(), strict=True))


@given(region_graphs(max_regions=20), st.data())
def test_is_the_definition_and_leaves_no_silent_inner_parent(graph, data):
    numbers = np.array(
        data.draw(st.lists(st.sampled_from([-1.0, 0.0, 0.5]), min_size=graph.num_regions, max_size=graph.num_regions))
    )
    edges = relinked(graph, numbers)
    assert edges == by_definition(edge_list(graph), numbers)
    for p, r in edges:
        assert numbers[p] > 0 or not graph.parents[p]
        assert set(graph.regions[r]) < set(graph.regions[p])
    assert {r for _, r in edges} == set(graph.edge_children.tolist())


@given(region_graphs(), st.sampled_from(["ones", "cover", "cover-outer"]))
def test_positive_numbers_change_nothing(graph, name):
    assert relinked(graph, counting_numbers(graph, name)) == edge_list(graph)


def test_zero_middle_level_by_hand():
    graph = RegionGraph([2] * 4, [(0, 1, 2), (1, 2, 3), (1, 2)])
    edges = relinked(graph, counting_numbers(graph, "bethe"))
    singles = {(i,): graph.regions.index((i,)) for i in range(4)}
    assert edges == sorted(
        [(p, 2) for p in (0, 1)] + [(0, singles[i,]) for i in (0, 1, 2)] + [(1, singles[i,]) for i in (1, 2, 3)]
    )


def test_wrong_length():
    with pytest.raises(GraphError, match="one counting number per region"):
        relink(RegionGraph([2, 2], [(0, 1)]), np.ones(2))
