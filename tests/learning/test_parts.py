"""Graphs cut into parts: the optimum of the whole, never rising on the way."""

import numpy as np
import pytest
from learning_models import random_problem

import blendfield as bf
from blendfield.learning.parts_inference import infer_in_parts


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


@pytest.mark.parametrize("acceleration", ["anderson", None])
def test_three_levels(acceleration):
    rng = np.random.default_rng(3)
    triples = [(0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 5), (4, 5, 0)]
    pairs = [(1, 2), (2, 3), (3, 4), (4, 5)]
    graph = bf.RegionGraph([2, 3, 2, 3, 2, 2], [*triples, *pairs])
    theta = rng.standard_normal(int(graph.table_offsets[-1]))
    whole = bf.infer(graph, theta, tolerance=1e-12, max_iterations=4000)
    found = infer_in_parts(graph, theta, 3, exchange_every=2, acceleration=acceleration, tolerance=0.0)
    assert found.report.shared_regions > 3
    assert abs(found.upper - whole.upper) <= 1e-9 * whole.upper
    assert not found.converged  # pairs are shared: nothing certifies them
    assert found.lower <= whole.upper
    assert (np.diff(found.history["primal"]) <= 2e-12 * whole.upper).all()


@pytest.mark.parametrize("epsilon", [1.0, 0.1])
def test_learning(epsilon):
    samples = random_problem(1, count=2, levels=2)[0]
    graph = bf.grid_graph((4, 5), 2)
    rng = np.random.default_rng(0)
    singles, pairs = graph.single_regions, np.arange(graph.num_given)
    samples.append(
        bf.Sample(
            graph,
            [
                (0, 1, rng.standard_normal((2, 2))),
                bf.TiedLinear("tied", singles, rng.standard_normal((20, 3))),
                bf.FreeWeights("free", singles),
                bf.TableFeatures("tables", pairs, rng.standard_normal((1, 2, 2))),
                bf.TableFeatures("own tables", pairs, rng.standard_normal((len(pairs), 1, 2, 2))),
                bf.FixedPotentials([None] * len(pairs) + [rng.standard_normal(2) for _ in singles]),
            ],
            rng.integers(0, 2, 20),
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
    graph, theta, _ = grid_problem((2, 2), 2)
    barred = theta.copy()
    barred[0] = -np.inf
    with pytest.raises(bf.PotentialError, match=r"sample 0, region 0: .*forbidden labels"):
        infer_in_parts(graph, barred, 2)
    with pytest.raises(bf.LabelError, match=r"sample 0, variable 1: .*every label observed"):
        bf.BlendedLearner(parts=2).fit([bf.Sample(graph, [(0, 0, 1.0)], [0, -1, 0, 0])])
    with pytest.raises(bf.LabelError, match="sample 0 has no labels"):
        bf.BlendedLearner(parts=2).fit([bf.Sample(graph, [(0, 0, 1.0)])])
    with pytest.raises(bf.CountingNumberError, match="sample 0"):
        bf.BlendedLearner(parts=2, counting_numbers="bethe").fit([bf.Sample(graph, [(0, 0, 1.0)], [0, 0, 0, 0])])
    with pytest.raises(bf.OptionError, match="parts"):
        bf.BlendedLearner(parts=0)
    with pytest.raises(bf.OptionError, match="soft_marginalisation and parts"):
        bf.BlendedLearner(parts=2, soft_marginalisation=0.1)
