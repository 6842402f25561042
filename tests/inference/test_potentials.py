"""Every accepted form of potentials, evidence and starting messages; every error in them."""

import numpy as np
import pytest
from inference_models import INF, chain, grid

import blendfield as bf
from blendfield.model.potentials import flatten_potentials
from blendfield.testing import enumerate_exact, random_region_graph, random_tables


@pytest.fixture
def graph():
    return bf.RegionGraph([2, 3, 2], [(1, 0), (1, 2), (0,)])  # regions 3, 4 are appended: (1,), (2,)


def tables_of(graph, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(graph.shape(r)) for r in range(graph.num_regions)]


def flat_of(tables):
    return np.concatenate([np.ravel(t) for t in tables])


def test_sequence_forms(graph):
    tables = tables_of(graph)
    expected = flat_of(tables)
    for form in (tables, tuple(tables), [t.tolist() for t in tables], [t.T.copy().T for t in tables]):
        np.testing.assert_array_equal(flatten_potentials(graph, form), expected)
    objects = np.empty(5, dtype=object)
    objects[:] = tables
    np.testing.assert_array_equal(flatten_potentials(graph, objects), expected)
    expected[-5:] = 0
    np.testing.assert_array_equal(flatten_potentials(graph, tables[:3]), expected)
    expected[:6] = 0
    np.testing.assert_array_equal(flatten_potentials(graph, [None, *tables[1:3]]), expected)
    integers = flatten_potentials(graph, [np.ones((3, 2), dtype=np.int16), None, None], "float32")
    assert integers.dtype == np.float32


def test_one_array_for_regions_of_one_shape():
    graph = bf.RegionGraph([2, 2], [(0,), (1,)])
    np.testing.assert_array_equal(flatten_potentials(graph, np.arange(4.0).reshape(2, 2)), np.arange(4.0))


def test_flat_form_is_not_copied(graph):
    flat = flat_of(tables_of(graph))
    assert flatten_potentials(graph, flat) is flat
    assert flatten_potentials(graph, flat, "float32").dtype == np.float32
    np.testing.assert_array_equal(flatten_potentials(graph, np.repeat(flat, 2)[::2]), flat)


def test_bulk_forms(graph):
    first, second = np.arange(6.0).reshape(1, 3, 2), np.ones((1, 3))
    expected = np.zeros(19)
    expected[:6] = np.arange(6)
    pair = (np.array([0]), first)
    np.testing.assert_array_equal(flatten_potentials(graph, pair), expected)
    np.testing.assert_array_equal(flatten_potentials(graph, [pair]), expected)
    expected[14:17] = 1
    np.testing.assert_array_equal(flatten_potentials(graph, [pair, (np.array([3], np.uint8), second)]), expected)
    empty = (np.zeros(0, dtype=int), np.zeros((0, 2)))
    np.testing.assert_array_equal(flatten_potentials(graph, empty), np.zeros(19))


@pytest.mark.parametrize("order", ["runs", "shuffled"])
def test_bulk_is_right_for_many_regions(order):
    rng = np.random.default_rng(0)
    graph = bf.RegionGraph([2] * 1001, np.stack([np.arange(1000), np.arange(1, 1001)], axis=1))
    regions = np.arange(200, 900) if order == "runs" else rng.permutation(1000)[:700]
    tables = rng.standard_normal((700, 2, 2))
    flat = flatten_potentials(graph, (regions, tables))
    expected = np.zeros(graph.num_regions * 4)
    for region, table in zip(regions, tables, strict=True):
        start = graph.table_offsets[region]
        expected[start : start + 4] = table.ravel()
    np.testing.assert_array_equal(flat, expected[: len(flat)])


def pair(indices, tables):
    return (np.array(indices), np.array(tables))


WRONG = {
    "none": (None, "must be a sequence"),
    "number": (3.0, "must be a sequence"),
    "scalar array": (np.array(1, dtype=object), "single number"),
    "text": ("abc", "must be a sequence"),
    "mapping": ({0: [1, 2]}, "must be a sequence"),
    "length": ([None] * 4, r"length 3 \(the regions given\) or 5 \(all regions\); got 4"),
    "shape": ([np.zeros((2, 3)), None, None], r"region 0 must have shape \(3, 2\); got \(2, 3\)"),
    "scalar": ([None, 1.0, None], r"region 1 must have shape"),
    "ragged": ([[[1, 2], [3]], None, None], "region 0 cannot be read"),
    "object": ([None, None, np.array([None, 1])], "region 2 .*real numbers.*object"),
    "complex": ([None, None, np.array([1j, 1])], "region 2 .*complex"),
    "text entry": ([None, None, ["a", "b"]], "region 2 .*real numbers"),
    "bool": ([None, None, [True, False]], "region 2 .*bool"),
    "nan": ([None, None, [0, np.nan]], r"region 2: entry \(1,\) is nan"),
    "inf": ([None, [[0, 0], [0, INF], [0, 0]], None], r"region 1: entry \(1, 1\) is inf"),
    "large": ([None, None, [0, 1e200]], "region 2: entry .*at most"),
    "large negative": ([None, None, [0, -1e200]], "region 2: entry .*at most"),
    "flat length": (np.zeros(18), "19 in all; got 18"),
    "flat complex": (np.zeros(19, dtype=complex), "real numbers"),
    "flat nan": (np.full(19, np.nan), r"region 0: entry \(0, 0\) is nan"),
    "bulk unknown": (pair([5], np.zeros((1, 2))), "region 5 is unknown; indices go from 0 to 4"),
    "bulk negative": (pair([-1], np.zeros((1, 2))), "region -1 is unknown"),
    "bulk shape": (pair([0, 1], np.zeros((2, 3, 3))), r"region 0 has shape \(3, 2\); got tables of shape \(3, 3\)"),
    "bulk order": (pair([2, 0], np.zeros((2, 2))), "region 0 has shape"),
    "bulk number": (pair([0, 1], np.zeros((1, 3, 2))), "2 region indices but 1 tables"),
    "bulk twice": ([pair([0], np.zeros((1, 3, 2)))] * 2, "region 0 is given more than once"),
    "bulk repeated": (pair([1, 1], np.zeros((2, 3, 2))), "region 1 is given more than once"),
    "bulk dtype": (pair([0], np.zeros((1, 3, 2), dtype=complex)), "pair 0 must be real"),
    "bulk nan": (pair([1], np.full((1, 3, 2), np.nan)), "region 1"),
    "mixture": ([pair([0], np.zeros((1, 3, 2))), None, None], r"potentials\[0\] is a bulk pair but potentials\[1\]"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_potentials(graph, name, backend):
    potentials, message = WRONG[name]
    with pytest.raises(bf.PotentialError, match=message):
        bf.infer(graph, potentials, backend=backend)


def test_too_large_for_float32(graph):
    with pytest.raises(bf.PotentialError, match=r"region 2: a value is too large for float32"):
        flatten_potentials(graph, [None, None, [0, 1e60]], "float32")
    with pytest.raises(bf.PotentialError, match=r"region 2: entry .* at most 1e\+30"):
        flatten_potentials(graph, [None, None, [0, 1e35]], "float32")


def test_all_labels_forbidden(graph, backend):
    with pytest.raises(bf.SupportError, match="region"):
        bf.infer(graph, [None, None, [-INF, -INF]], backend=backend)
    with pytest.raises(bf.SupportError, match=r"model 1: .*region"):
        bf.infer([graph, graph], [[None] * 3, [None, None, [-INF, -INF]]], backend=backend)


def test_the_callers_arrays_are_not_changed(graph, backend):
    flat = flat_of(tables_of(graph))
    before = flat.copy()
    result = bf.infer(graph, flat, evidence={1: 2}, backend=backend)
    beliefs = result.beliefs.flat.copy()
    np.testing.assert_array_equal(flat, before)
    assert result.labels[1] == 2
    np.testing.assert_array_equal(beliefs, bf.infer(graph, flat, evidence={1: 2}, backend=backend).beliefs.flat)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("epsilon", [1.0, 0.0])
def test_evidence_is_the_clamped_model(backend, seed, epsilon):
    graph, tables = chain(5, 3, seed)
    evidence = {0: 1, np.int64(3): np.int32(2)}
    clamped = [t.copy() for t in tables]
    for variable, label in evidence.items():
        region = graph.regions.index((variable,))
        clamped[region][[k for k in range(3) if k != label]] = -INF
    exact = enumerate_exact(graph, flat_of(clamped), epsilon)
    result = bf.infer(graph, tables, epsilon=epsilon, counting_numbers="bethe", evidence=evidence, backend=backend)
    np.testing.assert_allclose([result.upper, result.lower], exact.value, atol=1e-9)
    assert result.labels[0] == 1
    assert result.labels[3] == 2
    if epsilon > 0:
        np.testing.assert_allclose(result.beliefs.flat, exact.marginals, atol=1e-9)


def test_all_variables_observed(backend):
    graph, tables = grid(3, 3)
    labels = np.random.default_rng(0).integers(0, 3, 9)
    result = bf.infer(graph, tables, evidence=dict(enumerate(labels.tolist())), backend=backend)
    np.testing.assert_array_equal(result.labels, labels)
    np.testing.assert_allclose([result.upper, result.lower], result.score, atol=1e-9)


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ({3: 0}, "variable 3 is unknown; variables go from 0 to 2"),
        ({-1: 0}, "variable -1 is unknown"),
        ({1: 3}, "label of variable 1 must be an integer from 0 to 2; got 3"),
        ({1: -1}, "label of variable 1"),
        ({1: 1.0}, "label of variable 1"),
        ({1: True}, "label of variable 1"),
        ({1: None}, "label of variable 1"),
        ({"a": 0}, "variable must be an integer"),
        ({None: 0}, "variable must be an integer"),
        ([(1, 0)], "must be a mapping"),
        (7, "must be a mapping"),
    ],
)
def test_wrong_evidence(graph, evidence, message):
    with pytest.raises(bf.PotentialError, match=message):
        bf.infer(graph, [None] * 3, evidence=evidence)


def test_warm_start(backend):
    graph, tables = grid(3, 3)
    cold = bf.infer(graph, tables, backend=backend, tolerance=1e-9)
    for initial in (cold, cold.messages):
        warm = bf.infer(graph, tables, initial=initial, backend=backend, tolerance=1e-9)
        assert warm.iterations == 1
        assert warm.upper <= cold.upper + 1e-12
    again = bf.infer(graph, tables, initial=cold, backend=backend, max_iterations=0)
    np.testing.assert_allclose(again.upper, cold.upper, atol=1e-12)
    np.testing.assert_allclose(again.messages.values, cold.messages.values, atol=1e-12)
    at_zero = bf.infer(graph, tables, epsilon=0, initial=cold, backend=backend)
    assert at_zero.gap <= 1e-2 * abs(at_zero.upper)
    again = bf.infer(graph, tables, epsilon=0, initial=at_zero, backend=backend)
    assert again.upper <= at_zero.upper + 1e-12
    single = bf.infer(graph, tables, dtype="float32", initial=cold, backend=backend)
    assert single.iterations == 1


def test_warm_start_over_other_edges(backend):
    """Relinking depends on the counting numbers; edges both have keep their messages."""
    rng = np.random.default_rng(0)
    graph = random_region_graph(rng, 3)
    tables = random_tables(rng, graph)
    full = bf.infer(graph, tables, counting_numbers="ones", backend=backend)
    numbers = np.array([0.0 if len(r) == 2 and p else 1.0 for r, p in zip(graph.regions, graph.parents, strict=True)])
    relinked = bf.infer(graph, tables, counting_numbers=numbers, initial=full, max_iterations=0, backend=backend)
    common = set(full.messages.edges) & set(relinked.messages.edges)
    assert common
    assert common != set(full.messages.edges)
    for edge in relinked.messages:
        expected = full.messages[edge] if edge in common else 0.0
        np.testing.assert_allclose(relinked.messages[edge], expected, atol=1e-12)


def test_wrong_initial(graph):
    result = bf.infer(graph, [None] * 3)
    other = bf.RegionGraph([2, 3, 3], [(1, 0), (1, 2), (0,)])
    with pytest.raises(bf.PotentialError, match="other variables or regions"):
        bf.infer(other, [None] * 3, initial=result)
    for wrong in (3, "zero", np.zeros(4), [result]):
        with pytest.raises(bf.PotentialError, match="initial must be"):
            bf.infer(graph, [None] * 3, initial=wrong)
    messages = result.messages
    messages.values[0] = np.nan
    with pytest.raises(bf.PotentialError, match="finite"):
        bf.infer(graph, [None] * 3, initial=messages)
