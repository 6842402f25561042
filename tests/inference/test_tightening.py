"""Tighter bounds on the best score: rounds with larger and larger regions."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inference_models import frustrated

import blendfield as bf
from blendfield.testing import enumerate_exact, random_region_graph, random_tables


@settings(deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10_000),
    rounds=st.integers(1, 3),
    numbers=st.sampled_from(["ones", "cover", "trw", "bethe"]),
    dtype=st.sampled_from(["float64", "float32"]),
)
@pytest.mark.filterwarnings("ignore::blendfield.BlendfieldWarning")
def test_no_labelling_is_above_the_bound(seed, rounds, numbers, dtype):
    rng = np.random.default_rng(seed)
    graph = random_region_graph(rng)
    if numbers == "trw" and graph.region_orders.max() > 2:
        numbers = "ones"
    tables = random_tables(rng, graph, forbidden=0.2 * (seed % 3 == 0), integer=seed % 2 == 0)
    options = {"epsilon": 0, "counting_numbers": numbers, "dtype": dtype, "max_iterations": 30}
    best = enumerate_exact(graph, tables, 0.0).value
    result = bf.infer(graph, tables, tighten=rounds, **options)
    error = 1e-9 if dtype == "float64" else 1e-4 * (1 + abs(best))
    assert result.certified
    assert result.lower == result.score <= best + error
    assert best <= result.upper + error
    assert result.gap == result.upper - result.lower >= 0
    plain = bf.infer(graph, tables, **options)
    assert result.score >= plain.score - error
    if plain.certified:
        assert result.upper <= max(plain.upper, result.score) + error
    if seed % 2 == 0:
        assert result.upper == np.rint(result.upper)


def test_it_proves_what_the_relaxation_cannot():
    graph, tables = frustrated(1, (6, 6), 4)
    best = bf.infer(graph, tables, epsilon=0, method="exact").score
    loose = bf.infer(graph, tables, epsilon=0)
    tight = bf.infer(graph, tables, epsilon=0, tighten=10)
    assert loose.upper > best + 0.01
    assert tight.converged
    assert tight.score == pytest.approx(best, abs=1e-9)
    assert tight.upper == pytest.approx(best, abs=1e-5)
    assert tight.history["upper"][-1] == tight.upper


def test_every_round_helps():
    graph, tables = frustrated(1, (8, 8), 4)
    uppers = [bf.infer(graph, tables, epsilon=0, tighten=rounds, max_iterations=150).upper for rounds in range(3)]
    assert uppers == sorted(uppers, reverse=True)
    assert uppers[-1] < uppers[0] - 0.1


def test_the_score_of_whole_numbers_is_whole():
    """A frustrated triangle: the relaxation says 3, no labelling has more than 2."""
    differ = 1.0 - np.eye(2)
    graph = bf.RegionGraph([2] * 3, [(0, 1), (1, 2), (0, 2)])
    assert bf.infer(graph, [differ] * 3, epsilon=0).upper == pytest.approx(3.0)
    assert bf.infer(graph, [differ] * 3, epsilon=0, tighten=1).upper == 2.0
    assert bf.infer(graph, [0.3 * differ] * 3, epsilon=0, tighten=1).upper == pytest.approx(0.6)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_many_models_with_evidence(backend):
    models = [frustrated(seed, (3, 4), 2) for seed in range(3)]
    graphs, tables = [graph for graph, _ in models], [table for _, table in models]
    evidence = [{0: 1}, {}, {5: 0, 6: 1}]
    results = bf.infer(graphs, tables, epsilon=0, tighten=3, evidence=evidence, backend=backend)
    for result, graph, table, observed in zip(results, graphs, tables, evidence, strict=True):
        best = bf.infer(graph, table, epsilon=0, method="exact", evidence=observed).score
        assert result.upper == pytest.approx(best, abs=1e-5)
        assert result.score == pytest.approx(best, abs=1e-9)
        assert all(result.labels[variable] == label for variable, label in observed.items())


def test_the_same_on_any_number_of_threads():
    graph, tables = frustrated(3, (7, 7), 3)
    results = [
        bf.infer(graph, tables, epsilon=0, tighten=2, restarts=1, max_iterations=50, threads=threads)
        for threads in (1, 2, 3)
    ]
    for result in results[1:]:
        assert result.upper == results[0].upper
        np.testing.assert_array_equal(result.labels, results[0].labels)
        np.testing.assert_array_equal(result.beliefs[0], results[0].beliefs[0])


def test_it_ends_with_the_time_and_with_the_memory():
    graph, tables = frustrated(2, (20, 20), 4)
    started = time.perf_counter()
    result = bf.infer(graph, tables, epsilon=0, tighten=10**6, restarts=10**9, time_limit=0.5)
    assert time.perf_counter() - started < 20  # seconds of a busy machine
    assert result.stop_reason == "time_limit"
    little = bf.infer(graph, tables, epsilon=0, tighten=10**6, max_iterations=10, memory_limit=3_000_000)
    assert little.upper >= little.score


def test_the_callback_may_stop_it():
    graph, tables = frustrated(2, (7, 7), 4)
    seen = []

    def watch(progress):
        seen.append(progress)
        return progress.iteration == 10 and len(seen) == 4

    result = bf.infer(graph, tables, epsilon=0, tighten=10, max_iterations=10, callback=watch)
    assert result.stop_reason == "callback"
    assert seen[-1].upper == result.upper


@pytest.mark.parametrize("options", [{"epsilon": 1}, {"method": "exact"}, {"method": "belief-propagation"}])
def test_only_where_there_is_a_bound_to_tighten(options):
    graph, tables = frustrated(0, (2, 2), 2)
    with pytest.raises(bf.OptionError, match="tighten"):
        bf.infer(graph, tables, **{"epsilon": 0, "tighten": 1, **options})


def test_no_labelling_at_all():
    """Arc consistency does not notice, larger regions do."""
    forbid = np.where(np.eye(2) > 0, -np.inf, 0.0)
    graph = bf.RegionGraph([2] * 3, [(0, 1), (1, 2), (0, 2)])
    with pytest.raises(bf.SupportError, match="every labelling is forbidden"):
        bf.infer(graph, [forbid] * 3, epsilon=0, tighten=2)
