"""What is observed is clamped, what is impossible is forbidden: three neighbours must have three different colours."""

import numpy as np

import blendfield as bf


def main() -> None:
    graph = bf.RegionGraph([3, 3, 3], [(0, 1), (1, 2), (0, 2)])
    different = np.where(np.eye(3, dtype=bool), -np.inf, 0.0)  # -inf forbids a pair of labels
    likes = np.array([0.5, 0.0, 0.0])  # variable 0 prefers colour 0
    potentials = [different, different, different, likes, None, None]

    free = bf.infer(graph, potentials)
    observed = bf.infer(graph, potentials, evidence={1: 0})  # but variable 1 has it

    print("best colours             ", free.labels, "score", free.score)
    print("best colours, 1 observed ", observed.labels, "score", observed.score)
    print("belief of variable 0     ", np.round(observed.beliefs[3], 3))
    assert sorted(free.labels) == sorted(observed.labels) == [0, 1, 2]
    assert observed.labels[1] == 0
    assert observed.beliefs[3][0] == 0  # exactly, not nearly


if __name__ == "__main__":
    main()
