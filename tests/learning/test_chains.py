"""Chains with one pair table: the same numbers as compiled in the general way."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import blendfield as bf
from blendfield.engines.protocol import Request
from blendfield.learning.chains import chain_chunk, passes
from blendfield.learning.chunk import Chunk
from blendfield.model import WeightLayout


def chain_samples(seed=0, lengths=(4, 1, 6, 4, 2), labels=3, width=5, sparse=False, loss="hamming", scale=1.0):
    rng = np.random.default_rng(seed)
    samples = []
    for k, length in enumerate(lengths):
        graph = bf.chain_graph(length, labels)
        features = scale * rng.standard_normal((length, width)) * (rng.random((length, width)) < 0.7)
        blocks = [
            bf.TiedLinear("nodes", graph.single_regions, csr_array(features) if sparse else features),
            bf.TiedLinear("steps", np.arange(length - 1), np.ones((length - 1, 2)) * [1.0, 0.5]),
            bf.FreeWeights("first", graph.single_regions[:1]),
        ]
        weight = 1.0 + (k % 2)
        samples.append(bf.Sample(graph, blocks, rng.integers(0, labels, length), loss, weight))
    return samples


def both(samples, epsilon):
    layout = WeightLayout.of_samples(samples)
    fast = chain_chunk(samples, layout, "bethe", epsilon)
    assert fast is not None
    return fast, Chunk(samples, layout, "bethe", epsilon), layout.size


@pytest.mark.parametrize("epsilon", [1.0, 0.1, 0.01])
@pytest.mark.parametrize("sparse", [False, True])
def test_values_gradients_and_certificates(epsilon, sparse):
    samples = chain_samples(sparse=sparse, scale=3.0)
    fast, general, size = both(samples, epsilon)
    weights = np.random.default_rng(1).standard_normal(size)
    ours, theirs = (chunk.iterate(Request(weights=weights, curvature=True)) for chunk in (fast, general))
    assert abs(ours.value - theirs.value) <= 1e-12 * abs(theirs.value)
    np.testing.assert_allclose(ours.gradient, theirs.gradient, atol=1e-10)
    assert (ours.curvature >= -1e-12).all()
    direction = np.random.default_rng(2).standard_normal(size)
    steps = np.array([0.5, 0.1])
    ours, theirs = (chunk.trial(weights, direction, steps, None).value for chunk in (fast, general))
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    general.iterate(Request(weights=weights))
    ours, theirs = (chunk.certificate(weights, epsilon, epsilon) for chunk in (fast, general))
    assert abs(ours.value - theirs.value) <= 1e-12 * abs(theirs.value)
    assert abs(ours.divergence - theirs.divergence) <= 1e-8
    np.testing.assert_allclose(ours.moments, theirs.moments, atol=1e-8)


def test_certificate_at_zero():
    samples = chain_samples()
    fast, general, size = both(samples, 0.0)
    weights = np.random.default_rng(1).standard_normal(size)
    general.set_epsilon(0.05)
    general.iterate(Request(weights=weights))
    ours, theirs = (chunk.certificate(weights, 0.0, 0.05) for chunk in (fast, general))
    assert ours.divergence > 0
    np.testing.assert_allclose(ours.moments, theirs.moments, atol=1e-9)
    # On the way from 0.05 to 0 the general chunk keeps its messages, so that its value is an upper bound only.
    dual = [answer.value - answer.divergence for answer in (ours, theirs)]
    assert abs(dual[0] - dual[1]) <= 1e-9
    best = sum(
        s.weight * bf.infer(s.graph, theta, epsilon=0.0, counting_numbers="bethe").upper
        for s, theta in zip(samples, potentials(samples, weights), strict=True)
    )
    true = fast.true_moments @ weights + fast.true_base
    assert abs(ours.value - (best - true)) <= 1e-9
    again = fast.iterate(Request(weights=weights))
    assert abs(again.value - ours.value) <= 1e-12
    # The gradient is that of the best labelling: a subgradient.
    step = 1e-6 * np.random.default_rng(3).standard_normal(size)
    moved = fast.iterate(Request(weights=weights + step))
    assert moved.value >= again.value + again.gradient @ step - 1e-12


def potentials(samples, weights):
    from blendfield.learning.compile import potentials_of

    layout = WeightLayout.of_samples(samples)
    return [potentials_of(sample, layout, weights, loss=True) for sample in samples]


def test_logarithmic_passes_are_the_scaled_ones():
    rng = np.random.default_rng(0)
    positions = passes.Positions(np.array([3, 7, 1, 7]))
    u, t, weights = 5 * rng.standard_normal((4, 18)), 5 * rng.standard_normal((4, 4)), rng.random(18)
    one, two = passes.scaled_passes(u, t, positions, weights), passes.logarithmic_passes(u, t, positions, weights)
    for name in ("values", "nodes", "pairs"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-10, atol=1e-14)
    wide = passes.logarithmic_passes(1e4 * u, 1e4 * t, positions, weights)
    assert np.isfinite(wide.values).all()
    np.testing.assert_allclose(wide.nodes.sum(axis=0), 1.0)
    best, labels = passes.best_labels(1e4 * u, 1e4 * t, positions)
    np.testing.assert_allclose(wide.values, best, rtol=1e-12)
    np.testing.assert_array_equal(wide.nodes.argmax(axis=0), labels)


@pytest.mark.parametrize("epsilon", [1.0, 0.2])
def test_learning_reaches_the_same_optimum(epsilon, monkeypatch):
    samples = chain_samples(lengths=(5, 3, 4, 6, 2, 1, 4))
    options = {"epsilon": epsilon, "C": 0.5, "counting_numbers": "bethe", "tolerance": 1e-9}
    fast = bf.BlendedLearner(**options).fit(samples)
    monkeypatch.setattr("blendfield.learning.recipe.chain_chunk", lambda *_, **__: None)
    general = bf.BlendedLearner(**options).fit(samples)
    assert fast.converged_
    assert general.converged_
    assert abs(fast.primal_ - general.primal_) <= 1e-8 * general.primal_
    np.testing.assert_allclose(fast.weights_, general.weights_, atol=1e-3)


def test_at_zero_bounds_enclose():
    samples = chain_samples(lengths=(5, 3, 4, 6, 2, 1, 4))
    zero = bf.BlendedLearner(0.0, 1.0, "bethe", tolerance=1e-3, max_iterations=2000).fit(samples)
    best = bf.learning.CuttingPlaneTrainer(1.0, tolerance=1e-7).fit(samples)
    assert zero.dual_ <= best.objective_ + 1e-6
    assert zero.primal_ >= best.objective_ - 1e-6 * best.objective_
    assert zero.gap_ <= 1e-2 * zero.primal_


def test_what_is_no_plain_chain_is_left_alone():
    layout = WeightLayout.of_samples(chain_samples())

    def usable(samples, numbers="bethe", **options):
        return chain_chunk(samples, layout, numbers, 1.0, **options) is not None

    plain = chain_samples()
    assert usable(plain)
    assert not usable(plain, "ones")
    assert not usable(plain, backend="reference")
    assert not usable(plain, dtype="float32")
    graph = bf.chain_graph(3, 3)
    nodes = bf.TiedLinear("nodes", graph.single_regions, np.ones((3, 5)))
    y = [0, 1, 2]
    assert usable([bf.Sample(graph, [nodes], y)])
    varied = bf.TiedLinear("steps", [0, 1], np.array([[1.0, 2.0], [1.0, 3.0]]))
    assert not usable([bf.Sample(graph, [nodes, varied], y)])
    assert not usable([bf.Sample(graph, [nodes], [0, -1, 2])])
    assert not usable([bf.Sample(graph, [nodes, bf.FixedPotentials([None, np.eye(3)])], y)])
    on_pairs = [np.ones((3, 3)) * r for r in range(2)] + [None] * 3
    on_pairs[0] = np.eye(3)
    assert not usable([bf.Sample(graph, [nodes], y, on_pairs)])
    grid = bf.grid_graph((1, 3), 3)
    assert usable([bf.Sample(grid, [bf.TiedLinear("nodes", grid.single_regions, np.ones((3, 5)))], y)])
    tree = bf.tree_graph([-1, 0, 0], 3)
    assert not usable([bf.Sample(tree, [bf.TiedLinear("nodes", tree.single_regions, np.ones((3, 5)))], y)])


def test_products_cut_in_pieces_are_the_same():
    """Enough columns for several pieces, against the passes in logarithms, which have none."""
    rng = np.random.default_rng(0)
    positions = passes.Positions(rng.integers(1, 5, 600))
    labels, count = 26, int(positions.starts[-1])
    assert len(passes._pieces(labels**2, 600)) > 1
    assert len(passes._pieces(500**2, 600)) == 1
    u, t, weights = rng.standard_normal((labels, count)), rng.standard_normal((labels, labels)), rng.random(count)
    one, two = (f(u, t, positions, weights) for f in (passes.scaled_passes, passes.logarithmic_passes))
    for name in ("values", "nodes", "pairs"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-9, atol=1e-12)
