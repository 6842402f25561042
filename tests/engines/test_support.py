"""Only the weights that a worker's chunks touch travel."""

import numpy as np
import pytest

import blendfield as bf
from blendfield.engines.protocol import Evaluation, Request
from blendfield.engines.support import Support
from blendfield.model.feature_map import FeatureMap, touched_weights
from blendfield.model.weights import WeightLayout


def samples_of_every_kind():
    import scipy.sparse

    rng = np.random.default_rng(0)
    graph = bf.chain_graph(4, 2)
    pairs, singles = np.arange(3), graph.single_regions
    sparse = scipy.sparse.csr_array(([1.0, 2.0, 3.0], ([0, 1, 3], [1, 3, 1])), shape=(4, 5))
    blocks = [
        [(0, 3, [[1.0, 0.0], [0.0, 0.0]]), (1, 7, 1.0)],
        [bf.TiedLinear("sparse", singles, sparse)],
        [bf.TiedLinear("dense", singles, rng.standard_normal((4, 2)))],
        [bf.FreeWeights("free", pairs)],
        [bf.FreeWeights("tables", singles, rng.standard_normal((2, 2)))],
        [bf.TableFeatures("shared", pairs, rng.standard_normal((1, 2, 2)))],
    ]
    return [bf.Sample(graph, features, np.zeros(4, dtype=int)) for features in blocks]


@pytest.mark.parametrize("chosen", [[0], [1], [2], [3], [4], [5], [0, 1], [1, 3, 5]])
def test_touched_weights_are_those_that_move_potentials(chosen):
    samples = samples_of_every_kind()
    layout = WeightLayout.of_samples(samples)
    blocks = [samples[k].blocks for k in chosen]
    touched = touched_weights(layout, blocks)
    graph = samples[0].graph
    size = int(graph.table_offsets[-1])
    moved = np.zeros(layout.size, dtype=bool)
    for own in blocks:
        features = FeatureMap(layout, [own], [0], graph.table_offsets, [1.0])
        for weight in range(layout.size):
            theta = np.zeros(size)
            features.apply(np.eye(layout.size)[weight], theta)
            moved[weight] |= theta.any()
    np.testing.assert_array_equal(touched, moved)
    assert not touched.all()


def test_narrow_and_widen():
    support = Support.of(np.array([False, True, False, False, True, False]))
    vector = np.arange(6.0)
    np.testing.assert_array_equal(support.narrow(vector), [1.0, 4.0])
    np.testing.assert_array_equal(support.widen(support.narrow(vector)), [0, 1, 0, 0, 4, 0])
    request = support.narrow(Request(weights=vector, slot=3))
    assert len(request.weights) == 2
    assert request.slot == 3
    answer = support.narrow(Evaluation(1.0, vector, None, np.ones(8)))
    assert (len(answer.gradient), answer.curvature, len(answer.products)) == (2, None, 8)
    assert support.narrow(0.5) == 0.5
    assert Support.of(np.ones(4, dtype=bool)).places is None
