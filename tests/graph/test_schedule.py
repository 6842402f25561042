import numpy as np
import pytest
from graph_strategies import (
    edge_list,
    has_conflicts,
    hypertrees,
    pairwise_forests,
    region_graphs,
    touched,
)
from hypothesis import given
from hypothesis import strategies as st

from blendfield.errors import GraphError
from blendfield.graph import (
    RegionGraph,
    chain_graph,
    colour_classes,
    components,
    counting_numbers,
    forest_classes,
    grid_graph,
    relink,
)


def of_edges(function, graph):
    return function(graph, graph.edge_parents, graph.edge_children)


@given(region_graphs(max_regions=20), st.sampled_from(["ones", "bethe"]))
def test_colour_classes_have_no_conflicts(graph, name):
    parents, children = relink(graph, counting_numbers(graph, name))
    edges = list(zip(parents.tolist(), children.tolist(), strict=True))
    classes = colour_classes(graph, parents, children)
    assert classes.dtype == np.int32
    assert {r for r in range(graph.num_regions) if classes[r] >= 0} == set(touched(graph.num_regions, edges))
    assert not has_conflicts(classes, graph.num_regions, edges)
    used = classes[classes >= 0]
    assert set(used.tolist()) == set(range(used.max() + 1 if used.size else 0))
    sent = np.bincount(classes[children], minlength=1)
    assert (np.diff(sent) >= 0).all()  # the class with the most edges is last


@given(pairwise_forests())
def test_pairwise_forests_need_two_classes(forest):
    num_variables, pairs = forest
    graph = RegionGraph([2] * num_variables, pairs)
    classes = of_edges(colour_classes, graph)
    assert classes.max() <= 1
    assert not has_conflicts(classes, graph.num_regions, edge_list(graph))


@pytest.mark.parametrize("shape", [(1, 2), (2, 2), (3, 5), (20, 21)])
def test_grids_with_four_neighbours_need_two_classes(shape):
    graph = grid_graph(shape, 2)
    classes = of_edges(colour_classes, graph)
    pixels = classes[graph.single_regions].reshape(shape)
    assert set(np.unique(pixels)) == {0, 1}
    checkerboard = np.indices(shape).sum(axis=0) % 2
    assert (pixels == checkerboard).all() or (pixels != checkerboard).all()


def test_more_than_64_classes():
    """150 variables that all meet in pairs, and 20 of them also in one region."""
    count = 150
    graph = RegionGraph([1] * count, [np.stack(np.triu_indices(count, 1), axis=1), np.arange(20)[None]])
    classes = of_edges(colour_classes, graph)
    singles = classes[graph.single_regions]
    assert sorted(singles.tolist()) == list(range(singles.min(), singles.min() + count))
    assert not has_conflicts(classes, graph.num_regions, edge_list(graph))


def is_forest(num_regions, edges):
    root = list(range(num_regions))

    def find(r):
        while root[r] != r:
            r = root[r]
        return r

    for p, c in edges:
        if find(p) == find(c):
            return False
        root[find(p)] = find(c)
    return True


def exact_after_two_passes(classes, num_regions, edges):
    """Follows the dependences: the message r -> p is exact when it is sent while all messages s -> p' to the other
    parents p' of r are exact. Returns whether all are in the end."""
    exact = set()
    depth = max(classes) + 1
    for current in [*range(depth), *range(depth - 2, -1, -1)]:
        exact |= {
            (p, r)
            for p, r in edges
            if classes[r] == current
            and all(
                (q, s) in exact for q, other in edges if other == r and q != p for t, s in edges if t == q and s != r
            )
        }
    return exact == set(edges)


@given(pairwise_forests() | hypertrees())
def test_forest_classes_make_two_exact_passes(forest):
    num_variables, regions = forest
    graph = RegionGraph([2] * num_variables, regions)
    classes = of_edges(forest_classes, graph)
    assert classes is not None
    assert not has_conflicts(classes, graph.num_regions, edge_list(graph))
    assert exact_after_two_passes(classes.tolist(), graph.num_regions, edge_list(graph))
    assert (classes >= 0).tolist() == [len(parents) > 0 for parents in graph.parents]


@given(region_graphs(max_regions=8), st.sampled_from(["ones", "bethe"]))
def test_forest_classes_exactly_when_there_is_no_cycle(graph, name):
    parents, children = relink(graph, counting_numbers(graph, name))
    edges = list(zip(parents.tolist(), children.tolist(), strict=True))
    classes = forest_classes(graph, parents, children)
    assert (classes is not None) == is_forest(graph.num_regions, edges)
    if classes is not None:
        assert not has_conflicts(classes, graph.num_regions, edges)


def test_deep_forest():
    """A path of nested regions, of which the two in the middle are parents and children."""
    graph = RegionGraph([2] * 4, [(0,), (0, 1), (0, 1, 2), (0, 1, 2, 3)], edges=[(3, 2), (2, 1), (1, 0)])
    classes = of_edges(forest_classes, graph)
    assert classes[3:].tolist() == [-1] * 4
    assert not has_conflicts(classes, graph.num_regions, edge_list(graph))


@pytest.mark.parametrize("length", [2, 3, 10, 101, 100_000])
def test_chains_are_rooted_in_the_middle(length):
    graph = chain_graph(length, 2)
    classes = of_edges(forest_classes, graph)
    assert classes.max() == length // 2
    star = RegionGraph([2] * length, [(0, i) for i in range(1, min(length, 50))])
    assert of_edges(forest_classes, star).max() == 1


@given(region_graphs())
def test_components(graph):
    component, count = of_edges(components, graph)
    first = {}
    for region, number in enumerate(component.tolist()):
        first.setdefault(number, region)
    assert list(first) == list(range(count))  # numbered by first region
    linked = {frozenset(edge) for edge in edge_list(graph)}
    for a in range(graph.num_regions):  # the same component exactly when there is a path
        reached, new = {a}, {a}
        while new:
            new = {b for pair in linked if pair & new for b in pair} - reached
            reached |= new
        assert reached == set(np.flatnonzero(component == component[a]).tolist())


def test_graphs_without_edges():
    for graph in (RegionGraph([], []), RegionGraph([2, 2], [])):
        assert of_edges(colour_classes, graph).tolist() == [-1] * graph.num_regions
        assert of_edges(forest_classes, graph).tolist() == [-1] * graph.num_regions
        component, count = of_edges(components, graph)
        assert component.tolist() == list(range(count)) == list(range(graph.num_regions))


@pytest.mark.parametrize("function", [colour_classes, forest_classes, components])
def test_edges_out_of_range(function):
    graph = RegionGraph([2, 2], [(0, 1)])
    with pytest.raises(GraphError, match="region 3; expected regions from 0 to 2"):
        function(graph, np.array([3]), np.array([0]))
    with pytest.raises(GraphError, match="as many edge parents"):
        function(graph, np.array([0, 0]), np.array([1]))
