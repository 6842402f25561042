"""Random learning problems, as samples and in the dense form of the oracles."""

import numpy as np

import blendfield as bf
from blendfield.testing import random_region_graph
from blendfield.testing.learning_oracles import Example, dense_features, hamming_loss


def random_problem(seed, count=3, size=5, levels=3, loss="hamming", chains=False):
    """(samples, examples): different graphs, weights shared over regions and samples."""
    rng = np.random.default_rng(seed)
    samples, examples = [], []
    for _ in range(count):
        if chains:
            graph = bf.chain_graph(5, rng.integers(2, 4, 5))
        else:
            graph = random_region_graph(rng, levels, num_variables=4, max_labels=3)
        triples = [
            (r, int(rng.integers(size)), rng.standard_normal(graph.shape(r)))
            for r in range(graph.num_regions)
            for _ in range(2)
        ]
        labels = np.array([int(rng.integers(n)) for n in graph.cardinalities])
        samples.append(bf.Sample(graph, triples, labels, loss))
        zeros = np.zeros(int(graph.table_offsets[-1]))
        table = zeros if loss is None else hamming_loss(graph, labels)
        examples.append(Example(graph, dense_features(graph, triples, size), labels, table))
    return samples, examples
