"""Structured support vector machines: all reach one optimum, that of the learner at temperature zero."""

import numpy as np
import pytest
from learning_models import random_problem

import blendfield as bf
from blendfield.learning import CuttingPlaneTrainer, FrankWolfeTrainer, SubgradientTrainer
from blendfield.learning.simplex import solve_simplex
from blendfield.testing.learning_oracles import exact_objective

TRAINERS = (
    lambda **options: CuttingPlaneTrainer(tolerance=1e-7, **options),
    lambda **options: FrankWolfeTrainer(tolerance=1e-4, max_iterations=2000, batch_size=2, **options),
    lambda **options: SubgradientTrainer(tolerance=0.0, max_iterations=400, batch_size=2, **options),
    lambda **options: SubgradientTrainer(tolerance=0.0, max_iterations=400, batch_size=2, step=0.1, **options),
)


@pytest.mark.parametrize("seed", range(2))
def test_all_agree_on_chains(seed):
    samples, examples = random_problem(seed, count=6, chains=True)
    C = 3.0
    zero = bf.BlendedLearner(0.0, C, "bethe", tolerance=1e-4, max_iterations=2000).fit(samples)
    best = CuttingPlaneTrainer(C, tolerance=1e-8).fit(samples)
    assert zero.dual_ - 1e-9 <= best.objective_ <= zero.primal_ + 1e-9
    for make in TRAINERS:
        trainer = make(C=C).fit(samples)
        value = exact_objective(examples, trainer.weights_, 0.0) + 0.5 * C * float(trainer.weights_ @ trainer.weights_)
        assert abs(trainer.objective_ - value) <= 1e-9 * value
        assert -1e-9 <= trainer.objective_ - best.objective_ <= 3e-3 * best.objective_
        known = trainer.history_["dual"][~np.isnan(trainer.history_["dual"])]
        assert (known <= best.objective_ + 1e-9).all()
        assert (
            trainer.history_["objective"][np.isfinite(trainer.history_["objective"])] >= best.objective_ - 1e-9
        ).all()
        for y, sample in zip(trainer.predict(samples), samples, strict=True):
            theta = trainer.potentials(sample)
            np.testing.assert_array_equal(
                y, bf.infer(sample.graph, theta, epsilon=0.0, counting_numbers="bethe").labels
            )


def test_strengths_by_block_and_weights_of_samples():
    samples, _ = random_problem(2, count=4, chains=True)
    copies = [samples[0], *samples]
    weighted = [bf.Sample(samples[0].graph, samples[0].features, samples[0].labels, weight=2.0), *samples[1:]]
    for make in TRAINERS[:2]:
        one, two = make(C={"": 2.0}).fit(copies), make(C=2.0).fit(weighted)
        assert abs(one.objective_ - two.objective_) <= 2e-4 * one.objective_


def test_on_cycles_losses_are_lower_bounds():
    samples, examples = random_problem(3, count=4)
    for make in TRAINERS:
        trainer = make(C=1.0, time_limit=0.5).fit(samples)
        value = exact_objective(examples, trainer.weights_, 0.0) + 0.5 * float(trainer.weights_ @ trainer.weights_)
        assert trainer.objective_ <= value + 1e-9
        assert trainer.objective_ >= 0.9 * value
        labels = trainer.predict(samples)
        assert all(len(y) == s.graph.num_variables for y, s in zip(labels, samples, strict=True))


def test_the_small_problem():
    rng = np.random.default_rng(0)
    for size in (1, 2, 5, 30):
        slopes = rng.standard_normal((size, 8))
        heights = rng.standard_normal(size)
        start = np.zeros(size)
        start[0] = 1.0
        a = solve_simplex(slopes @ slopes.T, heights, start, 1e-10)
        assert abs(a.sum() - 1.0) <= 1e-12
        assert (a >= 0).all()
        gradient = heights - slopes @ slopes.T @ a
        assert gradient.max() - a @ gradient <= 2e-10


def test_errors():
    for trainer in (SubgradientTrainer, FrankWolfeTrainer, CuttingPlaneTrainer):
        with pytest.raises(bf.OptionError, match="C must be > 0"):
            trainer(C=0.0)
        with pytest.raises(bf.OptionError, match="inference_iterations"):
            trainer(inference_iterations=0)
    with pytest.raises(bf.OptionError, match="gap_every"):
        FrankWolfeTrainer(gap_every=0)
    with pytest.raises(bf.OptionError, match="step must be None or a number > 0"):
        SubgradientTrainer(step=0.0)
