import numpy as np
import pytest

import blendfield as bf
from blendfield.applications.denoising.model import sample, samples
from blendfield.applications.denoising.task import NoisyImage

SEEN = np.random.default_rng(0).random((3, 4))


def score(learner, labels):
    """Sum of the learned potentials at a labelling."""
    given = sample(SEEN, "tied" if learner.blocks_["pixel"].ndim == 1 else "free")
    graph, flat = given.graph, learner.potentials(given)
    total = 0.0
    for region in range(graph.num_regions):
        table = flat[graph.table_offsets[region] : graph.table_offsets[region + 1]].reshape(graph.shape(region))
        total += table[tuple(labels.ravel()[list(graph.regions[region])])]
    return total


@pytest.mark.parametrize("model", ["free", "tied"])
def test_potentials_are_the_formula(model):
    truth = np.random.default_rng(1).random((3, 4)) < 0.5
    learner = bf.BlendedLearner(max_iterations=3).fit([sample(SEEN, model, truth)])
    pixel, pair = learner.blocks_["pixel"], learner.blocks_["pair"]
    assert (pixel.shape, pair.shape) == (((12, 2), (17, 1)) if model == "free" else ((2,), (2,)))
    labels = np.random.default_rng(2).integers(0, 2, (3, 4))
    expected = 0.0
    bias, slope = pixel.reshape(-1, 2).T
    expected += np.sum((bias + slope * SEEN.ravel()) * labels.ravel())
    right = [((r, c), (r, c + 1)) for r in range(3) for c in range(3)]
    down = [((r, c), (r + 1, c)) for r in range(2) for c in range(4)]
    for number, (a, b) in enumerate([*right, *down]):
        strength = pair[number, 0] if model == "free" else pair[0] + pair[1] * abs(SEEN[a] - SEEN[b])
        expected += strength if labels[a] == labels[b] else -strength
    assert score(learner, labels) == pytest.approx(expected)


def test_losses():
    image = NoisyImage(SEEN, SEEN > 0.5)
    for model in ("free", "tied"):
        assert samples([image], model, loss=True)[0].loss == "hamming"
        assert samples([image], model, loss=False)[0].loss is None
        assert sample(SEEN, model).labels is None
