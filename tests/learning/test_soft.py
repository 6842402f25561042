"""Soft marginalisation: gamma/2 |lambda|^2 on the messages, against a joint solution by SciPy."""

import numpy as np
import pytest
from learning_models import random_problem

import blendfield as bf
from blendfield.graph import counting_numbers
from blendfield.testing.learning_oracles import learning_optimum


@pytest.mark.parametrize(
    ("gamma", "options"),
    [(1.0, {}), (0.05, {}), (0.3, {"l1": 0.4}), (0.3, {"sign": ">=0"}), (1e-3, {"C": 5.0})],
)
@pytest.mark.parametrize("seed", range(2))
def test_primal_is_joint_optimum_is_dual(seed, gamma, options):
    samples, examples = random_problem(seed)
    numbers = [counting_numbers(sample.graph, "cover") for sample in samples]
    C, l1 = options.get("C", 0.8), options.get("l1", 0.0)
    lowest = 0.0 if options.get("sign") else -np.inf
    best = learning_optimum(examples, numbers, 0.7, C, l1=l1, lowest=lowest, gamma=gamma)
    settings = {"tolerance": 1e-8, "max_iterations": 5000, "soft_marginalisation": gamma, **options, "C": C}
    learner = bf.BlendedLearner(0.7, counting_numbers="cover", **settings).fit(samples)
    assert learner.converged_
    scale = max(1.0, abs(best.value))
    assert abs(learner.primal_ - best.value) <= 1e-6 * scale
    assert abs(learner.dual_ - best.value) <= 1e-6 * scale
    history = learner.history_
    known = ~np.isnan(history["dual"])
    assert (history["primal"] >= best.value - 1e-8 * scale).all()
    assert (history["dual"][known] <= best.value + 1e-8 * scale).all()


def test_small_strengths_lead_to_hard_marginalisation():
    samples, _ = random_problem(3)
    hard = bf.BlendedLearner(1.0, 1.0, tolerance=1e-9).fit(samples)
    near = bf.BlendedLearner(1.0, 1.0, tolerance=1e-9, max_iterations=5000, soft_marginalisation=1e-5).fit(samples)
    far = bf.BlendedLearner(1.0, 1.0, tolerance=1e-9, max_iterations=5000, soft_marginalisation=1.0).fit(samples)
    assert abs(near.primal_ - hard.primal_) <= 1e-3 * hard.primal_
    assert far.primal_ > hard.primal_ + 1e-2
    np.testing.assert_allclose(near.weights_, hard.weights_, atol=1e-2)


def test_sample_weights_count_as_copies():
    samples, _ = random_problem(7, count=2)
    first = samples[0]
    heavy = bf.Sample(first.graph, first.features, first.labels, weight=3.0)
    options = {"epsilon": 0.5, "tolerance": 1e-9, "max_iterations": 5000, "soft_marginalisation": 0.2}
    copies = bf.BlendedLearner(**options).fit([first, first, first, samples[1]])
    weighted = bf.BlendedLearner(**options).fit([heavy, samples[1]])
    assert abs(copies.primal_ - weighted.primal_) <= 1e-7 * abs(copies.primal_)
    np.testing.assert_allclose(copies.weights_, weighted.weights_, atol=1e-4)


def test_what_it_cannot_do_is_refused():
    samples, _ = random_problem(0, chains=True)
    with pytest.raises(bf.OptionError, match="epsilon > 0"):
        bf.BlendedLearner(0.0, soft_marginalisation=1.0)
    with pytest.raises(bf.CountingNumberError, match="sample 0"):
        bf.BlendedLearner(1.0, counting_numbers="bethe", soft_marginalisation=1.0).fit(samples)
