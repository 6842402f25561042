"""Unobserved labels: the objective is log-partition minus clamped log-partition, and never rises."""

import numpy as np
import pytest
from learning_models import random_problem
from scipy.optimize import minimize

import blendfield as bf
from blendfield.testing.learning_oracles import dense_features, exact_marginal_objective, hamming_loss


def hidden_problem(seed, chains=True, loss="hamming", share=0.4):
    """(samples, examples) with about `share` of the labels unobserved."""
    rng = np.random.default_rng(seed + 100)
    whole, examples = random_problem(seed, chains=chains, loss=loss)
    samples, partly = [], []
    for sample, example in zip(whole, examples, strict=True):
        labels = np.where(rng.random(len(example.labels)) < share, -1, example.labels)
        samples.append(bf.Sample(sample.graph, sample.features, labels, loss))
        table = np.zeros(len(example.loss)) if loss is None else hamming_loss(sample.graph, labels)
        partly.append((example.graph, dense_features(sample.graph, sample.features, 5), labels, table))
    return samples, partly


@pytest.mark.parametrize("epsilon", [1.0, 0.3])
@pytest.mark.parametrize("seed", range(2))
def test_forests_reach_a_minimum_of_the_marginal_likelihood(seed, epsilon):
    samples, examples = hidden_problem(seed)
    learner = bf.BlendedLearner(epsilon, 1.0, "bethe", tolerance=1e-9, max_iterations=3000)
    learner.fit(samples, initial=np.linspace(-0.5, 0.5, 5))
    assert learner.converged_

    def objective(weights):
        return exact_marginal_objective(examples, weights, epsilon) + 0.5 * float(weights @ weights)

    assert abs(learner.primal_ - objective(learner.weights_)) <= 1e-6 * max(1.0, abs(learner.primal_))
    nearby = minimize(objective, learner.weights_, options={"gtol": 1e-9})
    assert objective(learner.weights_) - nearby.fun <= 1e-6 * max(1.0, abs(nearby.fun))
    primal = learner.history_["primal"]
    assert (np.diff(primal) <= 1e-10 * np.abs(primal[0])).all()


@pytest.mark.parametrize(("epsilon", "spec"), [(1.0, "ones"), (0.2, "cover"), (0.0, "ones")])
def test_loopy_graphs_never_rise(epsilon, spec):
    samples, _ = hidden_problem(3, chains=False)
    limits = {"tolerance": 1e-5, "max_iterations": 2000 if epsilon > 0 else 300}
    learner = bf.BlendedLearner(epsilon, 1.0, spec, **limits).fit(samples)
    primal = learner.history_["primal"]
    assert (np.diff(primal) <= 1e-10 * np.abs(primal[0])).all() or epsilon == 0
    assert learner.converged_ or epsilon == 0
    again = bf.BlendedLearner(epsilon, 1.0, spec, **limits)
    again.fit(samples, initial=learner.weights_)
    assert again.primal_ >= learner.primal_ - 1e-2 * abs(learner.primal_)
    assert learner.gap_ >= 0


def test_everything_unobserved_but_one_is_not_the_label_zero():
    samples, _ = hidden_problem(4, chains=False, share=0.9)
    zero = [bf.Sample(s.graph, s.features, np.where(s.labels < 0, 0, s.labels)) for s in samples]
    hidden = bf.BlendedLearner(1.0, 1.0, tolerance=1e-6).fit(samples)
    shown = bf.BlendedLearner(1.0, 1.0, tolerance=1e-6).fit(zero)
    assert hidden.primal_ < shown.primal_ - 0.1


def test_observed_labels_that_no_labelling_has_are_refused():
    graph = bf.RegionGraph([2, 2], [(0, 1)])
    table = np.array([[0.0, 1.0], [-np.inf, -np.inf]])
    sample = bf.Sample(graph, [(0, 0, np.eye(2)), bf.FixedPotentials([table])], [1, -1])
    with pytest.raises(bf.LabelError, match="sample 1"):
        bf.BlendedLearner().fit([bf.Sample(graph, [(0, 0, np.eye(2))], [0, 1]), sample])


def test_a_resumed_run_goes_on_with_the_same_bits(tmp_path):
    samples, _ = hidden_problem(5, chains=False)
    options = {"epsilon": 0.5, "tolerance": 1e-7}
    whole = bf.BlendedLearner(**options, max_iterations=60)
    whole.fit(samples, checkpoint=tmp_path / "whole", checkpoint_every=10)
    part = bf.BlendedLearner(**options, max_iterations=20)
    part.fit(samples, checkpoint=tmp_path / "part", checkpoint_every=10)
    rest = bf.BlendedLearner(**options, max_iterations=60)
    rest.fit(samples, checkpoint=tmp_path / "part", checkpoint_every=10, resume=True)
    np.testing.assert_array_equal(rest.weights_, whole.weights_)
