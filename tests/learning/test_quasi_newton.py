"""Forests with tree counting numbers: the exact loss of every labelling, minimised in w alone."""

import numpy as np
import pytest
from learning_models import random_problem
from scipy.optimize import minimize

import blendfield as bf
from blendfield.testing.learning_oracles import exact_objective


def optimum(examples, epsilon, C, l1=0.0, lowest=-np.inf, highest=np.inf):
    """Split in positive and negative parts, by L-BFGS-B with differences."""
    size = examples[0].features.shape[1]

    def objective(x):
        weights = x[:size] - x[size:]
        return exact_objective(examples, weights, epsilon) + 0.5 * C * float(weights @ weights) + l1 * float(x.sum())

    bounds = [(0.0, None if highest > 0 else 0.0)] * size + [(0.0, None if lowest < 0 else 0.0)] * size
    options = {"ftol": 1e-13, "gtol": 1e-7, "maxfun": 100000}
    found = minimize(objective, np.zeros(2 * size), method="L-BFGS-B", bounds=bounds, options=options)
    return float(found.fun)


@pytest.mark.parametrize(
    "options", [{}, {"l1": 0.7}, {"sign": ">=0"}, {"sign": "<=0", "l1": 0.2}, {"C": 0.0, "l1": 2.0}, {"C": 10.0}]
)
@pytest.mark.parametrize("seed", range(2))
def test_chains_reach_the_exact_optimum(seed, options):
    samples, examples = random_problem(seed, chains=True)
    C, l1, sign = options.get("C", 0.4), options.get("l1", 0.0), options.get("sign")
    signs = {">=0": {"lowest": 0.0}, "<=0": {"highest": 0.0}}.get(sign, {})
    best = optimum(examples, 0.6, C, l1, **signs)
    learner = bf.BlendedLearner(0.6, C, "bethe", tolerance=1e-8, max_iterations=500, l1=l1, sign=sign).fit(samples)
    assert learner.stop_reason_ == "converged"
    assert abs(learner.primal_ - best) <= 1e-6 * max(1.0, best)
    assert abs(learner.dual_ - best) <= 1e-6 * max(1.0, best)
    assert (np.diff(learner.history_["primal"]) <= 1e-11 * best).all()
    if sign == ">=0":
        assert (learner.weights_ >= 0).all()
    if options.get("C") == 0.0:
        assert (learner.weights_ == 0).any()
        assert (learner.weights_ != 0).any()


def test_scales_of_features_do_not_matter_much():
    rng = np.random.default_rng(0)
    samples = []
    for _ in range(30):
        graph = bf.chain_graph(6, 3)
        labels = rng.integers(3, size=6)
        x = rng.standard_normal((6, 4)) + labels[:, None]
        x *= [1.0, 30.0, 0.1, 1.0]
        blocks = [bf.TiedLinear("state", graph.single_regions, x), bf.TiedLinear("pair", range(5), np.ones((5, 1)))]
        samples.append(bf.Sample(graph, blocks, labels))
    learner = bf.BlendedLearner(1.0, 1e-3, "bethe", tolerance=1e-6, max_iterations=300).fit(samples)
    assert learner.converged_
