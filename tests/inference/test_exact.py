"""method="exact": elimination of variables against enumeration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inference_models import INF, chain, check_sound, complete, grid
from scipy.special import logsumexp

import blendfield as bf
from blendfield.testing import (
    enumerate_exact,
    random_forest,
    random_grid,
    random_junction_tree,
    random_region_graph,
    random_tables,
)

EXACT = {"method": "exact"}
MAKERS = (
    random_region_graph,
    random_forest,
    lambda rng: random_junction_tree(rng, num_cliques=3),
    lambda rng: random_grid(rng, (3, 3)),
    lambda rng: random_region_graph(rng, 4, num_variables=6, max_labels=3, edges="variables"),
)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from(MAKERS),
    st.sampled_from([1.0, 0.3, 0.0]),
    st.sampled_from([0.0, 0.3, 0.8]),
    st.booleans(),
    st.sampled_from(["cpu", "reference"]),
)
def test_is_enumeration(seed, make, epsilon, forbidden, integer, backend):
    rng = np.random.default_rng(seed)
    graph = make(rng)
    tables = random_tables(rng, graph, forbidden=forbidden, integer=integer)
    exact = enumerate_exact(graph, tables, epsilon)
    result = bf.infer(graph, tables, epsilon, backend=backend, **EXACT)
    check_sound(result)
    assert result.upper == result.lower
    assert result.gap == 0.0
    assert result.certified
    assert result.converged
    assert result.iterations == 1
    assert np.isnan(result.counting_numbers).all()
    assert (result.region_gaps() == 0).all()
    np.testing.assert_allclose(result.upper, exact.value, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(result.beliefs.flat, exact.marginals, atol=1e-11)
    if epsilon == 0:
        assert result.score == result.upper
        singles = [result.beliefs[r] for r in graph.single_regions.tolist()]
        alone = [q[label] > 1 - 1e-9 for q, label in zip(singles, result.labels, strict=True)]
        np.testing.assert_array_equal(result.certain, alone)
    else:
        assert not result.certain.any()


@pytest.mark.parametrize("epsilon", [1.0, 0.0])
def test_evidence_clamps(backend, epsilon):
    graph, tables = complete(5, 3, 3)
    evidence = {1: 2, 4: 0}
    result = bf.infer(graph, tables, epsilon, evidence=evidence, backend=backend, **EXACT)
    flat = np.concatenate([*(table.ravel() for table in tables), np.zeros(15)])
    for variable, label in evidence.items():
        start = int(graph.table_offsets[graph.single_regions[variable]])
        kept = flat[start + label]
        flat[start : start + 3] = -INF
        flat[start + label] = kept
    exact = enumerate_exact(graph, flat, epsilon)
    assert result.upper == pytest.approx(exact.value, abs=1e-11)
    np.testing.assert_allclose(result.beliefs.flat, exact.marginals, atol=1e-11)


def test_ties_go_to_the_lowest_label(backend):
    graph = bf.RegionGraph([3, 2, 4], [(0, 1), (1, 2)])
    result = bf.infer(graph, [None, None], 0, backend=backend, **EXACT)
    assert result.labels.tolist() == [0, 0, 0]
    np.testing.assert_allclose(result.beliefs[0], np.full((3, 2), 1 / 6))
    # 0.1 + 0.2 and 0.3 are the same but for rounding.
    tables = [np.array([[0.3, 0.0], [0.1, 0.0], [0.0, 0.0]]), np.zeros((2, 4)), np.array([0.0, 0.2, 0.0])]
    result = bf.infer(bf.RegionGraph([3, 2, 4], [(0, 1), (1, 2), (0,)]), tables, 0, backend=backend, **EXACT)
    assert result.labels[0] == 0


def test_many_models_at_once(backend):
    models = [complete(5, 3, 1), chain(6, 2, 2), grid(3, 2, 3)]
    graphs, tables = [m[0] for m in models], [m[1] for m in models]
    for epsilon in (1.0, 0.0):
        results = bf.infer(graphs, tables, epsilon, evidence=[None, {2: 1}, None], backend=backend, **EXACT)
        for k, result in enumerate(results):
            observed = {2: 1} if k == 1 else None
            alone = bf.infer(graphs[k], tables[k], epsilon, evidence=observed, backend=backend, **EXACT)
            assert result.upper == alone.upper
            np.testing.assert_array_equal(result.labels, alone.labels)
            np.testing.assert_array_equal(result.beliefs.flat, alone.beliefs.flat)


def test_contradictions_are_found_wherever_they_are(backend):
    """No table shows it alone: three variables with two labels that must all differ."""
    graph = bf.RegionGraph([2, 2, 2, 2], [(0, 1), (1, 2), (0, 2)])
    differ = [np.where(np.eye(2) > 0, -INF, 0.0)] * 3
    for epsilon in (1.0, 0.0):
        with pytest.raises(bf.SupportError, match=r"^region [012]: every label is forbidden"):
            bf.infer(graph, differ, epsilon, backend=backend, **EXACT)
        with pytest.raises(bf.SupportError, match=r"^model 1: region [012]: every"):
            bf.infer([graph] * 2, [[None] * 3, differ], epsilon, backend=backend, **EXACT)
    with pytest.raises(bf.SupportError, match=r"^model 1: region [012]: every"):
        bf.infer([graph] * 2, [[None] * 3, [None, None, np.full((2, 2), -INF)]], backend=backend, **EXACT)


def test_the_same_bits_for_any_number_of_threads():
    graph = bf.grid_graph((14, 15), 2)
    tables = np.random.default_rng(0).standard_normal(int(graph.table_offsets[-1]))
    for epsilon in (1.0, 0.0):
        results = [bf.infer(graph, tables, epsilon, threads=n, **EXACT) for n in (1, 2, 3)]
        for result in results[1:]:
            assert result.upper == results[0].upper
            np.testing.assert_array_equal(result.beliefs.flat, results[0].beliefs.flat)
            np.testing.assert_array_equal(result.labels, results[0].labels)


def test_large_tables_in_pieces():
    """Against the transfer matrix of a strip: tables large enough to be split."""
    height, width = 14, 6
    graph = bf.grid_graph((height, width), 2)
    rng = np.random.default_rng(1)
    tables = [rng.standard_normal(graph.shape(r)) for r in range(graph.num_regions)]
    result = bf.infer(graph, tables, **EXACT)
    rotated = bf.infer(graph, tables, evidence={}, backend="cpu", counting_numbers="bethe", **EXACT)
    assert rotated.upper == result.upper
    states = np.array(list(np.ndindex(*[2] * width)))
    table = dict(zip(graph.regions, tables, strict=True))
    message = np.zeros(len(states))
    for row in range(height):
        at = np.arange(width) + row * width
        inside = sum(table[(int(i),)][states[:, a]] for a, i in enumerate(at))
        pairs = [table[(int(at[a]), int(at[a + 1]))] for a in range(width - 1)]
        inside = inside + sum(pair[states[:, a], states[:, a + 1]] for a, pair in enumerate(pairs))
        if row:
            down = [table[(int(i - width), int(i))] for i in at]
            step = sum(pair[states[:, a][:, None], states[:, a]] for a, pair in enumerate(down))
            message = np.logaddexp.reduce(message[:, None] + step, axis=0)
        message = message + inside
    assert result.upper == pytest.approx(np.logaddexp.reduce(message), rel=1e-13)


def test_wide_variables(backend):
    """Rows that are cut into parts: more labels than are run through at once."""
    rng = np.random.default_rng(0)
    sizes = (1500, 3, 1100) if backend == "cpu" else (40, 3, 30)
    graph = bf.RegionGraph(sizes, [(0, 1), (1, 2), (2, 0)])
    tables = [rng.standard_normal(graph.shape(r)) for r in range(graph.num_regions)]
    result = bf.infer(graph, tables, backend=backend, **EXACT)
    joint = tables[0][:, :, None] + tables[1][None] + tables[2].T[:, None]
    joint = joint + tables[3][:, None, None] + tables[4][:, None] + tables[5]
    value = logsumexp(joint)
    assert result.upper == pytest.approx(value, rel=1e-13)
    np.testing.assert_allclose(result.beliefs[0], np.exp(joint - value).sum(axis=2), atol=1e-13)


def test_long_chains_lose_no_digits():
    length = 30_000
    graph = bf.chain_graph(length, 3)
    tables = np.random.default_rng(0).standard_normal(int(graph.table_offsets[-1]))
    result = bf.infer(graph, tables, **EXACT)
    bethe = bf.infer(graph, tables, counting_numbers="bethe")
    assert result.upper == pytest.approx(bethe.upper, rel=1e-13)
    np.testing.assert_allclose(result.beliefs.flat, bethe.beliefs.flat, atol=1e-10)
    best = bf.infer(graph, tables, 0, **EXACT)
    assert best.score == pytest.approx(bf.infer(graph, tables, 0, counting_numbers="bethe").score, rel=1e-13)


def test_float32_and_extreme_temperatures(backend):
    graph, tables = grid(3, 3)
    exact = bf.infer(graph, tables, backend=backend, **EXACT)
    single = bf.infer(graph, tables, dtype="float32", backend=backend, **EXACT)
    assert single.upper == pytest.approx(exact.upper, rel=1e-6)
    assert single.beliefs.flat.dtype == np.float32
    cold = bf.infer(graph, tables, 1e-90, backend=backend, **EXACT)
    assert cold.upper == pytest.approx(bf.infer(graph, tables, 0, backend=backend, **EXACT).upper, rel=1e-12)
    hot = bf.infer(graph, tables, 1e90, backend=backend, **EXACT)
    assert hot.upper == pytest.approx(1e90 * 9 * np.log(3), rel=1e-12)


def test_memory_is_known_before_any_is_taken():
    graph = bf.grid_graph((34, 34), 2)
    with pytest.raises(bf.NotEnoughMemoryError, match="exact inference would need about"):
        bf.infer(graph, [None] * graph.num_given, **EXACT)
    small = bf.grid_graph((10, 10), 2)
    with pytest.raises(bf.NotEnoughMemoryError, match=r"need about .* KiB of memory; memory_limit is 20\.0 KiB"):
        bf.infer(small, [None] * small.num_given, memory_limit=20 << 10, **EXACT)
    assert bf.infer(small, [None] * small.num_given, memory_limit=4 << 20, **EXACT).converged
    hopeless = bf.RegionGraph([2] * 300, [(i, j) for i in range(300) for j in range(i)])
    with pytest.raises(bf.NotEnoughMemoryError, match=r"about 2\^30\d bytes"):
        bf.infer(hopeless, [None] * hopeless.num_given, **EXACT)


def test_evidence_and_forbidden_labels_make_tables_smaller():
    """A grid far too wide, cut by an observed column; and one whose labels are nearly all forbidden."""
    graph = bf.grid_graph((60, 41), 2)
    tables = np.random.default_rng(0).standard_normal(int(graph.table_offsets[-1]))
    observed = {60 * 0 + row * 41 + column: 1 for row in range(60) for column in range(0, 41, 5)}
    assert bf.infer(graph, tables, evidence=observed, **EXACT).converged


def test_stopping(monkeypatch):
    from blendfield.inference import exact

    graph, tables = grid(6, 3)
    seen = []
    bf.infer(graph, tables, callback=seen.append, **EXACT)
    assert [progress.gap for progress in seen] == [0.0]
    none = bf.infer(graph, tables, max_iterations=0, **EXACT)
    assert (none.iterations, none.stop_reason, none.converged) == (0, "max_iterations", False)
    check_sound(none)
    monkeypatch.setattr(exact, "SLICE", 1.0)
    late = bf.infer(graph, tables, time_limit=0.0, **EXACT)
    assert (late.stop_reason, late.upper, late.lower) == ("time_limit", INF, -INF)
    check_sound(late)

    def interrupt(progress):
        raise KeyboardInterrupt

    stopped = bf.infer(graph, tables, callback=interrupt, **EXACT)
    assert stopped.stop_reason == "converged"
