"""Graphs cut into parts: the optimum of the whole, never rising on the way."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learning_models import random_problem

import blendfield as bf
from blendfield import backends
from blendfield.inference.program import build_models
from blendfield.learning.consistency import Consistency
from blendfield.learning.parts_inference import infer_in_parts
from blendfield.learning.scaling import Scaling, supported
from blendfield.model.losses import true_entries
from blendfield.testing import random_region_graph


def grid_problem(shape=(9, 9), labels=3):
    graph = bf.grid_graph(shape, labels)
    positions = np.stack(np.unravel_index(np.arange(graph.num_variables), shape), axis=1)
    return graph, np.random.default_rng(0).standard_normal(int(graph.table_offsets[-1])), positions


@pytest.mark.parametrize("exchange_every", [1, 5, 20])
@pytest.mark.parametrize("parts", [2, 3, 5])
def test_inference(parts, exchange_every):
    graph, theta, positions = grid_problem()
    options = {"epsilon": 0.3, "counting_numbers": "cover"}
    whole = bf.infer(graph, theta, tolerance=1e-11, max_iterations=4000, **options)
    found = infer_in_parts(
        graph, theta, parts, exchange_every=exchange_every, positions=positions, tolerance=1e-8, **options
    )
    assert found.converged
    assert len(found.report.entries) == parts
    assert abs(found.upper - whole.upper) <= 2e-8 * whole.upper
    assert found.lower <= whole.upper <= found.upper + 1e-9
    assert (np.diff(found.history["primal"]) <= 2e-12 * whole.upper).all()
    np.testing.assert_allclose(found.beliefs.flat, whole.beliefs.flat, atol=2e-3)
    assert found.score <= whole.score


def never_rises(found, whole):
    return (np.diff(found.history["primal"]) <= 2e-12 * max(1.0, abs(whole.upper))).all()


def triples_and_pairs(seed=3):
    """Parts share pairs, which have parents of their own in each."""
    triples = [(0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 5), (4, 5, 0)]
    pairs = [(1, 2), (2, 3), (3, 4), (4, 5)]
    graph = bf.RegionGraph([2, 3, 2, 3, 2, 2], [*triples, *pairs])
    return graph, np.random.default_rng(seed).standard_normal(int(graph.table_offsets[-1]))


@pytest.mark.parametrize("epsilon", [1.0, 0.2])
@pytest.mark.parametrize("acceleration", ["anderson", None])
def test_three_levels(acceleration, epsilon):
    graph, theta = triples_and_pairs()
    whole = bf.infer(graph, theta, epsilon, tolerance=1e-12, max_iterations=4000)
    found = infer_in_parts(
        graph, theta, 3, epsilon, exchange_every=2, acceleration=acceleration, tolerance=1e-10, max_iterations=3000
    )
    assert found.report.shared_regions > 3
    assert found.converged  # with pairs that are shared
    assert abs(found.upper - whole.upper) <= 1e-9 * abs(whole.upper)
    assert found.lower <= whole.upper * (1 + 1e-12)
    assert never_rises(found, whole)


def with_forbidden(graph, theta, share, seed):
    """A share of all joint labels forbidden, but none of one labelling."""
    rng = np.random.default_rng(seed)
    labels = np.array([rng.integers(count) for count in graph.cardinalities])
    barred = np.where(rng.random(len(theta)) < share, -np.inf, theta)
    kept = true_entries(graph, labels)[0]
    barred[kept] = theta[kept]
    return barred


@pytest.mark.parametrize("exchange_every", [1, 5])
@pytest.mark.parametrize("parts", [2, 3, 5])
@pytest.mark.parametrize("kind", ["grid", "triples"])
def test_forbidden_labels(kind, parts, exchange_every):
    if kind == "grid":
        graph, theta, positions = grid_problem((6, 6))
    else:
        (graph, theta), positions = triples_and_pairs(), None
    theta = with_forbidden(graph, theta, 0.2, seed=parts)
    whole = bf.infer(graph, theta, tolerance=1e-12, max_iterations=4000)
    found = infer_in_parts(
        graph, theta, parts, positions=positions, exchange_every=exchange_every, tolerance=1e-10, max_iterations=3000
    )
    assert found.converged
    assert abs(found.upper - whole.upper) <= 1e-9 * abs(whole.upper)
    assert found.lower <= whole.upper * (1 + 1e-12)
    assert never_rises(found, whole)
    np.testing.assert_allclose(found.beliefs.flat, whole.beliefs.flat, atol=1e-3)
    np.testing.assert_array_equal(found.beliefs.flat == 0, whole.beliefs.flat == 0)


def test_what_is_forbidden_in_one_part_is_so_in_all():
    """Neighbours must be equal, and the first label is given: every other one follows, through all parts."""
    graph = bf.chain_graph(12, 3)
    theta = np.random.default_rng(0).standard_normal(int(graph.table_offsets[-1]))
    theta[: 11 * 9] = np.tile(np.where(np.eye(3) > 0, 0.5, -np.inf).ravel(), 11)
    first = graph.table_offsets[graph.single_regions[0]]
    theta[first : first + 2] = -np.inf
    found = infer_in_parts(graph, theta, 4, positions=np.arange(12)[:, None], tolerance=1e-10)
    assert found.labels.tolist() == [2] * 12
    assert found.upper == pytest.approx(found.score, abs=1e-9)
    assert found.gap <= 1e-9
    theta[graph.table_offsets[-1] - 1] = -np.inf
    with pytest.raises(bf.SupportError, match=r"sample 0, region \d+: all labels are forbidden"):
        infer_in_parts(graph, theta, 4)


@given(st.integers(0, 10**6))
@settings(max_examples=8, deadline=None)
def test_bounds_are_bounds(seed):
    """At every moment, whatever is shared and forbidden."""
    rng = np.random.default_rng(seed)
    graph = random_region_graph(rng, int(rng.integers(2, 4)), num_variables=6)
    numbers = rng.choice([0.05, 0.5, 1.0, 2.0], graph.num_regions)
    theta = with_forbidden(graph, rng.standard_normal(int(graph.table_offsets[-1])), rng.choice([0.0, 0.1]), seed)
    epsilon = rng.choice([1.0, 0.1])
    whole = bf.infer(graph, theta, epsilon, numbers, tolerance=1e-9, max_iterations=1000)
    found = infer_in_parts(graph, theta, 3, epsilon, numbers, tolerance=1e-7, certificate_every=1, max_iterations=30)
    dual = found.history["dual"]
    slack = 1e-9 * max(1.0, abs(whole.upper))
    assert (dual[np.isfinite(dual)] <= whole.upper + slack).all()
    assert found.upper >= whole.lower - slack
    assert found.lower <= whole.upper + slack


@pytest.mark.parametrize("levels", [2, 3])
def test_scaling_and_support(levels):
    """Against the backends, which know both where labels are forbidden."""
    rng = np.random.default_rng(levels)
    graph = random_region_graph(rng, levels, num_variables=6)
    theta = with_forbidden(graph, rng.standard_normal(int(graph.table_offsets[-1])), 0.1, 0)
    program = build_models([graph], [np.ones(graph.num_regions)], 1.0, True, False).program
    problem = backends.get("cpu").compile(program, theta, epsilon=1.0, dtype="float64", threads=1)
    np.testing.assert_array_equal(supported(program, ~np.isneginf(theta)), problem.beliefs() > 0)
    problem.sweep(50)
    beliefs = problem.beliefs()
    q, between = Scaling(program).consistent(beliefs), Consistency(program)
    np.testing.assert_allclose(between.parent @ q, between.child @ q, atol=1e-12)
    np.testing.assert_allclose(q, problem.certificate(candidate=True).candidate, atol=1e-10)


@pytest.mark.parametrize(("epsilon", "forbidden"), [(1.0, 0.0), (0.1, 0.0), (1.0, 0.15)])
def test_learning(epsilon, forbidden):
    samples = random_problem(1, count=2, levels=2)[0]
    graph = bf.grid_graph((4, 5), 2)
    rng = np.random.default_rng(0)
    singles, pairs = graph.single_regions, np.arange(graph.num_given)
    labels = rng.integers(0, 2, 20)
    fixed = np.concatenate([np.zeros(4 * len(pairs)), rng.standard_normal(40)])
    fixed[np.setdiff1d(np.flatnonzero(rng.random(len(fixed)) < forbidden), true_entries(graph, labels)[0])] = -np.inf
    samples.append(
        bf.Sample(
            graph,
            [
                (0, 1, rng.standard_normal((2, 2))),
                bf.TiedLinear("tied", singles, rng.standard_normal((20, 3))),
                bf.FreeWeights("free", singles),
                bf.TableFeatures("tables", pairs, rng.standard_normal((1, 2, 2))),
                bf.TableFeatures("own tables", pairs, rng.standard_normal((len(pairs), 1, 2, 2))),
                bf.FixedPotentials(fixed),
            ],
            labels,
            weight=1.7,
        )
    )
    options = {"epsilon": epsilon, "C": 0.7, "counting_numbers": "cover", "tolerance": 1e-10, "max_iterations": 3000}
    whole = bf.BlendedLearner(**options).fit(samples)
    cut = bf.BlendedLearner(**options, parts=3, sweeps=3).fit(samples)
    assert cut.converged_
    assert abs(cut.primal_ - whole.primal_) <= 1e-9 * whole.primal_
    np.testing.assert_allclose(cut.weights_, whole.weights_, atol=2e-4)


def test_bounds_at_zero():
    graph, theta, positions = grid_problem((5, 5), 2)
    whole = bf.infer(graph, theta, epsilon=0.0, tolerance=1e-6)
    found = infer_in_parts(graph, theta, 2, 0.0, positions=positions, tolerance=1e-3, max_iterations=500)
    assert found.lower <= whole.upper + 1e-9
    assert found.upper >= whole.lower - 1e-9


def test_resume_has_the_bits_of_an_unbroken_run(tmp_path):
    samples = random_problem(1, count=3, levels=2)[0]
    options = {"parts": 2, "tolerance": 1e-9}
    unbroken = bf.BlendedLearner(**options).fit(samples, checkpoint=tmp_path / "one", checkpoint_every=5)
    bf.BlendedLearner(**options, max_iterations=7).fit(samples, checkpoint=tmp_path / "two", checkpoint_every=5)
    resumed = bf.BlendedLearner(**options).fit(samples, checkpoint=tmp_path / "two", checkpoint_every=5, resume=True)
    assert unbroken.weights_.tobytes() == resumed.weights_.tobytes()


def test_what_cannot_be_cut_is_refused():
    graph = grid_problem((2, 2), 2)[0]
    barred = [np.array([[-np.inf, 0.0], [0.0, 0.0]])] + [None] * 3
    with pytest.raises(bf.LabelError, match=r"sample 0, region 0: the true label is forbidden"):
        bf.BlendedLearner(parts=2).fit([bf.Sample(graph, [bf.FixedPotentials(barred)], [0, 0, 0, 0])])
    with pytest.raises(bf.LabelError, match=r"sample 0, variable 1: .*every label observed"):
        bf.BlendedLearner(parts=2).fit([bf.Sample(graph, [(0, 0, 1.0)], [0, -1, 0, 0])])
    with pytest.raises(bf.LabelError, match="sample 0 has no labels"):
        bf.BlendedLearner(parts=2).fit([bf.Sample(graph, [(0, 0, 1.0)])])
    numbers = np.ones(graph.num_regions)
    numbers[graph.single_regions] = 0.0
    with pytest.raises(bf.CountingNumberError, match=r"sample 0, region \d: parts share it, .* must be > 0; got 0"):
        infer_in_parts(graph, np.zeros(24), 2, 1.0, numbers)
    with pytest.raises(bf.CountingNumberError, match="sample 0"):
        bf.BlendedLearner(parts=2, counting_numbers="bethe").fit([bf.Sample(graph, [(0, 0, 1.0)], [0, 0, 0, 0])])
    with pytest.raises(bf.OptionError, match="parts"):
        bf.BlendedLearner(parts=0)
    with pytest.raises(bf.OptionError, match="soft_marginalisation and parts"):
        bf.BlendedLearner(parts=2, soft_marginalisation=0.1)
