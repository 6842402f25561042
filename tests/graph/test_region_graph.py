import copy
import itertools
import pickle
import time

import numpy as np
import pytest
from graph_strategies import brute_force_hasse, edge_list, region_graphs, region_lists
from hypothesis import given, settings
from hypothesis import strategies as st

from blendfield.errors import BlendfieldError, GraphError, TableSizeError
from blendfield.graph import RegionGraph


def test_small_graph_by_hand():
    graph = RegionGraph([2, 3, 4], [(2, 0), (1,), (0, 1, 2)])
    assert graph.regions == [(2, 0), (1,), (0, 1, 2), (0,), (2,)]
    assert graph.parents == [(2,), (2,), (), (0,), (0,)]
    assert graph.children == [(3, 4), (), (0, 1), (), ()]
    assert (graph.num_variables, graph.num_regions, graph.num_given, graph.num_edges) == (3, 5, 3, 4)
    assert [graph.shape(r) for r in range(5)] == [(4, 2), (3,), (2, 3, 4), (2,), (4,)]
    assert graph.table_sizes.tolist() == [8, 3, 24, 2, 4]
    assert graph.table_offsets.tolist() == [0, 8, 11, 35, 37, 41]
    assert graph.region_orders.tolist() == [2, 1, 3, 1, 1]
    assert graph.single_regions.tolist() == [3, 1, 4]
    assert repr(graph) == "RegionGraph(3 variables, 5 regions, 4 edges)"


def test_dtypes_and_read_only():
    cardinalities = np.array([2, 3], np.int32)
    graph = RegionGraph(cardinalities, np.array([[0, 1]], np.int32), edges=np.array([[0, 1]], np.int32))
    for name in ("cardinalities", "region_variables", "edge_parents", "edge_children"):
        assert getattr(graph, name).dtype == np.int32
    for name in ("region_offsets", "table_sizes", "table_offsets"):
        assert getattr(graph, name).dtype == np.int64
    for name in ("cardinalities", "region_offsets", "region_variables", "edge_parents", "edge_children", "table_sizes"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(graph, name)[...] = 0
    cardinalities[0] = 5  # the caller's array stays the caller's
    assert graph.cardinalities.tolist() == [2, 3]


def test_graphs_without_regions_or_variables():
    graph = RegionGraph([2, 3], [])
    assert graph.regions == [(0,), (1,)]
    assert (graph.num_given, graph.num_edges) == (0, 0)
    empty = RegionGraph([], [])
    assert (empty.num_variables, empty.num_regions, empty.num_edges) == (0, 0, 0)
    assert empty.table_offsets.tolist() == [0]
    assert empty.regions == empty.parents == empty.children == []
    assert RegionGraph([2], [], edges=[]).num_edges == 0


@given(region_lists(max_order=6, max_regions=25))
def test_hasse_edges_are_the_definition(given_lists):
    graph = RegionGraph(*given_lists)
    assert edge_list(graph) == brute_force_hasse(graph.regions)


def test_hasse_edges_of_large_regions():
    """Orders at which all subsets are too many to look up, next to dense nests of small ones."""
    regions = [tuple(range(30)), tuple(range(29, 4, -1)), *itertools.combinations(range(6), 3), (2, 3, 4, 5, 6, 7)]
    regions += [(29, 28), (0, 29), (0, 1)]
    graph = RegionGraph([1] * 31, regions)
    assert edge_list(graph) == brute_force_hasse(graph.regions)


@given(region_lists())
def test_variable_edges_are_the_definition(given_lists):
    graph = RegionGraph(*given_lists, edges="variables")
    sets = [set(region) for region in graph.regions]
    expected = [(p, c) for p in range(len(sets)) for c in range(len(sets)) if len(sets[c]) == 1 and sets[c] < sets[p]]
    assert edge_list(graph) == expected


@given(region_graphs())
def test_explicit_edges_are_kept_and_sorted(graph):
    shuffled = edge_list(graph)[::-1]
    again = RegionGraph(graph.cardinalities, graph.regions, edges=shuffled)
    assert edge_list(again) == edge_list(graph) == sorted(shuffled)
    assert again.parents == graph.parents
    assert again.children == graph.children


@given(region_lists())
def test_given_regions_then_missing_singles(given_lists):
    cardinalities, regions = given_lists
    graph = RegionGraph(cardinalities, regions)
    missing = [(i,) for i in range(len(cardinalities)) if (i,) not in regions]
    assert graph.regions == regions + missing
    assert graph.num_given == len(regions)
    assert [graph.regions[r] for r in graph.single_regions] == [(i,) for i in range(len(cardinalities))]
    assert graph.table_sizes.tolist() == [np.prod(graph.shape(r)) for r in range(graph.num_regions)]


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int16, np.uint8])
def test_integer_arrays_are_regions_by_row(dtype):
    pairs, triples = np.array([[1, 0], [1, 2]], dtype), np.array([[2, 0, 1]], dtype)
    expected = RegionGraph([2, 2, 2], [(1, 0), (1, 2), (2, 0, 1)])
    assert RegionGraph([2, 2, 2], [pairs, triples]).regions == expected.regions
    assert RegionGraph(np.array([2, 2, 2], dtype), pairs[:, ::-1]).regions[:2] == [(0, 1), (2, 1)]
    assert RegionGraph([2, 2, 2], np.empty((0, 7))).num_given == 0
    assert RegionGraph([2, 2, 2], [np.empty((0, 2), dtype), triples]).num_given == 1


def test_sequences_of_other_kinds():
    expected = [(1, 0), (2,), (0,), (1,)]
    for regions in (
        ([1, 0], [2]),
        [np.array([1, 0]), np.array([2])],
        [(np.int8(1), np.uint64(0)), range(2, 3)],
        np.array([(1, 0), (2,)], dtype=object),
        RegionGraph([2, 2, 2], [(1, 0), (2,)]).regions,
    ):
        assert RegionGraph((2, 2, np.int64(2)), regions).regions == expected


bad_cardinalities = {
    "zero": ([2, 0], "variable 1: expected at least one label, got 0"),
    "negative": ([-1], "variable 0"),
    "float": ([2.0], "expected integers, got float at position 0"),
    "bool": ([2, True], "got bool at position 1"),
    "numpy bool": ([np.True_], "position 0"),
    "string": ("22", "expected a sequence of integers, got str"),
    "string inside": ([2, "2"], "got str at position 1"),
    "none": (None, "got NoneType"),
    "nested": ([[2, 2]], "got list at position 0"),
    "number": (3, "got int"),
    "float array": (np.array([2.0]), "float64"),
    "bool array": (np.array([True]), "bool"),
    "matrix": (np.array([[2, 2]]), "shape"),
    "scalar array": (np.array(2), "shape"),
    "huge": ([2**70], "beyond 32 bits"),
    "huge array": (np.array([1, 2**40]), "position 1"),
    "unsigned": (np.array([2**63], np.uint64), "position 0"),
    "set": ({2, 3}, "got set"),
    "nan": ([float("nan")], "float"),
}


@pytest.mark.parametrize(("cardinalities", "message"), bad_cardinalities.values(), ids=bad_cardinalities.keys())
def test_bad_cardinalities(cardinalities, message):
    with pytest.raises(GraphError, match=message):
        RegionGraph(cardinalities, [])


bad_regions = {
    "same set twice": ([(0, 1), (2,), (0, 1)], r"region 2 \(0, 1\) has the same variables as region 0"),
    "permutation": ([(0, 1, 2), (2, 0, 1)], r"region 1 \(2, 0, 1\) has the same variables as region 0 \(0, 1, 2\)"),
    "single twice": ([(1,), (1,)], "region 1"),
    "repeated variable": ([(0, 1), (1, 2, 1)], r"region 1 \(1, 2, 1\) repeats variable 1"),
    "empty": ([(0,), ()], "region 1 is empty"),
    "unknown": ([(0, 3)], r"region 0 \(0, 3\) names variable 3; expected variables from 0 to 2"),
    "negative": ([(0, -1)], "names variable -1"),
    "float": ([(0, 1.0)], "region 0: expected integers, got float at position 1"),
    "bool": ([(0,), (True,)], "region 1: expected integers, got bool at position 0"),
    "string": ([(0,), "12"], "region 1: expected a tuple of integers, got str"),
    "bytes": ([b"\x00"], "region 0"),
    "string inside": ([("0",)], "region 0"),
    "none": ([None], "region 0"),
    "none inside": ([(None,)], "region 0"),
    "nested": ([[[0, 1]]], "region 0"),
    "numbers": ([0, 1], "region 0: expected a tuple of integers, got int"),
    "number": (3, "regions: expected a sequence, got int"),
    "text": ("01", "regions: expected a sequence, got str"),
    "nothing": (None, "regions"),
    "set of sets": ({frozenset({0})}, "regions"),
    "set": ([{0, 1}], "region 0"),
    "dict": ([{0: 1}], "region 0"),
    "generator": (((0, 1) for _ in range(1)), "regions"),
    "too far": ([(0, 2**31)], "region 0: expected integers, got a number beyond 32 bits"),
    "much too far": ([(0, -(10**5000))], "region 0"),
    "long": ([range(10**12)], "region 0: expected at most 32 items"),
    "longer than 32": ([tuple(range(33))], "region 0: expected at most 32 items"),
    "long range": (range(10**12), "regions: expected at most"),
    "float array": (np.array([[0.0, 1.0]]), "float64"),
    "bool array": (np.array([[True]]), "bool"),
    "flat array": (np.array([0, 1]), "region 0"),
    "scalar array": (np.array(0), "regions"),
    "cube": (np.zeros((1, 1, 1), int), "region 0"),
    "wide array": (np.zeros((1, 33), int), "1 to 32 variables"),
    "no columns": (np.zeros((2, 0), int), "1 to 32 variables"),
    "mixed": ([np.array([[0, 1]]), (1, 2)], "arrays"),
    "array unknown": (np.array([[0, 1], [1, 3]]), r"region 1 \(1, 3\) names variable 3"),
    "array too far": (np.array([[0, 1], [1, 2**32]]), "position 1, 1"),
    "virtual array": (np.broadcast_to(np.zeros((1, 2), np.int8), (2**33, 2)), "at most 2\\^31 - 1"),
}


@pytest.mark.parametrize(("regions", "message"), bad_regions.values(), ids=bad_regions.keys())
def test_bad_regions(regions, message):
    with pytest.raises(GraphError, match=message):
        RegionGraph([2, 2, 2], regions)


bad_edges = {
    "name": ("tree", "expected 'hasse', 'variables' or pairs"),
    "none": (None, "edges"),
    "number": (1, "edges"),
    "reversed": ([(2, 0)], r"edge 0 \(2, 0\): expected \(parent, child\)"),
    "itself": ([(0, 0)], "strict subset"),
    "no inclusion": ([(0, 2), (0, 4)], r"edge 1 \(0, 4\).*got \(0, 1\) and \(2,\)"),
    "out of range": ([(0, 5)], "names region 5; expected regions from 0 to 4"),
    "negative": ([(-1, 2)], "names region -1"),
    "twice": ([(0, 2), (0, 3), (0, 2)], r"edge \(0, 2\) is given twice"),
    "single number": ([(0, 2), (0,)], "edge 1: expected a pair"),
    "three numbers": ([(0, 2, 3)], "edge 0"),
    "floats": ([(0.0, 2.0)], "edge 0"),
    "bools": ([(False, 2)], "edge 0"),
    "text": (["02"], "edge 0"),
    "float array": (np.array([[0.0, 2.0]]), "float64"),
    "wrong array": (np.array([[0, 2, 3]]), "shape"),
    "flat array": (np.array([0, 2]), "shape"),
    "huge": (np.array([[0, 2**40]]), "32-bit"),
}


@pytest.mark.parametrize(("edges", "message"), bad_edges.values(), ids=bad_edges.keys())
def test_bad_edges(edges, message):
    with pytest.raises(GraphError, match=message):
        RegionGraph([2, 2, 2], [(0, 1), (1, 2)], edges)


def test_table_size_overflow():
    with pytest.raises(TableSizeError, match=rf"region 1 \(0, 1, 2, 3\).*{1100**4} entries"):
        RegionGraph([1100] * 4, [(0, 1, 2), (0, 1, 2, 3)])
    with pytest.raises(TableSizeError, match=str((2**31 - 1) ** 32)):
        RegionGraph([2**31 - 1] * 32, [tuple(range(32))])
    assert RegionGraph([2] * 40, [tuple(range(30))]).table_sizes[0] == 2**30  # no table is made here
    assert RegionGraph([2**20, 2**20], [(0, 1)]).table_sizes[0] == 2**40


def test_total_size_overflow(monkeypatch):
    monkeypatch.setattr("blendfield.graph.region_graph.MAX_TOTAL_SIZE", 100)
    assert RegionGraph([9, 9], [(0, 1)]).table_offsets[-1] == 99
    with pytest.raises(TableSizeError, match="101 entries together"):
        RegionGraph([9, 9, 2], [(0, 1)])


class Odd(list):
    """A list whose entries change the list while they are read."""

    def __index__(self):
        self.clear()
        raise RuntimeError


def test_sequences_that_change_while_read():
    region = Odd([0])
    region.append(region)
    with pytest.raises(GraphError, match="region 0"):
        RegionGraph([2, 2], [region])


numbers = st.one_of(
    st.integers(-3, 5),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.none(),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.complex_numbers(),
    st.integers(-200, 200).map(np.int16),
    st.floats(width=32).map(np.float32),
    st.just(np.True_),
)
arrays = st.builds(
    lambda shape, dtype, low: (np.arange(np.prod(shape, dtype=int)).reshape(shape) + low).astype(dtype),
    st.lists(st.integers(0, 3), max_size=3).map(tuple),
    st.sampled_from([np.int8, np.int64, np.uint64, np.float64, np.complex128, bool, object, "U2"]),
    st.integers(-1, 2),
)
garbage = st.recursive(
    numbers | arrays,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.integers(0, 3), inner, max_size=2),
        st.sets(st.integers(-1, 4), max_size=3),
    ),
    max_leaves=12,
)
nearly_regions = st.lists(st.lists(st.integers(-1, 4) | numbers, max_size=4), max_size=5)


@settings(max_examples=600)
@given(
    st.lists(st.integers(1, 3), min_size=4, max_size=5) | st.lists(st.integers(0, 3), max_size=4) | garbage,
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3), max_size=5) | nearly_regions | garbage,
    st.sampled_from(["hasse", "variables"])
    | st.text(max_size=6)
    | st.lists(st.tuples(st.integers(-1, 9), st.integers(-1, 9)), max_size=3)
    | garbage,
)
def test_fuzzed_constructor(cardinalities, regions, edges):
    """Either a graph or one of our errors, whatever comes in."""
    try:
        graph = RegionGraph(cardinalities, regions, edges)
    except BlendfieldError:
        return
    assert len(set(map(frozenset, graph.regions))) == graph.num_regions
    assert graph.table_offsets[-1] == sum(np.prod(graph.shape(r)) for r in range(graph.num_regions))


@given(region_graphs())
def test_pickle_and_copy(graph):
    for again in (pickle.loads(pickle.dumps(graph)), copy.deepcopy(graph)):
        assert again.regions == graph.regions
        assert again.parents == graph.parents
        assert again.num_given == graph.num_given
        assert not again.cardinalities.flags.writeable


def test_a_million_regions():
    """A 600 x 600 grid. The bound is generous: it takes about a quarter of a second."""
    side = 600
    pixel = np.arange(side * side).reshape(side, side)
    pairs = [
        np.stack([pixel[:, :-1].ravel(), pixel[:, 1:].ravel()], axis=1),
        np.stack([pixel[:-1].ravel(), pixel[1:].ravel()], axis=1),
    ]
    start = time.perf_counter()
    graph = RegionGraph(np.full(side * side, 2), pairs)
    assert graph.num_regions == 3 * side * side - 2 * side
    assert graph.num_edges == 2 * graph.num_given
    tuples = list(graph.regions)
    again = RegionGraph(graph.cardinalities, tuples)
    assert np.array_equal(again.edge_children, graph.edge_children)
    assert time.perf_counter() - start < 20
