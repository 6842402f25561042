"""method="belief-propagation": sum- and max-product, damped, generalised."""

import itertools
import warnings

import numpy as np
import pytest
from inference_models import INF, chain, check_sound, complete, grid
from scipy.special import logsumexp

import blendfield as bf
from blendfield.testing import enumerate_exact, random_forest, random_junction_tree, random_region_graph, random_tables


def wild():
    """(graph, tables): six variables that all want to differ."""
    graph = bf.RegionGraph([2] * 6, list(itertools.combinations(range(6), 2)))
    return graph, [-3 * np.eye(2)] * graph.num_given + [np.array([0, 0.1 * i]) for i in range(6)]


def textbook(graph, tables, epsilon, sweeps=300):
    """(variable beliefs, Bethe value) of parallel belief propagation on pairs, written the usual way."""
    soft = (lambda t, axis: epsilon * logsumexp(t / epsilon, axis=axis)) if epsilon else (lambda t, axis: t.max(axis))
    single = {graph.regions[r][0]: tables[r] for r in range(graph.num_regions) if len(graph.regions[r]) == 1}
    pairs = [(graph.regions[r], tables[r]) for r in range(graph.num_regions) if len(graph.regions[r]) == 2]
    to_variable = {(k, i): np.zeros(len(single[i])) for k, (pair, _) in enumerate(pairs) for i in pair}

    def to_pair(i, k):
        return single[i] + sum(m for (other, j), m in to_variable.items() if j == i and other != k)

    for _ in range(sweeps):
        to_variable = {
            (k, i): soft(table + to_pair(j, k)[(None, slice(None)) if axis == 0 else (slice(None), None)], 1 - axis)
            for k, ((a, b), table) in enumerate(pairs)
            for i, j, axis in ((a, b, 0), (b, a, 1))
        }
        to_variable = {key: m - m.max() for key, m in to_variable.items()}
    beliefs, value = {}, 0.0
    for i in single:
        hat = to_pair(i, None)
        beliefs[i] = np.exp((hat - logsumexp(hat / epsilon) * epsilon) / epsilon)
        degree = sum(i in pair for pair, _ in pairs)
        value += (1 - degree) * -(beliefs[i] * np.log(beliefs[i])).sum() * epsilon + beliefs[i] @ single[i]
    for k, ((a, b), table) in enumerate(pairs):
        hat = table + to_pair(a, k)[:, None] + to_pair(b, k)[None]
        q = np.exp((hat - logsumexp(hat / epsilon) * epsilon) / epsilon)
        value += (q * table).sum() - epsilon * (q * np.log(q)).sum()
    return beliefs, value


@pytest.mark.parametrize("epsilon", [1.0, 0.7])
def test_is_the_textbook_fixed_point(backend, epsilon):
    for seed in range(3):
        graph, tables = complete(5, 3, seed, 0.6)
        tables = [*tables, *np.random.default_rng(seed).standard_normal((5, 3))]
        beliefs, value = textbook(graph, tables, epsilon)
        for options in ({}, {"acceleration": None}, {"damping": 0.3}, {"damping": 0.6, "acceleration": None}):
            result = bf.infer(graph, tables, epsilon, method="belief-propagation", backend=backend, **options)
            assert result.converged, options
            assert not result.certified
            assert np.isnan(result.lower)
            assert np.isnan(result.gap)
            np.testing.assert_allclose(result.upper, value, atol=1e-5)
            for i, belief in beliefs.items():
                np.testing.assert_allclose(result.beliefs[int(graph.single_regions[i])], belief, atol=1e-5)
            check_sound(result)


@pytest.mark.parametrize("epsilon", [1.0, 0.3, 0.0])
def test_forests_and_junction_trees_are_exact(backend, epsilon):
    for seed in range(4):
        for make in (random_forest, random_junction_tree):
            rng = np.random.default_rng(seed)
            graph = make(rng)
            tables = random_tables(rng, graph, forbidden=0.2 if seed % 2 else 0.0)
            exact = enumerate_exact(graph, tables, epsilon)
            result = bf.infer(graph, tables, epsilon, method="belief-propagation", backend=backend)
            assert result.certified
            assert result.converged
            assert result.iterations == 1
            np.testing.assert_allclose([result.upper, result.lower], exact.value, atol=1e-9)
            if epsilon:
                np.testing.assert_allclose(result.beliefs.flat, exact.marginals, atol=1e-9)
            else:
                np.testing.assert_allclose(result.score, exact.score)


def test_max_product_finds_the_single_loop_optimum(backend):
    """On one loop a converged max-product labelling is optimal (Weiss 2000)."""
    rng = np.random.default_rng(3)
    graph = bf.RegionGraph([3] * 6, [(i, (i + 1) % 6) for i in range(6)])
    found = 0
    for _ in range(10):
        tables = random_tables(rng, graph)
        result = bf.infer(graph, tables, 0, method="belief-propagation", backend=backend)
        if result.converged:
            found += 1
            np.testing.assert_allclose(result.score, enumerate_exact(graph, tables, 0.0).score)
    assert found >= 5


def test_nested_regions_agree_when_converged(backend):
    converged = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        graph = random_region_graph(rng, 3)
        tables = random_tables(rng, graph, forbidden=0.2 if seed % 2 else 0.0, scale=0.5)
        result = bf.infer(graph, tables, method="belief-propagation", tolerance=1e-9, backend=backend)
        check_sound(result)
        if not result.converged:
            continue
        converged += 1
        for parent in range(graph.num_regions):
            for child in graph.children[parent]:
                outer, inner = graph.regions[parent], graph.regions[child]
                kept = [i for i in outer if i in inner]
                marginal = result.beliefs[parent].sum(axis=tuple(a for a, i in enumerate(outer) if i not in inner))
                marginal = marginal.transpose([kept.index(i) for i in inner])
                np.testing.assert_allclose(marginal, result.beliefs[child], atol=1e-6)
    assert converged >= 5


def test_counting_numbers_given_apply():
    graph, tables = grid(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # whoever asks for belief propagation knows that it certifies nothing
        bethe = bf.infer(graph, tables, method="belief-propagation")
        cover = bf.infer(graph, tables, method="belief-propagation", counting_numbers="cover")
    assert bethe.counting_numbers.min() < 0
    assert cover.certified
    np.testing.assert_allclose(cover.upper, bf.infer(graph, tables, counting_numbers="cover").upper, rtol=1e-6)
    damped = bf.infer(graph, tables, method="belief-propagation", counting_numbers="cover", damping=0.5)
    np.testing.assert_allclose(damped.upper, cover.upper, rtol=1e-5)


def test_strong_couplings_need_damping(backend):
    """Frustrated and strong: plain sweeps oscillate, damped ones settle, the default finds its own damping."""
    graph, tables = wild()
    options = {"method": "belief-propagation", "backend": backend, "max_iterations": 600}
    assert not bf.infer(graph, tables, acceleration=None, **options).converged
    assert bf.infer(graph, tables, damping=0.8, acceleration=None, **options).converged
    assert bf.infer(graph, tables, **options).converged


@pytest.mark.parametrize("damping", [-0.1, 1.0, 2, np.nan, INF, "half", True])
def test_wrong_damping(damping):
    with pytest.raises(bf.OptionError, match="damping"):
        bf.infer(*chain(), method="belief-propagation", damping=damping)


def test_lists_converge_model_by_model(backend):
    """An oscillating model does not keep the others from being called converged."""
    graphs, tables = zip(complete(4, 2, 0, 0.3), wild(), strict=True)
    first, second = bf.infer(
        list(graphs), list(tables), method="belief-propagation", acceleration=None, max_iterations=100, backend=backend
    )
    assert first.converged
    assert not second.converged
    assert second.stop_reason == "max_iterations"


def test_warm_start_and_threads():
    graph, tables = grid(4, 3)
    options = {"method": "belief-propagation"}
    result = bf.infer(graph, tables, **options)
    assert bf.infer(graph, tables, initial=result, **options).iterations <= 2
    one, two = (bf.infer(graph, tables, threads=n, **options) for n in (1, 2))
    np.testing.assert_array_equal(one.messages.values, two.messages.values)


@pytest.mark.parametrize("coupling", [0.5, 0.7, 1.5])
def test_mixing_does_not_find_repelling_fixed_points(coupling):
    """A magnet far below its critical temperature: the point with no preference repels plain propagation."""
    graph = bf.grid_graph((12, 12), 2)
    pairs, singles = graph.num_given, graph.num_variables
    table = np.array([[coupling, -coupling], [-coupling, coupling]])
    fields = np.random.default_rng(0).normal(scale=0.05, size=(singles, 2))
    potentials = [
        (np.arange(pairs), np.broadcast_to(table, (pairs, 2, 2)).copy()),
        (np.arange(pairs, pairs + singles), fields),
    ]
    plain = bf.infer(graph, potentials, method="belief-propagation", acceleration=None)
    mixed = bf.infer(graph, potentials, method="belief-propagation")
    assert plain.converged
    assert mixed.converged
    np.testing.assert_allclose(mixed.upper, plain.upper, rtol=1e-5)
