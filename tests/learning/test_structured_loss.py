"""F as a function of potentials: its gradient, its messages, a small network trained through it."""

import numpy as np
import pytest
from learning_models import random_problem

import blendfield as bf


def potentials_of(graphs, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(int(graph.table_offsets[-1])) for graph in graphs]


def difference(function, theta, step=1e-5):
    """The slope of sum(function) along every entry of the first graph's flat potentials, by central differences."""
    slopes = np.zeros(len(theta[0]))
    for k in range(len(slopes)):
        values = []
        for sign in (1.0, -1.0):
            moved = [table.copy() for table in theta]
            moved[0][k] += sign * step
            values.append(function(moved)[0].sum())
        slopes[k] = (values[0] - values[1]) / (2 * step)
    return slopes


@pytest.mark.parametrize("epsilon", [1.0, 0.2])
def test_gradient_on_forests(epsilon):
    samples, _ = random_problem(0, chains=True)
    graphs, labels = [s.graph for s in samples], [s.labels for s in samples]
    loss = bf.StructuredLoss(graphs, labels, epsilon, "bethe")
    theta = potentials_of(graphs)
    values, gradient = loss(theta)
    np.testing.assert_allclose(gradient[0], difference(loss, theta), atol=1e-8)
    for graph, value, own, y in zip(graphs, values, theta, labels, strict=True):
        augmented = own.copy()
        for i, region in enumerate(graph.single_regions):
            augmented[graph.table_offsets[region] : graph.table_offsets[region + 1]] += (
                np.arange(graph.cardinalities[i]) != (y[i])
            )
        exact = bf.infer(graph, augmented, epsilon, method="exact").upper
        truth = sum(
            own[graph.table_offsets[r] : graph.table_offsets[r + 1]].reshape(graph.shape(r))[tuple(y[list(region)])]
            for r, region in enumerate(graph.regions)
        )
        assert abs(value - (exact - truth)) <= 1e-9
    assert (loss.gap() <= 1e-9).all()


def test_gradient_at_optimal_messages_is_that_of_the_minimum():
    samples, _ = random_problem(1)
    graphs, labels = [s.graph for s in samples], [s.labels for s in samples]
    loss = bf.StructuredLoss(graphs, labels, 0.5, "cover", sweeps=400)
    theta = potentials_of(graphs)
    values, gradient = loss(theta)
    np.testing.assert_allclose(gradient[0], difference(loss, theta, 1e-4), atol=1e-5)
    assert (loss.gap() <= 1e-6).all()
    few = bf.StructuredLoss(graphs, labels, 0.5, "cover")
    first = few(theta)[0]
    assert (first >= values - 1e-12).all()
    assert (first - few.gap() <= values + 1e-9).all()
    for _ in range(50):
        again, _ = few(theta)  # messages stay: every call comes nearer
    assert (again <= first + 1e-12).all()
    few.restart()
    np.testing.assert_array_equal(few(theta)[0], first)


def test_one_graph_and_the_gradient_of_a_linear_model():
    samples, examples = random_problem(2)
    learner = bf.BlendedLearner(1.0, 1.0, "cover", tolerance=1e-9).fit(samples)
    total = np.zeros(5)
    for sample, example in zip(samples, examples, strict=True):
        loss = bf.StructuredLoss(sample.graph, sample.labels, 1.0, "cover", sweeps=1000)
        value, gradient = loss(learner.potentials(sample))
        assert value.shape == (1,)
        total += example.features.T @ gradient
    np.testing.assert_allclose(total, -learner.weights_, atol=1e-3)  # moments match at the optimum


def test_a_network_below():
    """Two layers in NumPy, by gradient descent: the objective falls, and the labels come out."""
    rng = np.random.default_rng(0)
    graph = bf.chain_graph(12, 2)
    pairs = graph.table_offsets[graph.single_regions[0]]
    labels = [np.repeat(rng.integers(0, 2, 4), 3) for _ in range(20)]
    # Whether a label is 1 shows in the product of two inputs: no linear model can see it.
    inputs = []
    for y in labels:
        x = rng.choice([-1.0, 1.0], (12, 2))
        x[:, 1] = np.where(y == 1, x[:, 0], -x[:, 0])
        inputs.append(x)
    loss = bf.StructuredLoss([graph] * 20, labels, 1.0, "bethe")
    hidden, out, pair = 0.5 * rng.standard_normal((3, 8)), 0.5 * rng.standard_normal((8, 2)), np.zeros((2, 2))
    history = []
    for _ in range(300):
        layers = [np.tanh(np.column_stack([x, np.ones(12)]) @ hidden) for x in inputs]
        theta = [np.concatenate([np.tile(pair.ravel(), 11), (layer @ out).ravel()]) for layer in layers]
        values, gradients = loss(theta)
        history.append(values.sum())
        step_hidden, step_out, step_pair = np.zeros_like(hidden), np.zeros_like(out), np.zeros_like(pair)
        for x, layer, gradient in zip(inputs, layers, gradients, strict=True):
            at_nodes = gradient[pairs:].reshape(12, 2)
            step_out += layer.T @ at_nodes
            step_hidden += np.column_stack([x, np.ones(12)]).T @ ((at_nodes @ out.T) * (1 - layer**2))
            step_pair += gradient[:pairs].reshape(11, 2, 2).sum(axis=0)
        for weights, step in ((hidden, step_hidden), (out, step_out), (pair, step_pair)):
            weights -= 0.01 * step
    assert history[-1] < 0.1 * history[0]
    found = [bf.infer(graph, table, counting_numbers="bethe").labels for table in theta]
    assert np.mean(np.concatenate(found) == np.concatenate(labels)) > 0.98


def test_what_it_cannot_use_is_refused():
    graph = bf.chain_graph(3, 2)
    with pytest.raises(bf.LabelError, match="expected labels for each of 2"):
        bf.StructuredLoss([graph, graph], [[0, 0, 0]])
    with pytest.raises(bf.LabelError, match=r"graph 1.*unobserved"):
        bf.StructuredLoss([graph, graph], [[0, 0, 0], [0, -1, 0]])
    loss = bf.StructuredLoss(graph, [0, 0, 1])
    with pytest.raises(bf.OptionError, match="call the loss"):
        loss.gap()
    theta = np.zeros(int(graph.table_offsets[-1]))
    theta[0] = -np.inf
    with pytest.raises(bf.LabelError, match="graph 0, region 0"):
        loss(theta)
    with pytest.raises(bf.PotentialError):
        bf.StructuredLoss(graph, [0, 0, 1])(np.zeros(3))
    with pytest.raises(bf.CountingNumberError):
        bf.StructuredLoss(bf.grid_graph((3, 3), 2), np.zeros(9, int), counting_numbers="bethe")
