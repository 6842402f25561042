"""A grid has cycles, so its value is not known exactly: it is bounded from both sides, and the bounds close in."""

import numpy as np

import blendfield as bf


def main() -> None:
    rng = np.random.default_rng(0)
    graph = bf.grid_graph((20, 30), 4)
    pairs = np.arange(graph.num_given)
    singles = np.arange(graph.num_given, graph.num_regions)  # in the order of the pixels
    potentials = [
        (pairs, np.broadcast_to(2.0 * np.eye(4), (len(pairs), 4, 4))),  # neighbours like the same label
        (singles, rng.standard_normal((len(singles), 4))),  # each pixel likes some labels more than others
    ]

    result = bf.infer(graph, potentials, counting_numbers="cover", tolerance=1e-6, certificate_every=5)
    print("sweeps       upper       lower")
    for iteration, upper, lower in zip(
        result.history["iteration"], result.history["upper"], result.history["lower"], strict=True
    ):
        print(f"{iteration:6d}  {upper:10.4f}  {lower:10.4f}")
    print(f"stopped: {result.stop_reason}; the optimum is between {result.lower:.4f} and {result.upper:.4f}")
    print(f"the labels found have the score {result.score:.4f}")
    assert result.certified
    assert result.converged
    assert result.score <= result.upper


if __name__ == "__main__":
    main()
