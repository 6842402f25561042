"""A chain is solved exactly: with Bethe counting numbers both bounds are the log-partition function itself."""

import itertools

import numpy as np

import blendfield as bf


def main() -> None:
    rng = np.random.default_rng(0)
    graph = bf.chain_graph(8, 3)
    potentials = [rng.standard_normal(graph.shape(r)) for r in range(graph.num_regions)]

    result = bf.infer(graph, potentials, counting_numbers="bethe")
    best = bf.infer(graph, potentials, counting_numbers="bethe", epsilon=0)

    # Three labels to the power of eight: few enough to count.
    scores = np.array([score(graph, potentials, y) for y in itertools.product(range(3), repeat=8)])
    log_partition = np.log(np.exp(scores).sum())
    print(f"log-partition  message passing {result.upper:.9f}   enumeration {log_partition:.9f}")
    print(f"best score     message passing {best.score:.9f}   enumeration {scores.max():.9f}")
    assert abs(result.upper - log_partition) < 1e-9
    assert abs(best.score - scores.max()) < 1e-9


def score(graph: bf.RegionGraph, potentials: list[np.ndarray], labels: tuple[int, ...]) -> float:
    return sum(table[tuple(labels[i] for i in region)] for table, region in zip(potentials, graph.regions, strict=True))


if __name__ == "__main__":
    main()
