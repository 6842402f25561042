"""Bounds, optima, marginals and labels against enumeration, joint optimisation and linear programming."""

import functools
import itertools

import numpy as np
import pytest
from inference_models import check_sound, complete, grid

import blendfield as bf
from blendfield.graph import counting_numbers
from blendfield.testing import (
    enumerate_exact,
    joint_optimum,
    lp_optimum,
    random_forest,
    random_junction_tree,
    random_region_graph,
    random_tables,
)


def slack(value):
    return 1e-9 * max(1.0, abs(value))


def check_bounds(result, optimum, tolerance=0.0):
    """Every entry of the history encloses the optimum, known to `tolerance`; upper never rises, lower never falls."""
    allowed = slack(optimum) + tolerance
    assert (result.history["upper"] >= optimum - allowed).all()
    assert (result.history["lower"] <= optimum + allowed).all()
    assert (np.diff(result.history["upper"]) <= 0).all()
    assert (np.diff(result.history["lower"]) >= -slack(optimum)).all()
    check_sound(result)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("epsilon", [1.0, 0.1, 3.0])
def test_forests_are_exact(backend, seed, epsilon):
    rng = np.random.default_rng(seed)
    graph = random_forest(rng)
    tables = random_tables(rng, graph)
    exact = enumerate_exact(graph, tables, epsilon)
    result = bf.infer(graph, tables, epsilon=epsilon, counting_numbers="bethe", backend=backend)
    assert result.certified
    assert result.converged
    assert result.iterations == 1
    for value in (result.upper, result.lower):
        assert abs(value - exact.value) <= slack(exact.value)
    np.testing.assert_allclose(result.beliefs.flat, exact.marginals, atol=1e-9)
    check_sound(result)


@pytest.mark.parametrize("seed", range(6))
def test_forests_find_the_best_labels_at_zero(backend, seed):
    rng = np.random.default_rng(seed)
    graph = random_forest(rng)
    tables = random_tables(rng, graph, forbidden=0.3 * (seed % 2), integer=seed == 2)
    exact = enumerate_exact(graph, tables, 0.0)
    result = bf.infer(graph, tables, epsilon=0, counting_numbers="bethe", backend=backend)
    assert result.converged
    assert result.iterations == 1
    for value in (result.upper, result.lower, result.score):
        assert abs(value - exact.score) <= slack(exact.score)
    if seed != 2:
        np.testing.assert_array_equal(result.labels, exact.labels)
    check_sound(result)


@pytest.mark.parametrize("seed", range(3))
def test_forests_with_forbidden_labels(backend, seed):
    rng = np.random.default_rng(seed)
    graph = random_forest(rng)
    tables = random_tables(rng, graph, forbidden=0.35)
    exact = enumerate_exact(graph, tables, 1.0)
    result = bf.infer(graph, tables, counting_numbers="bethe", backend=backend)
    assert abs(result.upper - exact.value) <= slack(exact.value)
    assert abs(result.lower - exact.value) <= slack(exact.value)
    np.testing.assert_allclose(result.beliefs.flat, exact.marginals, atol=1e-9)
    assert (result.beliefs.flat[np.isneginf(tables)] == 0).all()


@pytest.mark.parametrize("seed", range(6))
def test_junction_trees_are_exact(backend, seed):
    rng = np.random.default_rng(seed)
    graph = random_junction_tree(rng)
    tables = random_tables(rng, graph)
    exact = enumerate_exact(graph, tables, 0.7)
    result = bf.infer(graph, tables, epsilon=0.7, counting_numbers="bethe", backend=backend)
    assert result.certified
    assert result.converged
    assert abs(result.upper - exact.value) <= 1e-8 * max(1, abs(exact.value))
    assert abs(result.lower - exact.value) <= 1e-8 * max(1, abs(exact.value))
    np.testing.assert_allclose(result.beliefs.flat, exact.marginals, atol=1e-8)


@functools.cache
def three_levels(seed, epsilon, numbers):
    """(graph, tables, counting numbers, optimum)"""
    rng = np.random.default_rng(seed)
    graph = random_region_graph(rng, 3)
    tables = random_tables(rng, graph)
    spec = rng.uniform(0.2, 1.5, graph.num_regions) if numbers == "array" else numbers
    return graph, tables, spec, joint_optimum(graph, tables, counting_numbers(graph, spec), epsilon)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("epsilon", [1.0, 0.25, 0.05])
@pytest.mark.parametrize("numbers", ["ones", "cover", "array"])
def test_three_levels_reach_the_joint_optimum(backend, seed, epsilon, numbers):
    graph, tables, spec, optimum = three_levels(seed, epsilon, numbers)
    result = bf.infer(graph, tables, epsilon=epsilon, counting_numbers=spec, backend=backend)
    assert result.converged
    assert result.certified
    assert abs(result.upper - optimum) <= 1e-6 * max(1, abs(optimum))
    assert result.gap <= 1e-6 * max(1, abs(result.upper))
    check_bounds(result, optimum, 1e-8 * max(1, abs(optimum)))
    if numbers == "cover":  # covers every variable: above the exact value
        assert result.upper >= enumerate_exact(graph, tables, epsilon).value - slack(optimum)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("epsilon", [1.0, 0.05])
def test_forbidden_labels(backend, seed, epsilon):
    rng = np.random.default_rng(seed)
    graph = random_region_graph(rng, 3)
    tables = random_tables(rng, graph, forbidden=0.35)
    exact = enumerate_exact(graph, tables, epsilon)
    numbers = counting_numbers(graph, "cover")
    result = bf.infer(graph, tables, epsilon=epsilon, counting_numbers=numbers, backend=backend, max_iterations=200)
    check_sound(result)
    assert (np.diff(result.history["upper"]) <= 0).all()
    assert result.upper >= exact.value - slack(exact.value)
    assert result.lower <= result.upper
    assert result.score <= exact.score + slack(exact.score)
    assert result.lower >= result.score - slack(result.score)
    assert (result.beliefs.flat[np.isneginf(tables)] == 0).all()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("numbers", ["ones", "cover"])
def test_zero_temperature_against_linear_programming(backend, seed, numbers):
    rng = np.random.default_rng(seed)
    graph = random_region_graph(rng, 3) if seed < 3 else complete(6)[0]  # frustrated: not tight
    tables = random_tables(rng, graph, integer=seed % 3 == 0, forbidden=0.3 * (seed == 2))
    optimum = lp_optimum(graph, tables)
    result = bf.infer(graph, tables, epsilon=0, counting_numbers=numbers, backend=backend)
    check_bounds(result, optimum, 1e-7 * max(1, abs(optimum)))
    assert result.gap <= 1e-2 * max(1.0, abs(result.upper))
    assert result.certified
    exact = enumerate_exact(graph, tables, 0.0)
    assert result.score <= exact.score + slack(exact.score)
    assert result.score >= 0.9 * exact.score


def test_mixing_does_what_it_is_for(backend):
    graph, tables = grid(6, 2, 0, 3.0)
    options = {"tolerance": 0.0, "backend": backend, "certificate_every": 10, "max_iterations": 40, "epsilon": 3.0}
    optimum = bf.infer(graph, tables, epsilon=3.0, tolerance=1e-13, backend=backend).lower
    plain = bf.infer(graph, tables, acceleration=None, **options).history["upper"] - optimum
    mixed = bf.infer(graph, tables, acceleration=bf.Anderson(memory=8), **options).history["upper"] - optimum
    assert (plain >= -1e-9).all()
    assert mixed[-1] <= max(0.1 * plain[-1], 1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_labels_are_locally_optimal(backend, seed):
    graph, tables = grid(3, 3, seed)
    result = bf.infer(graph, tables, backend=backend)
    score = sum(float(t[tuple(result.labels[list(r)])]) for r, t in zip(graph.regions, tables, strict=True))
    assert abs(result.score - score) <= slack(score)
    for variable, label in itertools.product(range(graph.num_variables), range(3)):
        labels = result.labels.copy()
        labels[variable] = label
        other = sum(float(t[tuple(labels[list(r)])]) for r, t in zip(graph.regions, tables, strict=True))
        assert other <= score + slack(score)


@pytest.mark.parametrize("spec", ["bethe", "array"])
def test_loops_with_negative_numbers_are_not_certified(backend, spec):
    graph, tables = grid(3)
    numbers = counting_numbers(graph, "bethe") if spec == "array" else spec
    with pytest.warns(bf.BlendfieldWarning, match="region 12 .* not certified"):
        result = bf.infer(graph, tables, counting_numbers=numbers, backend=backend)
    assert not result.certified
    assert result.converged
    assert np.isnan(result.lower)
    assert np.isnan(result.gap)
    exact = enumerate_exact(graph, np.concatenate([t.ravel() for t in tables]), 1.0)
    assert abs(result.upper - exact.value) < 0.05 * abs(exact.value)
    np.testing.assert_allclose(result.beliefs.flat, exact.marginals, atol=0.1)


@pytest.mark.filterwarnings("ignore::blendfield.BlendfieldWarning")
@pytest.mark.parametrize("epsilon", [0.3, 0.0])
def test_hard_loops_end_without_nan(backend, epsilon):
    graph, tables = complete(5, 2, 1, 4.0)
    result = bf.infer(graph, tables, epsilon=epsilon, counting_numbers="bethe", backend=backend, max_iterations=150)
    assert np.isfinite(result.upper)
    check_sound(result)


@pytest.mark.filterwarnings("ignore::blendfield.BlendfieldWarning")
@pytest.mark.parametrize("epsilon", [0.3, 0.0])
def test_damping_and_mixing_make_oscillating_loops_converge(backend, epsilon):
    graph, tables = complete(8, 2, 11, 3.0)
    options = {"epsilon": epsilon, "counting_numbers": "bethe", "max_iterations": 500, "backend": backend}
    assert bf.infer(graph, tables, **options).converged
    assert not bf.infer(graph, tables, acceleration=None, **options).converged


def test_tree_reweighted(backend):
    graph, tables = grid(3)
    exact = enumerate_exact(graph, np.concatenate([t.ravel() for t in tables]), 1.0)
    result = bf.infer(graph, tables, counting_numbers="trw", backend=backend)
    assert result.converged
    assert result.upper >= exact.value
    assert 0 <= result.gap < 1e-4
    early = bf.infer(graph, tables, counting_numbers="trw", backend=backend, max_iterations=1)
    assert np.isnan(early.upper)
    assert early.lower <= result.upper + 1e-9


def test_kikuchi_squares(backend):
    """Negative numbers between the levels: converges by damping and mixing, close to exact."""
    rng = np.random.default_rng(0)
    side = 4
    index = np.arange(side * side).reshape(side, side)
    squares = [tuple(index[i : i + 2, j : j + 2].ravel().tolist()) for i in range(side - 1) for j in range(side - 1)]
    pairs = {tuple(sorted(p)) for s in squares for p in ((s[0], s[1]), (s[0], s[2]), (s[1], s[3]), (s[2], s[3]))}
    graph = bf.RegionGraph([2] * side**2, [*squares, *sorted(pairs)])
    tables = [None if len(r) == 4 else rng.standard_normal(graph.shape(k)) for k, r in enumerate(graph.regions)]
    with pytest.warns(bf.BlendfieldWarning):
        result = bf.infer(graph, tables, counting_numbers="bethe", backend=backend)
    flat = np.concatenate([np.zeros(16) if t is None else t.ravel() for t in tables])
    exact = enumerate_exact(graph, flat, 1.0)
    assert result.converged
    assert abs(result.upper - exact.value) < 1e-2 * abs(exact.value)


def test_zero_counting_numbers(backend):
    rng = np.random.default_rng(0)
    graph = bf.RegionGraph([2, 3, 2, 3], [(0, 1, 2), (1, 2, 3), (1, 2), (0, 1), (2, 3)])
    tables = random_tables(rng, graph)
    inner = np.array([{3: 0.5, 2: 0.0, 1: 0.5}[len(r)] for r in graph.regions])  # relinked
    optimum = joint_optimum(graph, tables, np.where(inner == 0, 1e-2, inner), 1.0)
    result = bf.infer(graph, tables, counting_numbers=inner, backend=backend)
    assert optimum - 1e-2 * 3 * np.log(9) <= result.upper <= optimum
    check_sound(result)
    outer = np.array([{3: 0.0, 2: 0.5, 1: 0.5}[len(r)] for r in graph.regions])
    with pytest.warns(bf.BlendfieldWarning, match="region 0"):
        result = bf.infer(graph, tables, counting_numbers=outer, backend=backend)
    np.testing.assert_allclose(result.counting_numbers[:2], 0.5e-3)
    assert result.gap <= 1e-2 * result.upper
    check_sound(result)
    with pytest.warns(bf.BlendfieldWarning, match="outer regions"):
        bf.infer(graph, tables, counting_numbers=np.zeros(graph.num_regions), backend=backend, max_iterations=5)


def test_region_gaps_sum_to_the_gap(backend):
    graph, tables = grid(3)
    result = bf.infer(graph, tables, backend=backend, max_iterations=4, certificate_every=4)
    gaps = result.region_gaps()
    assert gaps.shape == (graph.num_regions,)
    assert (gaps >= 0).all()
    np.testing.assert_allclose(gaps.sum(), result.gap, rtol=1e-6)


@pytest.mark.parametrize("epsilon", [1.0, 0.0])
def test_float32(backend, epsilon):
    graph, tables = grid(3)
    double = bf.infer(graph, tables, epsilon=epsilon, counting_numbers="cover", backend=backend)
    result = bf.infer(graph, tables, epsilon=epsilon, counting_numbers="cover", backend=backend, dtype="float32")
    assert result.beliefs.flat.dtype == np.float32
    np.testing.assert_allclose(result.upper, double.upper, rtol=1e-5)
    np.testing.assert_allclose(result.lower, double.lower, rtol=1e-5)
    check_sound(result)
