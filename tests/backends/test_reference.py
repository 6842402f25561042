"""The reference backend against enumeration, SciPy and HiGHS."""

import numpy as np
import pytest

from blendfield.backends import Problem, get
from blendfield.backends.protocol import FloatArray
from blendfield.backends.reference import ReferenceProblem
from blendfield.errors import OptionError, SupportError
from blendfield.graph import RegionGraph
from blendfield.testing import (
    assert_close,
    build_program,
    enumerate_exact,
    joint_optimum,
    lp_optimum,
    random_forest,
    random_junction_tree,
    random_region_graph,
    random_tables,
)
from blendfield.testing.conformance import positive_numbers
from blendfield.testing.programs import Program


def compile_reference(program: Program, tables: FloatArray, epsilon: float) -> Problem:
    return get("reference").compile(program, tables, epsilon=epsilon)


def assert_between(problem: Problem, optimum: float, smoothing: float | None = None) -> None:
    """value - gap <= optimum <= value, and every number says something."""
    certificate = problem.certificate(smoothing)
    scale = max(1.0, abs(optimum))
    assert not np.isnan(certificate.gap).any()
    assert (certificate.gap >= 0.0).all()
    assert certificate.value.sum() >= optimum - 1e-7 * scale  # SciPy stops a little above the optimum, never below
    assert (certificate.value - certificate.gap).sum() <= optimum + 1e-10 * scale


@pytest.mark.parametrize("numbers", ["ones", "cover", "positive"])
@pytest.mark.parametrize("epsilon", [1.0, 0.25, 0.05])
@pytest.mark.parametrize("seed", [2, 5, 10, 20])  # plain sweeps get there within 800; on others they are slow
def test_optimum_is_that_of_the_joint_minimisation(seed: int, epsilon: float, numbers: str) -> None:
    rng = np.random.default_rng(seed)
    graph = random_region_graph(rng, 3, num_variables=4, max_labels=3)
    program = build_program(graph, positive_numbers(rng, graph) if numbers == "positive" else numbers)
    tables = random_tables(rng, graph)
    optimum = joint_optimum(graph, tables, program.counting_numbers, epsilon)
    problem = compile_reference(program, tables, epsilon)
    before = problem.value().sum()
    for _ in range(40):
        problem.sweep(20)
        assert problem.value().sum() <= before + 1e-12 * abs(before)
        before = problem.value().sum()
        assert_between(problem, optimum)
        if problem.certificate().gap.sum() < 1e-9:
            break
    assert_close(problem.value().sum(), optimum, 1e-6)


@pytest.mark.parametrize("forbidden", [0.0, 0.35])
@pytest.mark.parametrize("seed", range(8))
def test_bounds_hold_at_zero_temperature(seed: int, forbidden: float) -> None:
    rng = np.random.default_rng(seed)
    graph = random_region_graph(rng, int(rng.integers(2, 4)))
    tables = random_tables(rng, graph, forbidden=forbidden)
    optimum = lp_optimum(graph, tables)
    problem = compile_reference(build_program(graph, "cover"), tables, 1.0)
    for temperature in (1.0, 0.3, 0.1, 0.03, 0.01, 0.003):
        problem.set_epsilon(temperature)
        problem.sweep(10)
        problem.set_epsilon(0.0)
        assert_between(problem, optimum, temperature)
        score = problem.score(problem.local_search(problem.decode(), 100)).sum()
        assert score <= optimum + 1e-9
    assert problem.value().sum() <= optimum + 1e-2 * max(1.0, abs(optimum))


@pytest.mark.parametrize("numbers", ["ones", "cover"])
@pytest.mark.parametrize("seed", range(6))
def test_forbidden_labels(seed: int, numbers: str) -> None:
    rng = np.random.default_rng(seed)
    graph = random_region_graph(rng, 3)
    tables = random_tables(rng, graph, forbidden=float(rng.uniform(0.3, 0.4)))
    program = build_program(graph, numbers)
    for epsilon in (1.0, 0.25):
        optimum = joint_optimum(graph, tables, program.counting_numbers, epsilon, iterations=500)
        problem = compile_reference(program, tables, epsilon)
        for _ in range(6):
            problem.sweep(10)
            certificate = problem.certificate()
            assert (certificate.value - certificate.gap).sum() <= optimum + 1e-9 * max(1.0, abs(optimum))
        assert_close(problem.value().sum(), optimum, 1e-4)  # the infimum may lie at infinity: SciPy stops short of it
        beliefs = problem.beliefs()
        assert np.isfinite(beliefs).all()
        assert (beliefs[np.isneginf(tables)] == 0.0).all()
        marginals = enumerate_exact(graph, tables, epsilon).marginals
        assert (marginals[beliefs == 0.0] == 0.0).all()  # support is never pruned too far
        assert np.isfinite(problem.messages()).all()


@pytest.mark.parametrize("forbidden", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(5))
def test_forests_are_exact_after_one_sweep(seed: int, forbidden: float) -> None:
    rng = np.random.default_rng(seed)
    graph = random_forest(rng, num_variables=7)
    tables = random_tables(rng, graph, forbidden=forbidden)
    for epsilon in (1.0, 0.1):
        exact = enumerate_exact(graph, tables, epsilon)
        problem = compile_reference(build_program(graph, "bethe", two_pass=True), tables, epsilon)
        assert_close(problem.sweep_value(), exact.value, 1e-9)
        assert_close(problem.beliefs(), exact.marginals, 1e-9)
        assert_close(problem.certificate().spread.sum(), 0.0, 1e-9)
    exact = enumerate_exact(graph, tables, 0.0)
    problem = compile_reference(build_program(graph, "bethe", two_pass=True), tables, 0.0)
    assert_close(problem.sweep_value(), exact.value, 1e-9)
    assert_close(problem.score(problem.decode()).sum(), exact.score, 1e-9)


@pytest.mark.parametrize("forbidden", [0.0, 0.35])
@pytest.mark.parametrize("seed", range(5))
def test_junction_trees_are_exact_through_relinking(seed: int, forbidden: float) -> None:
    rng = np.random.default_rng(seed)
    graph = random_junction_tree(rng)
    tables = random_tables(rng, graph, forbidden=forbidden)
    program = build_program(graph, "bethe")
    for epsilon in (1.0, 0.25):
        exact = enumerate_exact(graph, tables, epsilon)
        problem = compile_reference(program, tables, epsilon)
        problem.sweep(60)
        assert_close(problem.value().sum(), exact.value, 1e-8)
        assert_close(problem.beliefs(), exact.marginals, 1e-8)


def test_zero_counting_numbers_reach_the_optimum_through_relinking() -> None:
    rng = np.random.default_rng(3)
    graph = RegionGraph([2, 3, 2, 3], [(0, 1, 2), (1, 2, 3), (1, 2), (0, 1), (2, 3)])
    tables = random_tables(rng, graph)
    numbers = np.array([{3: 0.5, 2: 0.0, 1: 0.5}[len(region)] for region in graph.regions])
    problem = compile_reference(build_program(graph, numbers), tables, 1.0)
    problem.sweep(200)
    assert_close(problem.certificate().gap.sum(), 0.0, 1e-6)
    almost = joint_optimum(graph, tables, np.maximum(numbers, 1e-3), 1.0)
    assert abs(problem.value().sum() - almost) < 1e-3 * np.log(graph.table_sizes).sum()


def test_segments_are_independent() -> None:
    rng = np.random.default_rng(5)
    graph = random_region_graph(rng, 3, num_variables=4, max_labels=3, parts=2)
    program = build_program(graph, "cover")
    assert program.num_segments >= 2
    tables = random_tables(rng, graph)
    changed = tables.copy()
    first = np.repeat(program.segment == 0, graph.table_sizes)
    changed[first] = random_tables(rng, graph)[first]
    problems = [compile_reference(program, t, 0.25) for t in (tables, changed)]
    for problem in problems:
        problem.sweep(7)
    certificates = [problem.certificate(region_gaps=True) for problem in problems]
    for field in ("value", "gap", "spread"):
        one, other = getattr(certificates[0], field), getattr(certificates[1], field)
        assert one.shape == (program.num_segments,)
        assert one[0] != other[0]
        assert np.array_equal(one[1:], other[1:])
    gaps = certificates[0].region_gaps
    assert gaps is not None
    assert_close(np.bincount(program.segment, gaps), certificates[0].gap, 1e-14)


def test_candidate_is_consistent() -> None:
    """Every strategy of the certificate yields a point of the local polytope."""
    from blendfield.backends.reference_certificate import consistent_beliefs

    for seed in range(20):
        rng = np.random.default_rng(seed)
        graph = random_region_graph(rng, 2 + seed % 3, max_labels=3)
        tables = random_tables(rng, graph, forbidden=0.3 if seed % 2 else 0.0)
        problem = ReferenceProblem(build_program(graph, "cover"), tables, 0.25, "float64")
        problem.sweep(2)
        candidate, failed = consistent_beliefs(problem, problem.belief_tables(0.25))
        for q in candidate:
            assert (q >= 0.0).all()
        for link in problem.links:
            if not failed[problem.program.segment[link.child]]:
                assert_close(link.down(candidate[link.parent]), candidate[link.child], 1e-12)
        assert seed % 2 or not failed.any()


def test_labels() -> None:
    graph = RegionGraph([2, 3], [(1, 0)])
    #            y_0 = 0     y_0 = 1
    pair = [[0.0, -np.inf], [5.0, -np.inf], [1.0, 2.0]]  # by y_1
    tables = np.concatenate([np.ravel(pair), [0.0, 1.0], [0.0, 0.0, 0.0]])
    problem = compile_reference(build_program(graph), tables, 1.0)
    assert problem.score(np.array([1, 0]))[0] == -np.inf
    assert problem.score(np.array([1, 2]))[0] == 3.0
    assert problem.local_search(np.array([1, 0]), 10).tolist() == [0, 1]  # out of the forbidden, then up
    assert problem.local_search(np.array([1, 2]), 10).tolist() == [1, 2]  # nothing better one step away
    assert problem.local_search(np.array([1, 0]), 0).tolist() == [1, 0]
    problem.sweep(20)
    assert problem.decode().tolist() == [0, 1]


def test_support_errors_name_the_region() -> None:
    graph = RegionGraph([2, 2], [(0, 1)])
    tables = np.array([0.0, -np.inf, -np.inf, 0.0, 0.0, -np.inf, -np.inf, 0.0])  # equal, but 0 and 1
    with pytest.raises(SupportError, match=r"region \d"):
        compile_reference(build_program(graph), tables, 1.0)
    tables = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -np.inf, -np.inf])
    with pytest.raises(SupportError, match="region 2"):
        compile_reference(build_program(graph), tables, 1.0)


def test_float32_is_rounded_storage() -> None:
    rng = np.random.default_rng(0)
    graph = random_region_graph(rng)
    program, tables = build_program(graph), random_tables(rng, graph)
    problem = get("reference").compile(program, tables, epsilon=1.0, dtype="float32")
    problem.sweep(3)
    assert problem.messages().dtype == problem.beliefs().dtype == np.float32
    same = compile_reference(program, tables, 1.0)
    same.sweep(3)
    assert_close(problem.value(), same.value(), 1e-6)
    assert not np.array_equal(problem.value(), same.value())


def test_options() -> None:
    problem = compile_reference(build_program(RegionGraph([2], [])), np.zeros(2), 0.0)
    with pytest.raises(OptionError, match="smoothing"):
        problem.certificate()
    problem.allocate_history(1)
    with pytest.raises(OptionError, match="slot 0"):
        problem.restore(0)
    with pytest.raises(OptionError, match="nonsense"):
        get("nonsense")
    assert get("reference").name == "reference"
    assert get().name in {"reference", "cpu"}
