"""Likelihood training by gradients against the learner, enumeration and finite differences."""

import numpy as np
import pytest
from learning_models import random_problem
from scipy.optimize import minimize

import blendfield as bf
from blendfield.applications.denoising.configuration import DenoisingConfiguration
from blendfield.applications.denoising.methods import error
from blendfield.applications.denoising.model import samples
from blendfield.applications.denoising.task import experiments
from blendfield.learning import GradientTrainer, PseudoLikelihoodTrainer
from blendfield.learning.rivals.batch import Batch
from blendfield.learning.rivals.optimisers import MetaDescent
from blendfield.learning.rivals.oracles import InferenceOptions, make_oracle
from blendfield.model import WeightLayout
from blendfield.testing.learning_oracles import exact_objective


def batch_of(samples):
    return Batch(samples, range(len(samples)), WeightLayout.of_samples(samples))


def options(epsilon=1.0, **changes):
    given = {"tolerance": 1e-10, "max_iterations": 2000, "restart": True, "threads": 1, "backend": "auto"}
    return InferenceOptions(**{"epsilon": epsilon, "counting_numbers": "bethe", **given, **changes})


@pytest.mark.parametrize("epsilon", [1.0, 0.3])
@pytest.mark.parametrize("oracle", ["exact", "belief-propagation"])
def test_on_forests_the_optimum_is_that_of_the_learner(epsilon, oracle):
    samples, examples = random_problem(0, chains=True)
    rival = GradientTrainer(oracle, epsilon=epsilon, C=0.7, tolerance=1e-10).fit(samples)
    learner = bf.BlendedLearner(epsilon, 0.7, "bethe", tolerance=1e-10).fit(samples)
    assert rival.converged_
    assert abs(rival.objective_ - learner.primal_) <= 1e-8 * learner.primal_
    np.testing.assert_allclose(rival.weights_, learner.weights_, atol=1e-4)
    exact = exact_objective(examples, rival.weights_, epsilon) + 0.35 * float(rival.weights_ @ rival.weights_)
    assert abs(rival.objective_ - exact) <= 1e-9 * exact
    for ours, theirs in zip(rival.predict(samples), learner.predict(samples), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("optimiser", ["sgd", "smd"])
def test_stochastic_optimisers_come_near_the_optimum(optimiser):
    samples, _ = random_problem(1, count=20, chains=True)
    best = GradientTrainer("exact", C=2.0, tolerance=1e-10).fit(samples)
    start = best.history_["objective"][0]
    rival = GradientTrainer(
        "exact", optimiser, C=2.0, step=0.05 if optimiser == "sgd" else 2e-3, max_iterations=40
    ).fit(samples)
    assert rival.objective_ >= best.objective_ - 1e-9
    assert rival.objective_ - best.objective_ <= 1e-3 * (start - best.objective_) + 1e-3 * best.objective_
    again = GradientTrainer(
        "exact", optimiser, C=2.0, step=0.05 if optimiser == "sgd" else 2e-3, max_iterations=40
    ).fit(samples)
    np.testing.assert_array_equal(rival.weights_, again.weights_)


def test_meta_descent_is_the_formula():
    """Three steps on a quadratic, where H v is known."""
    hessian = np.array([[2.0, 0.3], [0.3, 1.0]])
    w = np.array([1.0, -2.0])
    step = MetaDescent(0.1, 0.05, 0.9)
    found, eta, v = w.copy(), np.full(2, 0.1), np.zeros(2)
    for _ in range(3):
        g = hessian @ w
        eta = eta * np.maximum(0.5, 1 - 0.05 * g * v)
        w, v = w - eta * g, 0.9 * v - eta * (g + 0.9 * hessian @ v)
        found = step(found, lambda x: (0.5 * float(x @ hessian @ x), hessian @ x))
        np.testing.assert_allclose(found, w, rtol=1e-9)


@pytest.mark.parametrize("levels", [2, 3])
def test_gradient_of_propagation_is_that_of_its_value(levels):
    samples, _ = random_problem(2, levels=levels)
    batch = batch_of(samples)
    oracle = make_oracle("belief-propagation", batch, options())
    weights = 0.3 * np.random.default_rng(0).standard_normal(5)

    def value(w):
        theta = batch.potentials(w)
        return batch.loss(oracle(theta).values, theta)

    gradient = batch.moments(oracle(batch.potentials(weights)).beliefs)
    numeric = [(value(weights + h) - value(weights - h)) / 2e-5 for h in 1e-5 * np.eye(5)]
    np.testing.assert_allclose(gradient, numeric, atol=1e-5)


@pytest.mark.parametrize("levels", [2, 3])
def test_gradient_of_the_pseudo_likelihood(levels):
    samples, examples = random_problem(3, levels=levels)
    epsilon = 0.6

    def by_hand(w):
        total = 0.0
        for sample, example in zip(samples, examples, strict=True):
            theta = example.loss + example.features @ w
            for v in range(sample.graph.num_variables):
                scores = []
                for label in range(sample.graph.cardinalities[v]):
                    y = sample.labels.copy()
                    y[v] = label
                    at = [
                        np.ravel_multi_index(y[list(r)], sample.graph.shape(k))
                        for k, r in enumerate(example.graph.regions)
                    ]
                    scores.append(theta[sample.graph.table_offsets[:-1] + at].sum())
                scores = np.array(scores) / epsilon
                top = scores.max()
                total += epsilon * (np.log(np.exp(scores - top).sum()) + top - scores[sample.labels[v]])
        return total + 0.5 * float(w @ w)

    trainer = PseudoLikelihoodTrainer(epsilon, 1.0, tolerance=1e-12).fit(samples)
    assert abs(trainer.objective_ - by_hand(trainer.weights_)) <= 1e-10 * trainer.objective_
    found = minimize(by_hand, np.zeros(5), options={"gtol": 1e-8})
    assert trainer.objective_ <= found.fun + 1e-9
    np.testing.assert_allclose(trainer.weights_, found.x, atol=1e-4)
    numeric = [(by_hand(trainer.weights_ + h) - by_hand(trainer.weights_ - h)) / 2e-5 for h in 1e-5 * np.eye(5)]
    np.testing.assert_allclose(numeric, 0.0, atol=1e-4)


def test_weights_of_samples_count_as_copies():
    samples, _ = random_problem(4, count=2)
    first, second = samples
    heavy = bf.Sample(first.graph, first.features, first.labels, weight=3.0)
    for trainer in (GradientTrainer(tolerance=1e-10), PseudoLikelihoodTrainer(tolerance=1e-10)):
        copies = trainer.fit([first, first, first, second]).weights_
        np.testing.assert_allclose(trainer.fit([heavy, second]).weights_, copies, atol=1e-5)


def test_history_stops_and_errors():
    samples, _ = random_problem(5, chains=True)
    trainer = GradientTrainer("exact", tolerance=0.0, max_iterations=3).fit(samples)
    assert trainer.stop_reason_ == "max_iterations"
    assert set(trainer.history_) == {"iteration", "objective", "dual", "passes", "seconds"}
    np.testing.assert_array_equal(trainer.history_["iteration"], [1, 2, 3])
    assert (np.diff(trainer.history_["passes"]) > 0).all()
    assert (np.diff(trainer.history_["seconds"]) > 0).all()
    assert (np.diff(trainer.history_["objective"]) < 0).all()
    seen = []
    stopped = GradientTrainer("exact", callback=lambda p: seen.append(p.iteration) or p.iteration == 2).fit(samples)
    assert stopped.stop_reason_ == "callback"
    assert seen == [1, 2]
    assert GradientTrainer("exact", time_limit=0.0).fit(samples).stop_reason_ == "time_limit"

    def interrupt(_):
        raise KeyboardInterrupt

    halted = GradientTrainer("exact", callback=interrupt).fit(samples)
    assert halted.stop_reason_ == "interrupted"
    assert np.any(halted.weights_ != 0)
    far = GradientTrainer("exact", "sgd", step=1e200, max_iterations=5).fit(samples)
    assert far.stop_reason_ == "diverged"
    for wrong in (
        {"oracle": "guess"},
        {"optimiser": "adam"},
        {"epsilon": 0.0},
        {"C": -1.0},
        {"batch_size": 0},
        {"memory": 2.0},
        {"step": np.nan},
        {"max_iterations": 1.5},
        {"callback": 3},
    ):
        with pytest.raises(bf.BlendfieldError, match=next(iter(wrong))):
            GradientTrainer(**wrong)
    with pytest.raises(bf.LabelError, match="no samples"):
        GradientTrainer().fit([])
    graph = bf.chain_graph(3, 2)
    with pytest.raises(bf.LabelError, match=r"sample 0, variable 1 .*unobserved"):
        GradientTrainer().fit([bf.Sample(graph, [(0, 0, np.ones((2, 2)))], [0, -1, 1])])
    with pytest.raises(bf.NotFittedError):
        GradientTrainer().predict(samples)


def test_quasi_newton_steps_get_past_the_fixed_points_of_propagation():
    """Started where the last call ended, propagation stays at a bad fixed point, and the objective jumps."""
    rng = np.random.default_rng(0)
    graph = bf.grid_graph((10, 10), 2)
    base = np.zeros((10, 10), int)
    base[2:7, 3:8] = 1

    def noisy():
        x = base + 0.4 * rng.standard_normal((10, 10))
        nodes = bf.TiedLinear("n", graph.single_regions, np.stack([np.ones(100), x.ravel()], 1))
        pairs = bf.TableFeatures("e", np.arange(graph.num_given), [[[1.0, -1], [-1, 1]]])
        return bf.Sample(graph, [nodes, pairs], base.ravel(), loss=None)

    samples = [noisy() for _ in range(10)]
    trained = GradientTrainer("belief-propagation", "lbfgs", max_iterations=30).fit(samples)
    assert trained.objective_ < 20
    wrong = [(found != base.ravel()).mean() for found in trained.predict(samples)]
    assert np.mean(wrong) < 0.06


def test_meta_steps_do_not_grow_with_images():
    """Gradients, and with them g v, grow with the number of pixels."""
    images = experiments(DenoisingConfiguration(size=24, copies=25), "gaussian", "B")[0].training
    rival = GradientTrainer(
        "belief-propagation",
        "smd",
        C=0.1,
        step=0.5 / (5 * 24**2),
        max_iterations=5,
        inference_tolerance=1e-3,
        inference_iterations=30,
        restart_messages=False,
    ).fit(samples(images, "tied"))
    assert rival.stop_reason_ == "max_iterations"
    assert error(rival, "tied", images) < 4  # single pixels alone: 4.6
