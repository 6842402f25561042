"""The learner against a joint solution of the primal by SciPy, and its promises."""

import numpy as np
import pytest
from learning_models import random_problem
from scipy.optimize import minimize

import blendfield as bf
from blendfield.graph import counting_numbers
from blendfield.testing.learning_oracles import exact_objective, learning_optimum


def optimum(samples, examples, spec, epsilon, C, **options):
    numbers = [counting_numbers(sample.graph, spec) for sample in samples]
    return learning_optimum(examples, numbers, epsilon, C, **options)


def check_bounds(learner, value, tolerance=1e-9):
    """Every entry of the history encloses the optimum; the primal never rises."""
    slack = tolerance * max(1.0, abs(value))
    history = learner.history_
    assert len({len(entries) for entries in history.values()}) == 1
    assert (history["primal"] >= value - slack).all()
    known = ~np.isnan(history["dual"])
    assert known.any()
    assert (history["dual"][known] <= value + slack).all()
    assert (history["gap"][known] >= 0).all()
    assert (np.diff(history["primal"]) <= 1e-11 * abs(value)).all()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("epsilon", "spec"), [(1.0, "ones"), (0.3, "ones"), (0.1, "ones"), (1.0, "cover"), (0.3, "cover")]
)
def test_primal_is_joint_optimum_is_dual(seed, epsilon, spec):
    samples, examples = random_problem(seed)
    C = [0.1, 1.0, 10.0][seed]
    best = optimum(samples, examples, spec, epsilon, C)
    learner = bf.BlendedLearner(epsilon, C, spec, tolerance=1e-7, max_iterations=3000).fit(samples)
    assert learner.converged_
    assert learner.stop_reason_ == "converged"
    scale = max(1.0, abs(best.value))
    assert abs(learner.primal_ - best.value) <= 1e-6 * scale
    assert abs(learner.dual_ - best.value) <= 1e-6 * scale
    np.testing.assert_allclose(learner.weights_, best.weights, atol=2e-3)
    check_bounds(learner, best.value, 1e-7)


@pytest.mark.parametrize("options", [{"l1": 0.3}, {"sign": ">=0"}, {"l1": 0.2, "sign": ">=0"}])
@pytest.mark.parametrize("seed", range(2))
def test_regularisers(seed, options):
    samples, examples = random_problem(seed)
    lowest = 0.0 if options.get("sign") else -np.inf
    best = optimum(samples, examples, "ones", 0.5, 0.5, l1=options.get("l1", 0.0), lowest=lowest)
    learner = bf.BlendedLearner(0.5, 0.5, tolerance=1e-7, max_iterations=3000, **options).fit(samples)
    assert learner.converged_
    assert abs(learner.primal_ - best.value) <= 1e-6 * max(1.0, abs(best.value))
    assert (learner.weights_ >= lowest).all()
    check_bounds(learner, best.value, 1e-7)


@pytest.mark.parametrize("l1", [0.5, 3.0])
def test_pure_l1(l1):
    samples, examples = random_problem(4)
    best = optimum(samples, examples, "ones", 1.0, 0.0, l1=l1)
    learner = bf.BlendedLearner(1.0, 0.0, l1=l1, tolerance=1e-6, max_iterations=5000).fit(samples)
    assert abs(learner.primal_ - best.value) <= 1e-5 * max(1.0, abs(best.value))
    check_bounds(learner, best.value, 1e-6)
    if l1 == 3.0:
        assert (learner.weights_ == 0).any()


def test_without_any_regulariser_it_says_that_there_is_no_bound():
    samples, _ = random_problem(4)
    with pytest.warns(bf.BlendfieldWarning, match=r"5 weights \(first in the triples\) have C = 0 and l1 = 0"):
        learner = bf.BlendedLearner(1.0, 0.0, max_iterations=20).fit(samples)
    assert not learner.converged_
    assert learner.dual_ <= learner.primal_


def test_moments_match_at_the_optimum():
    samples, examples = random_problem(1)
    learner = bf.BlendedLearner(1.0, 2.0, tolerance=1e-10, max_iterations=3000).fit(samples)
    moments = np.zeros(5)
    for sample, example in zip(samples, examples, strict=True):
        theta = example.loss + example.features @ learner.weights_
        beliefs = bf.infer(sample.graph, theta, tolerance=1e-12, max_iterations=5000).beliefs.flat
        moments += example.features.T @ (beliefs - example.truth)
    np.testing.assert_allclose(moments, -2.0 * learner.weights_, atol=2e-4)


def test_the_objective_bounds_the_exact_loss():
    samples, examples = random_problem(2)
    for spec in ("ones", "cover"):
        learner = bf.BlendedLearner(0.7, 1.0, spec, tolerance=1e-8).fit(samples)
        exact = exact_objective(examples, learner.weights_, 0.7) + 0.5 * float(learner.weights_ @ learner.weights_)
        assert learner.primal_ >= exact - 1e-9


def test_temperature_scales_weights_without_loss():
    samples, _ = random_problem(3, loss=None)
    hot = bf.BlendedLearner(1.0, 0.4, tolerance=1e-11, max_iterations=5000).fit(samples)
    cold = bf.BlendedLearner(0.4, 1.0, tolerance=1e-11, max_iterations=5000).fit(samples)
    np.testing.assert_allclose(cold.weights_, 0.4 * hot.weights_, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_bounds_at_zero_and_closeness_to_small_temperatures(seed):
    samples, _ = random_problem(seed)
    zero = bf.BlendedLearner(0.0, 1.0, tolerance=1e-3, max_iterations=2000).fit(samples)
    warm = bf.BlendedLearner(0.01, 1.0, tolerance=1e-5, max_iterations=5000).fit(samples)
    entropy = sum(float(np.log(sample.graph.table_sizes).sum()) for sample in samples)
    # min F_0 <= min F_eps <= min F_0 + eps sum c log|Y|
    assert zero.dual_ <= warm.primal_ + 1e-9
    assert warm.dual_ <= zero.primal_ + 0.01 * entropy + 1e-9
    assert zero.gap_ <= 2e-2 * max(1.0, zero.primal_)


def test_double_loop_and_blend_agree():
    samples, _ = random_problem(5)
    blend = bf.BlendedLearner(1.0, 1.0, tolerance=1e-9, max_iterations=3000).fit(samples)
    kept = bf.BlendedLearner(1.0, 1.0, tolerance=1e-9, max_iterations=3000, sweeps=10).fit(samples)
    double = bf.BlendedLearner(1.0, 1.0, tolerance=1e-6, max_iterations=300, sweeps=400, restart_messages=True).fit(
        samples
    )
    plain = bf.BlendedLearner(1.0, 1.0, tolerance=1e-7, max_iterations=5000, acceleration=None).fit(samples)
    np.testing.assert_allclose(kept.weights_, blend.weights_, atol=1e-4)
    np.testing.assert_allclose(double.weights_, blend.weights_, atol=2e-3)
    np.testing.assert_allclose(plain.weights_, blend.weights_, atol=1e-3)


@pytest.mark.parametrize("epsilon", [1.0, 0.3])
def test_forests_are_trained_exactly(epsilon):
    samples, examples = random_problem(6, chains=True)
    learner = bf.BlendedLearner(epsilon, 1.0, "bethe", tolerance=1e-9, max_iterations=3000).fit(samples)
    assert learner.converged_
    found = minimize(
        lambda w: exact_objective(examples, w, epsilon) + 0.5 * float(w @ w), np.zeros(5), options={"gtol": 1e-9}
    )
    assert abs(learner.primal_ - found.fun) <= 1e-7 * found.fun
    np.testing.assert_allclose(learner.weights_, found.x, atol=1e-4)
    check_bounds(learner, float(found.fun), 1e-8)


def test_sample_weights_count_as_copies():
    samples, _ = random_problem(7, count=2)
    first = samples[0]
    heavy = bf.Sample(first.graph, first.features, first.labels, weight=3.0)
    copies = bf.BlendedLearner(0.5, 1.0, tolerance=1e-9).fit([first, first, first, samples[1]])
    weighted = bf.BlendedLearner(0.5, 1.0, tolerance=1e-9).fit([heavy, samples[1]])
    assert abs(copies.primal_ - weighted.primal_) <= 1e-7 * abs(copies.primal_)
    np.testing.assert_allclose(copies.weights_, weighted.weights_, atol=1e-4)


@pytest.mark.parametrize("epsilon", [1.0, 0.05, 0.0])
def test_same_bits_on_any_number_of_threads(epsilon):
    samples, _ = random_problem(8, count=20)
    one = bf.BlendedLearner(epsilon, 1.0, threads=1, max_iterations=40).fit(samples)
    two = bf.BlendedLearner(epsilon, 1.0, threads=2, max_iterations=40).fit(samples)
    assert (one.weights_ == two.weights_).all()
    for name in ("primal", "gap"):
        np.testing.assert_array_equal(one.history_[name], two.history_[name])


def test_prediction_and_callback():
    samples, _ = random_problem(9)
    seen = []
    learner = bf.BlendedLearner(1.0, 0.01, callback=lambda progress: seen.append(progress.iteration)).fit(samples)
    assert seen == list(range(1, learner.n_iter_ + 1))
    labels = learner.predict(samples)
    assert all(y.dtype == np.int64 and len(y) == s.graph.num_variables for y, s in zip(labels, samples, strict=True))
    one = learner.predict(samples[0])
    np.testing.assert_array_equal(one, labels[0])
    result = learner.infer(samples[1])
    beliefs = [result.beliefs[int(r)] for r in samples[1].graph.single_regions]
    np.testing.assert_array_equal([int(b.argmax()) for b in beliefs], labels[1])
    by_map = learner.predict(samples, decode="map", epsilon=0.0)
    for y, sample in zip(by_map, samples, strict=True):
        theta = learner.potentials(sample)
        np.testing.assert_array_equal(y, bf.infer(sample.graph, theta, epsilon=0.0).labels)
    stopped = bf.BlendedLearner(1.0, 1.0, callback=lambda progress: progress.iteration == 3).fit(samples)
    assert stopped.stop_reason_ == "callback"
    assert stopped.n_iter_ == 3
