import numpy as np

import blendfield as bf
from blendfield.model.losses import loss_table


def test_the_loss_of_the_truth_is_taken_off():
    """Whatever tables are given: each region's loss is zero at its true joint label, differences stay."""
    rng = np.random.default_rng(0)
    graph = bf.RegionGraph([2, 3, 2], [(0, 1), (2, 1), (0, 1, 2)])
    labels = np.array([1, 2, 0])
    given = [rng.standard_normal(graph.shape(region)) for region in range(graph.num_regions)]
    flat = loss_table(graph, labels, given)
    for region, table in enumerate(given):
        found = flat[graph.table_offsets[region] : graph.table_offsets[region + 1]].reshape(table.shape)
        truth = tuple(labels[list(graph.regions[region])])
        assert found[truth] == 0
        np.testing.assert_allclose(found, table - table[truth])


def test_regions_with_unobserved_variables_are_not_shifted():
    graph = bf.RegionGraph([2, 2], [(0, 1)])
    given = [np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([5.0, 6.0]), np.array([7.0, 8.0])]
    flat = loss_table(graph, np.array([-1, 1]), given)
    np.testing.assert_array_equal(flat, [1, 2, 3, 4, 5, 6, -1, 0])


def test_hamming():
    graph = bf.RegionGraph([2, 3, 2], [(0, 1)])
    flat = loss_table(graph, np.array([1, 0, -1]), "hamming")
    np.testing.assert_array_equal(flat, [*[0] * 6, 1, 0, 0, 1, 1, 0, 0])
