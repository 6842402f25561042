"""Structured support vector machines, epsilon = 0: the blend against the rival trainers, each with the same seconds.

    python benchmarks/margins.py letters            # chains, 26 labels: fold 0 against the other nine
    python benchmarks/margins.py snakes             # grids, 11 labels

One row per trainer: the objective F at its weights, certified by inference on the loss-augmented training set (the
linear relaxation on grids, exact on chains), as excess over the best lower bound known; wrong labels on the test set,
by the same search for the best labels for all; steps and passes over the training set. At several times, if asked.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import blendfield as bf
from blendfield.datasets import load, snakes
from blendfield.learning import CuttingPlaneTrainer, FrankWolfeTrainer, SubgradientTrainer

Split = tuple[list[bf.Sample], list[bf.Sample]]
STRENGTH = {"letters": 100.0, "snakes": 1.0}
NUMBERS = {"letters": "bethe", "snakes": "cover"}


def letters(share: float) -> Split:
    """Pixels and a constant, one table of transitions."""
    graphs: dict[int, bf.RegionGraph] = {}

    def sample(word: Any) -> bf.Sample:
        length = len(word.labels)
        graph = graphs.setdefault(length, bf.chain_graph(length, 26))
        pixels = np.concatenate([word.pixels.reshape(length, -1), np.ones((length, 1))], axis=1)
        pairs = bf.TiedLinear("transitions", np.arange(length - 1), np.ones((length - 1, 1)))
        return bf.Sample(graph, [bf.TiedLinear("pixels", graph.single_regions, pixels), pairs], word.labels)

    words = load("letters")
    train = [word for word in words if word.fold != 0]
    return [sample(w) for w in train[: max(1, round(share * len(train)))]], [sample(w) for w in words if w.fold == 0]


def pictures(share: float) -> Split:
    """Colours of 3 x 3 cells and a constant, a table of pairs to the right and one downwards."""

    def sample(snake: Any) -> bf.Sample:
        height, width = snake.labels.shape
        graph = bf.grid_graph((height, width), 11)
        cells = np.concatenate([snakes.window_features(snake.directions), np.ones((height * width, 1))], axis=1)
        across, down = height * (width - 1), (height - 1) * width
        blocks = [
            bf.TiedLinear("cells", graph.single_regions, cells),
            bf.TiedLinear("right", np.arange(across), np.ones((across, 1))),
            bf.TiedLinear("down", across + np.arange(down), np.ones((down, 1))),
        ]
        return bf.Sample(graph, blocks, snake.labels.ravel())

    train, test = load("snakes"), load("snakes", split="test")
    return [sample(s) for s in train[: max(1, round(share * len(train)))]], [sample(s) for s in test]


def trainers(C: float, numbers: str, seconds: float, threads: int | None) -> dict[str, Callable[[], Any]]:
    """None of them converges to zero gap before its time is over."""
    limits: dict[str, Any] = {"time_limit": seconds, "tolerance": 0.0, "max_iterations": 10**6, "threads": threads}
    return {
        "blend": lambda: bf.BlendedLearner(0.0, C, numbers, **limits),
        "subgradient": lambda: SubgradientTrainer(C, numbers, **limits),
        "Frank-Wolfe": lambda: FrankWolfeTrainer(C, numbers, **limits),
        "cutting planes": lambda: CuttingPlaneTrainer(C, numbers, **limits),
    }


def objective(learner: Any, samples: list[bf.Sample], numbers: str, C: float) -> tuple[float, float]:
    """(F at the learner's weights, its least value over messages as far as inference came; F less that gap)."""
    potentials = [learner.potentials(sample, loss=True) for sample in samples]
    results = bf.infer(
        [sample.graph for sample in samples], potentials, epsilon=0.0, counting_numbers=numbers, tolerance=1e-4
    )
    regulariser = 0.5 * C * float(learner.weights_ @ learner.weights_)
    value = sum(
        result.upper - truth(sample, theta) for result, sample, theta in zip(results, samples, potentials, strict=True)
    )
    return value + regulariser, sum(result.gap for result in results)


def truth(sample: bf.Sample, theta: Any) -> float:
    """theta(y): the score of the true labels (their loss is 0)."""
    graph, labels = sample.graph, sample.labels
    pairs = graph.region_variables[: 2 * graph.num_given].reshape(-1, 2)
    count = int(graph.cardinalities[0])
    offsets = graph.table_offsets
    pair_entries = offsets[: graph.num_given] + labels[pairs[:, 0]] * count + labels[pairs[:, 1]]
    return float(theta[pair_entries].sum() + theta[offsets[graph.single_regions] + labels].sum())


def wrong(learner: Any, samples: list[bf.Sample], numbers: str) -> float:
    """Share of wrong labels in per cent."""
    potentials = [learner.potentials(sample) for sample in samples]
    graphs = [sample.graph for sample in samples]
    results = bf.infer(graphs, potentials, epsilon=0.0, counting_numbers=numbers, tolerance=1e-4)
    pairs = [(result.labels, sample.labels) for result, sample in zip(results, samples, strict=True)]
    return 100.0 * float(np.mean(np.concatenate([found != true for found, true in pairs])))


def study(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    train, test = {"letters": letters, "snakes": pictures}[name](options.share)
    C = STRENGTH[name] if options.C is None else options.C
    numbers = NUMBERS[name]
    rows = []
    for seconds in options.seconds:
        for trainer, make in trainers(C, numbers, seconds, options.threads).items():
            if trainer not in options.trainers:
                continue
            learner = make().fit(train)
            value, slack = objective(learner, train, numbers, C)
            history = learner.history_
            row = {
                "data": name,
                "C": C,
                "trainer": trainer,
                "seconds": seconds,
                "F": value,
                "inference_gap": slack,
                "dual": float(getattr(learner, "dual_", np.nanmax([0.0, *history["dual"]]))),
                "wrong_per_cent": wrong(learner, test, numbers),
                "iterations": learner.n_iter_,
                "passes": float(history["passes"][-1]) if len(history["passes"]) else 0.0,
            }
            rows.append(row)
            print(
                f"{name:8} {seconds:6g} s  {trainer:15} F {row['F']:12.4f} (inference {slack:.2g})  "
                f"dual {row['dual']:12.4f}  wrong {row['wrong_per_cent']:6.3f} %  "
                f"{row['iterations']} iterations, {row['passes']:.0f} passes",
                flush=True,
            )
    # Only the learner's bound holds for the relaxation; on chains all do.
    best = max((row["dual"] for row in rows if name == "letters" or row["trainer"] == "blend"), default=0.0)
    for row in rows:
        row["excess"] = (row["F"] - best) / best if best > 0 else float("inf")
        print(f"{name:8} {row['seconds']:6g} s  {row['trainer']:15} excess over the bound {row['excess']:.3g}")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="*", choices=["letters", "snakes", []], default=[])
    names = ["blend", "subgradient", "Frank-Wolfe", "cutting planes"]
    parser.add_argument("--trainers", nargs="+", choices=names, default=names)
    parser.add_argument("--seconds", type=float, nargs="+", default=[30.0])
    parser.add_argument("--share", type=float, default=1.0, help="of the training set")
    parser.add_argument("--C", type=float)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("results/margins.json"))
    options = parser.parse_args()
    results = {name: study(name, options) for name in options.study or ("letters", "snakes")}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
