"""Labels of hard models at epsilon = 0: block moves, restarts, and labels that are proved by margin."""

import time

import numpy as np
import pytest
from inference_models import frustrated

import blendfield as bf
from blendfield.testing import enumerate_exact, random_forest, random_region_graph, random_tables


@pytest.mark.parametrize("seed", range(6))
def test_restarts_find_the_best_labelling(seed):
    graph, tables = frustrated(seed)
    best = bf.infer(graph, tables, epsilon=0, method="exact").score
    result = bf.infer(graph, tables, epsilon=0, restarts=20)
    assert result.score == pytest.approx(best, abs=1e-9)
    assert best <= result.upper + 1e-9


def test_the_same_labels_every_time_and_on_any_number_of_threads():
    graph, tables = frustrated(1, (12, 12), 4)
    results = [bf.infer(graph, tables, epsilon=0, restarts=2, threads=threads) for threads in (1, 1, 2)]
    for result in results[1:]:
        np.testing.assert_array_equal(result.labels, results[0].labels)


def test_restarts_end_with_the_time():
    graph, tables = frustrated(2, (40, 40), 5)
    started = time.perf_counter()
    result = bf.infer(graph, tables, epsilon=0, restarts=10**9, time_limit=0.3)
    assert time.perf_counter() - started < 20  # seconds of a busy machine
    assert result.stop_reason == "time_limit"


def test_restarts_tell_the_callback():
    graph, tables = frustrated(2, (12, 12), 5)
    seen = []

    def watch(progress):
        seen.append(progress)
        return len(seen) == 4

    result = bf.infer(graph, tables, epsilon=0, restarts=10**9, max_iterations=10, callback=watch)
    assert result.stop_reason == "callback"
    assert [progress.iteration for progress in seen] == [10, 10, 10, 10]
    assert seen[0].lower <= seen[-1].lower == result.lower


def test_nothing_is_searched_for_when_the_bounds_meet():
    rng = np.random.default_rng(0)
    graph = random_forest(rng)
    result = bf.infer(graph, random_tables(rng, graph), epsilon=0, counting_numbers="bethe", restarts=10**9)
    assert result.converged
    assert result.iterations == 1


def test_the_bound_is_at_least_that_without_messages():
    graph, tables = frustrated(3)
    result = bf.infer(graph, tables, epsilon=0, max_iterations=1)
    assert result.upper <= sum(table.max() for table in tables) + 1e-9


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("make", [random_region_graph, random_forest])
@pytest.mark.parametrize("numbers", ["ones", "cover", "bethe"])
def test_certain_labels_are_those_of_every_best_labelling(seed, make, numbers):
    rng = np.random.default_rng(seed)
    graph = make(rng)
    if numbers == "bethe" and make is not random_forest:
        numbers = rng.uniform(0.2, 1.0, graph.num_regions)
    tables = random_tables(rng, graph, forbidden=0.2 * (seed % 3 == 0), integer=seed % 2 == 0)
    dtype = "float32" if seed % 4 == 1 else "float64"
    result = bf.infer(graph, tables, epsilon=0, counting_numbers=numbers, dtype=dtype)
    best = enumerate_exact(graph, tables, 0.0).marginals  # uniform over the best labellings
    starts = graph.table_offsets[graph.single_regions]
    shared = best[starts + result.labels] > 1.0 - 1e-9
    assert not (result.certain & ~shared).any()
    if make is random_forest and seed % 2:  # one best labelling, exact messages
        assert result.certain.all()


def test_certain_by_margin_though_the_bounds_do_not_meet():
    """A frustrated triangle, and a variable far from it with a clear label."""
    graph = bf.RegionGraph([2] * 5, [(0, 1), (1, 2), (0, 2), (3, 4), (2, 3)])
    differ, weak = 1.0 - np.eye(2), 0.01 * np.eye(2)
    tables = [differ, differ, differ, weak, weak]
    singles = [np.zeros(2) for _ in range(graph.num_regions - 5)]
    singles[3] = singles[4] = np.array([0.0, 9.0])
    result = bf.infer(graph, tables + singles, epsilon=0)
    assert result.upper - result.score > 0.5
    assert result.certain.tolist() == [False, False, False, True, True]
    assert not bf.infer(graph, tables + singles).certain.any()  # at epsilon > 0 nothing is
