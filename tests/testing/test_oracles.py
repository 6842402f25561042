"""The oracles against plain loops, and against each other."""

import itertools

import numpy as np
import pytest

from blendfield.graph import RegionGraph
from blendfield.testing import enumerate_exact, joint_optimum, lp_optimum, random_forest, random_tables
from blendfield.testing.oracles import message_matrix, region_tables

GRAPH = RegionGraph([2, 3, 2], [(2, 0, 1), (1, 0), (2, 1)])


def scores_by_loop(tables: np.ndarray) -> dict[tuple[int, ...], float]:
    """The score of every labelling of GRAPH."""
    scores = {}
    for labels in itertools.product(*(range(n) for n in GRAPH.cardinalities)):
        terms = zip(GRAPH.regions, region_tables(GRAPH, tables), strict=True)
        scores[labels] = float(sum(table[tuple(labels[i] for i in region)] for region, table in terms))
    return scores


def test_enumeration() -> None:
    tables = random_tables(np.random.default_rng(0), GRAPH, forbidden=0.2)
    scores = scores_by_loop(tables)
    exact = enumerate_exact(GRAPH, tables, 0.5)
    partition = sum(np.exp(score / 0.5) for score in scores.values())
    assert exact.value == pytest.approx(0.5 * np.log(partition), rel=1e-12)
    assert exact.score == pytest.approx(max(scores.values()))
    assert scores[tuple(exact.labels.tolist())] == pytest.approx(exact.score)
    pair = region_tables(GRAPH, exact.marginals)[2]  # (2, 1)
    for y_2, y_1 in np.ndindex(2, 3):
        mass = sum(np.exp(s / 0.5) for labels, s in scores.items() if (labels[2], labels[1]) == (y_2, y_1))
        assert pair[y_2, y_1] == pytest.approx(mass / partition, abs=1e-12)
    assert enumerate_exact(GRAPH, tables, 0.0).value == exact.score


def test_enumeration_with_ties_at_zero_temperature() -> None:
    exact = enumerate_exact(RegionGraph([2, 2], [(0, 1)]), np.array([1.0, 0.0, 0.0, 1.0, 0, 0, 0, 0]), 0.0)
    assert exact.marginals.tolist() == [0.5, 0.0, 0.0, 0.5, 0.5, 0.5, 0.5, 0.5]
    assert exact.labels.tolist() == [0, 0]


def test_messages_do_not_change_the_score_and_marginals_are_consistent() -> None:
    rng = np.random.default_rng(1)
    tables = random_tables(rng, GRAPH)
    matrix = message_matrix(GRAPH)
    moved = tables + matrix @ rng.standard_normal(matrix.shape[1])
    before, after = scores_by_loop(tables), scores_by_loop(moved)
    assert all(after[labels] == pytest.approx(before[labels]) for labels in before)
    assert np.abs(matrix.T @ enumerate_exact(GRAPH, tables, 1.0).marginals).max() < 1e-12


@pytest.mark.parametrize("seed", range(3))
def test_joint_optimum_bounds_the_log_partition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tables = random_tables(rng, GRAPH)
    for epsilon in (1.0, 0.1):
        optimum = joint_optimum(GRAPH, tables, np.ones(GRAPH.num_regions), epsilon)
        assert optimum >= enumerate_exact(GRAPH, tables, epsilon).value - 1e-9
    assert optimum == pytest.approx(lp_optimum(GRAPH, tables), abs=0.1 * np.log(GRAPH.table_sizes).sum())
    lonely = RegionGraph([3], [])
    assert joint_optimum(lonely, np.zeros(3), np.ones(1), 1.0) == pytest.approx(np.log(3))
    with pytest.raises(ValueError, match="positive"):
        joint_optimum(GRAPH, tables, np.ones(GRAPH.num_regions), 0.0)


@pytest.mark.parametrize("seed", range(3))
def test_linear_program_is_tight_on_forests(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_forest(rng, num_variables=6)
    tables = random_tables(rng, graph, forbidden=0.3)
    assert lp_optimum(graph, tables) == pytest.approx(enumerate_exact(graph, tables, 0.0).score)


def test_linear_program_without_any_labelling() -> None:
    tables = np.array([0.0, -np.inf, -np.inf, 0.0, 0.0, -np.inf, -np.inf, 0.0])
    assert lp_optimum(RegionGraph([2, 2], [(0, 1)]), tables) == -np.inf
