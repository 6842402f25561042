import numpy as np
import pytest
from graph_strategies import ancestors, covering, edge_list, pairwise_forests, region_graphs
from hypothesis import given
from hypothesis import strategies as st

from blendfield.errors import CountingNumberError
from blendfield.graph import RegionGraph, counting_numbers, grid_graph


@given(region_graphs())
def test_ones(graph):
    assert counting_numbers(graph, "ones").tolist() == [1.0] * graph.num_regions


@given(region_graphs(max_regions=20), st.sampled_from(["cover", "cover-outer"]))
def test_covers_are_positive_and_cover_once(graph, name):
    numbers = counting_numbers(graph, name)
    assert numbers.dtype == np.float64
    assert (numbers > 0).all()
    np.testing.assert_allclose(covering(graph, numbers), 1)


def test_cover_by_hand():
    graph = RegionGraph([2, 2, 2], [(0, 1, 2), (0, 1)])
    # Variables 0 and 1 are in three regions, 2 in two.
    np.testing.assert_allclose(counting_numbers(graph, "cover"), [1 / 3, 1 / 3, 1 / 3, 1 / 3, 2 / 3])
    np.testing.assert_allclose(counting_numbers(graph, "cover-outer"), [0.99, 0.0099, 0.0001, 0.0001, 0.01])


def test_outer_single_gets_everything():
    graph = RegionGraph([2, 2, 2], [(0, 1)])
    for name in ("cover", "cover-outer", "bethe", "trw"):
        assert counting_numbers(graph, name)[3] == 1


@given(region_graphs(edges=("hasse",), max_regions=20))
def test_moebius_numbers_of_hasse_graphs_cover_once(graph):
    np.testing.assert_allclose(covering(graph, counting_numbers(graph, "bethe")), 1, atol=1e-9)


@given(region_graphs(max_regions=20))
def test_moebius_numbers_are_the_definition(graph):
    numbers = counting_numbers(graph, "bethe")
    for region in range(graph.num_regions):
        assert numbers[region] == 1 - sum(numbers[a] for a in ancestors(edge_list(graph), region))


@given(region_graphs(edges=("variables",)))
def test_bethe_on_two_levels_counts_parents(graph):
    numbers = counting_numbers(graph, "bethe")
    singles = graph.single_regions
    assert numbers[singles].tolist() == [1 - len(graph.parents[r]) for r in singles]


@given(pairwise_forests())
def test_trw_is_bethe_on_forests(forest):
    num_variables, pairs = forest
    graph = RegionGraph([2] * num_variables, pairs)
    np.testing.assert_allclose(counting_numbers(graph, "trw"), counting_numbers(graph, "bethe"))


@given(region_graphs(max_order=2))
def test_trw_covers_once(graph):
    numbers = counting_numbers(graph, "trw")
    np.testing.assert_allclose(covering(graph, numbers), 1, atol=1e-9)
    pairs = numbers[graph.region_orders == 2]
    assert ((pairs > 0) & (pairs <= 1)).all()


def test_trw_of_a_grid_is_symmetric():
    graph = grid_graph((2, 2), 2)
    np.testing.assert_allclose(counting_numbers(graph, "trw"), [0.75] * 4 + [-0.5] * 4)


def test_trw_refuses_larger_regions():
    graph = RegionGraph([2, 2, 2], [(0, 1), (2, 0, 1)])
    with pytest.raises(CountingNumberError, match=r"region 1 has 3: \(2, 0, 1\)"):
        counting_numbers(graph, "trw")


def test_arrays():
    graph = RegionGraph([2, 2], [(0, 1)])
    given_numbers = np.array([1, 0, -2])
    numbers = counting_numbers(graph, given_numbers)
    assert numbers.dtype == np.float64
    assert numbers.tolist() == [1, 0, -2]
    assert counting_numbers(graph, (0.5, 1, 1)).tolist() == [0.5, 1, 1]
    as_floats = np.ones(3)
    assert not np.shares_memory(counting_numbers(graph, as_floats), as_floats)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("kikuchi", "expected one of 'ones', 'cover', 'cover-outer', 'bethe', 'trw' or an array, got 'kikuchi'"),
        ([1.0], r"shape \(3,\)"),
        ([[1.0, 1, 1]], r"shape \(1, 3\)"),
        (1.0, r"shape \(\)"),
        (None, "shape"),
        ([1, np.nan, 1], "region 1: expected finite, got nan"),
        ([1, 1, np.inf], "region 2"),
        ([1, 1j, 1], "complex128"),
        ([True, True, True], "bool"),
        (["1", "1", "1"], "got an array of"),
        ([1, None, 1], "object"),
        ([1, 10**400, 1], "object"),
        ([1, [1, 1], 1], "expected 3 real numbers"),
    ],
)
def test_errors(spec, message):
    with pytest.raises(CountingNumberError, match=message):
        counting_numbers(RegionGraph([2, 2], [(0, 1)]), spec)


@pytest.mark.parametrize("name", ["ones", "cover", "cover-outer", "bethe", "trw"])
def test_graphs_without_regions(name):
    assert counting_numbers(RegionGraph([], []), name).shape == (0,)
    assert counting_numbers(RegionGraph([], []), []).shape == (0,)
    assert counting_numbers(RegionGraph([3], []), name).tolist() == [1]
