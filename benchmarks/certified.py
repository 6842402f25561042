"""Is the certified optimum of learning the optimum? Random problems against joint solutions by SciPy.

    python benchmarks/certified.py [--problems 4]

Three samples a problem, each with a region graph of its own (three levels, mixed numbers of labels); weights shared
over regions and samples, in two blocks. Prints the worst figure of every kind; exits with 1 when a limit is passed. No
figure may be NaN.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import blendfield as bf
from blendfield.engines.protocol import Request
from blendfield.graph import counting_numbers
from blendfield.learning.compile import compile_training_set
from blendfield.testing import lp_optimum, random_region_graph
from blendfield.testing.learning_oracles import (
    Example,
    dense_features,
    exact_objective,
    hamming_loss,
    learning_lp,
    learning_optimum,
)
from worst_figures import WorstFigures, worse

SIZE, TRIPLES = 6, 4
"""weights, and how many of them belong to triples; the others to the block "tables\""""
EPSILONS = (1.0, 0.3, 0.1)
STRENGTHS = (0.1, 1.0, 10.0)
SIGNS = {">=0": (0.0, np.inf), "<=0": (-np.inf, 0.0)}
figures = WorstFigures()
row = figures.row


@dataclass
class Problem:
    """Samples, and the same in dense form; counting numbers by sample."""

    samples: list[bf.Sample]
    examples: list[Example]
    numbers: list[np.ndarray]

    @classmethod
    def random(cls, seed: int, loss: str | None = "hamming", count: int = 3) -> Problem:
        """Counting numbers are in turn "ones", "cover" and random."""
        rng = np.random.default_rng(seed)
        samples, examples, numbers = [], [], []
        for _ in range(count):
            graph = random_region_graph(rng, 3, num_variables=4, max_labels=3)
            triples, blocks = [], []
            for region in range(graph.num_regions):
                shape = graph.shape(region)
                triples.append((region, int(rng.integers(TRIPLES)), rng.standard_normal(shape)))
                tables = rng.standard_normal((SIZE - TRIPLES, *shape))
                blocks.append(bf.TableFeatures("tables", [region], tables))
                triples += [(region, TRIPLES + k, table) for k, table in enumerate(tables)]
            labels = np.array([int(rng.integers(n)) for n in graph.cardinalities])
            # A feature of no effect, so that every weight of the triples is there.
            features = [t for t in triples if t[1] < TRIPLES] + [(0, TRIPLES - 1, 0.0)] + blocks
            samples.append(bf.Sample(graph, features, labels, loss))
            table = np.zeros(int(graph.table_offsets[-1])) if loss is None else hamming_loss(graph, labels)
            examples.append(Example(graph, dense_features(graph, triples, SIZE), labels, table))
            name = ("ones", "cover", "random")[seed % 3]
            numbers.append(
                rng.uniform(0.3, 1.5, graph.num_regions) if name == "random" else counting_numbers(graph, name)
            )
        return cls(samples, examples, numbers)

    def fit(self, epsilon: float, C: Any, **options: Any) -> bf.BlendedLearner:
        options = {"tolerance": 1e-7, "max_iterations": 20000, "counting_numbers": self.numbers, **options}
        return bf.BlendedLearner(epsilon, C, **options).fit(self.samples)


def by_block(triples: float, tables: float) -> np.ndarray:
    return np.array([triples] * TRIPLES + [tables] * (SIZE - TRIPLES))


def regularisers() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """(name, options of the learner without C, options of the oracle)."""
    yield "quadratic", {}, {}
    yield "elastic, l1 = 0.3", {"l1": 0.3}, {"l1": 0.3}
    yield "l1 of one block", {"l1": {"tables": 0.5}}, {"l1": by_block(0.0, 0.5)}
    yield "w >= 0", {"sign": ">=0"}, {"lowest": 0.0}
    yield "w <= 0", {"sign": "<=0"}, {"highest": 0.0}
    signs = {"": ">=0", "tables": "<=0"}
    mixed = {"lowest": by_block(0.0, -np.inf), "highest": by_block(np.inf, 0.0)}
    yield "signs by block", {"sign": signs}, mixed
    yield "elastic, signs by block", {"sign": signs, "l1": 0.2}, {**mixed, "l1": 0.2}
    yield "soft marginalisation, 1", {"soft_marginalisation": 1.0}, {"gamma": 1.0}
    yield (
        "soft marginalisation, 0.05, l1, w >= 0",
        {"soft_marginalisation": 0.05, "l1": 0.3, "sign": ">=0"},
        {
            "gamma": 0.05,
            "l1": 0.3,
            "lowest": 0.0,
        },
    )


def compare(
    problem: Problem, epsilon: float, C: Any, ours: dict[str, Any], theirs: dict[str, Any]
) -> tuple[float, ...]:
    """(|primal - optimum|, |dual - optimum|, bounds beyond the optimum at any certificate), relative."""
    learner = problem.fit(epsilon, C, **ours)
    strength = by_block(C[""], C[None]) if isinstance(C, dict) else C
    best = learning_optimum(problem.examples, problem.numbers, epsilon, strength, **theirs).value
    scale = max(1.0, abs(best))
    known = ~np.isnan(learner.history_["dual"])
    outside = max(0.0, (best - learner.history_["primal"]).max(), (learner.history_["dual"][known] - best).max())
    return abs(learner.primal_ - best) / scale, abs(learner.dual_ - best) / scale, outside / scale


def optima(problems: int) -> None:
    """Primal and dual of the learner against a joint L-BFGS-B solution over weights and messages."""
    strengths: list[Any] = [*STRENGTHS, {"": 0.3, None: 3.0}]
    for name, ours, theirs in regularisers():
        started = time.perf_counter()
        primal = dual = outside = 0.0
        cases = list(itertools.product(range(problems), EPSILONS, strengths))
        for seed, epsilon, C in cases:
            figures = compare(Problem.random(seed), epsilon, C, ours, theirs)
            primal, dual, outside = (worse(a, b) for a, b in zip((primal, dual, outside), figures, strict=True))
        row(f"{name}: primal - optimum, relative", primal, 1e-6, len(cases), started)
        row(f"{name}: dual - optimum, relative", dual, 1e-6, len(cases), started)
        row(f"{name}: bounds beyond the optimum (of L-BFGS-B)", outside, 1e-8, len(cases), started)


def pure_l1(problems: int) -> None:
    """C = 0: the dual needs consistent beliefs that are nearly optimal, so it comes last."""
    started = time.perf_counter()
    primal = dual = outside = 0.0
    cases = list(itertools.product(range(problems), EPSILONS, (0.5, 3.0)))
    for seed, epsilon, l1 in cases:
        figures = compare(Problem.random(seed), epsilon, 0.0, {"l1": l1}, {"l1": l1})
        primal, dual, outside = (worse(a, b) for a, b in zip((primal, dual, outside), figures, strict=True))
    row("pure l1: primal - optimum, relative", primal, 1e-6, len(cases), started)
    row("pure l1: dual - optimum, relative", dual, 1e-6, len(cases), started)
    row("pure l1: bounds beyond the optimum (of L-BFGS-B)", outside, 1e-8, len(cases), started)


def gradients(problems: int) -> None:
    """dF/dw and the slopes along lines at arbitrary weights and messages, against central differences."""
    started = time.perf_counter()
    worst = slopes = 0.0
    for seed, epsilon in itertools.product(range(5 * problems), EPSILONS):
        problem = Problem.random(seed)
        learner = bf.BlendedLearner(epsilon, counting_numbers=problem.numbers)
        samples, layout = learner._samples_and_layout(problem.samples)
        engine = compile_training_set(samples, layout, problem.numbers, learner._options())
        rng = np.random.default_rng(seed)
        weights = rng.standard_normal(layout.size)
        engine.set_messages([rng.standard_normal(len(part)) for part in engine.messages()])
        gradient = engine.iterate(Request(weights=weights, sweeps=0)).gradient
        for direction in np.eye(layout.size):
            step = 1e-5 * direction
            values = [engine.iterate(Request(weights=weights + s * step, sweeps=0)).value for s in (1, -1)]
            difference = (values[0] - values[1]) / 2e-5
            worst = worse(worst, abs(difference - gradient @ direction) / max(1.0, abs(gradient @ direction)))
        direction = rng.standard_normal(layout.size)
        trial = engine.trial(weights, direction, np.array([-1e-5, 0.0, 1e-5]), None)
        difference = (trial.value[2] - trial.value[0]) / 2e-5
        slopes = worse(slopes, abs(difference - trial.slope[1]) / max(1.0, abs(difference)))
        slopes = worse(slopes, abs(trial.slope[1] - gradient @ direction) / max(1.0, abs(difference)))
    row("gradient - central differences, relative", worst, 1e-7, 15 * problems, started)
    row("slope along a line - central differences and gradient, relative", slopes, 1e-7, 15 * problems, started)


def theory(problems: int) -> None:
    """The tests at the end of mathematics \u00a77."""
    started = time.perf_counter()
    moments = below = scaled = apart = 0.0
    for seed in range(2 * problems):
        problem = Problem.random(seed)
        learner = problem.fit(0.7, 2.0, tolerance=1e-11)
        z = np.zeros(SIZE)
        for example, sample, numbers in zip(problem.examples, problem.samples, problem.numbers, strict=True):
            theta = example.loss + example.features @ learner.weights_
            result = bf.infer(sample.graph, theta, 0.7, numbers, tolerance=1e-12, max_iterations=10000)
            z += example.features.T @ (result.beliefs.flat - example.truth)
        moments = worse(moments, float(np.abs(z + 2.0 * learner.weights_).max()))
        if seed % 3 < 2:  # "ones" and "cover" cover every variable
            for weights in (learner.weights_, np.random.default_rng(seed).standard_normal(SIZE)):
                upper = sum(
                    bf.infer(e.graph, e.loss + e.features @ weights, 0.7, n).upper
                    - float((e.loss + e.features @ weights) @ e.truth)
                    for e, n in zip(problem.examples, problem.numbers, strict=True)
                )
                below = worse(below, exact_objective(problem.examples, weights, 0.7) - upper)
        lossless = Problem.random(seed, loss=None)
        hot, cold = (lossless.fit(e, c, tolerance=1e-11) for e, c in ((1.0, 0.3), (0.3, 1.0)))
        scaled = worse(scaled, float(np.abs(cold.weights_ - 0.3 * hot.weights_).max()))
        zero = problem.fit(0.0, 1.0, tolerance=1e-4, max_iterations=2000)
        warm = problem.fit(0.02, 1.0, tolerance=1e-6)
        room = 0.02 * sum(
            float(n @ np.log(e.graph.table_sizes)) for e, n in zip(problem.examples, problem.numbers, strict=True)
        )
        apart = worse(apart, max(zero.dual_ - warm.primal_, warm.dual_ - zero.primal_ - room) / max(1.0, warm.primal_))
    count = 2 * problems
    row("moments: |z + C w| at the optimum", moments, 1e-4, count, started)
    row("F below the exact loss", below, 1e-9, count, started)
    row("|w(eps, C) - eps w(1, eps C)| without loss", scaled, 1e-5, count, started)
    row("min F_eps outside [min F_0, min F_0 + eps sum c log|Y|], relative", apart, 1e-9, count, started)


def loops(problems: int) -> None:
    """The double loop, the blend with many sweeps and the plain blend end at the same weights."""
    started = time.perf_counter()
    values = weights = 0.0
    for seed in range(2 * problems):
        problem = Problem.random(seed)
        blend = problem.fit(1.0, 1.0, tolerance=1e-10)
        for options in (
            {"sweeps": 10},
            {"acceleration": None, "tolerance": 1e-8},
            {"sweeps": 400, "restart_messages": True, "tolerance": 1e-7, "max_iterations": 300},
        ):
            other = problem.fit(1.0, 1.0, **{"tolerance": 1e-10, **options})
            values = worse(values, abs(other.primal_ - blend.primal_) / blend.primal_)
            weights = worse(weights, float(np.abs(other.weights_ - blend.weights_).max()))
    row("double loop, kept messages, no mixing: objective, relative", values, 1e-6, 6 * problems, started)
    row("double loop, kept messages, no mixing: weights", weights, 1e-3, 6 * problems, started)


def zero(problems: int) -> None:
    """eps = 0 against HiGHS: at the learned weights, and jointly with l1 alone."""
    started = time.perf_counter()
    outside = gap = joint = gap1 = 0.0
    for seed in range(3 * problems):
        problem = Problem.random(seed)
        learner = problem.fit(0.0, 1.0, tolerance=1e-4, max_iterations=3000)
        value = 0.5 * float(learner.weights_ @ learner.weights_)
        for example in problem.examples:
            theta = example.loss + example.features @ learner.weights_
            value += lp_optimum(example.graph, theta) - float(theta @ example.truth)
        scale = max(1.0, abs(value))
        outside = worse(outside, max(value - learner.primal_, learner.dual_ - value) / scale)
        gap = worse(gap, learner.gap_ / scale)
        learner = problem.fit(0.0, 0.0, l1=1.0, tolerance=1e-4, max_iterations=3000)
        value = learning_lp(problem.examples, 1.0)
        scale = max(1.0, abs(value))
        joint = worse(joint, max(value - learner.primal_, learner.dual_ - value) / scale)
        gap1 = worse(gap1, learner.gap_ / scale)
    count = 3 * problems
    row("eps = 0: LP at the learned weights outside the bounds, relative", outside, 1e-9, count, started)
    row("eps = 0: gap, relative", gap, 1e-1, count, started)
    row("eps = 0, l1 alone: LP over weights and messages outside the bounds, relative", joint, 1e-9, count, started)
    row("eps = 0, l1 alone: gap, relative", gap1, np.inf, count, started)


STUDIES = {"optima": optima, "l1": pure_l1, "gradients": gradients, "theory": theory, "loops": loops, "zero": zero}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="*", help=", ".join(STUDIES))
    parser.add_argument("--problems", type=int, default=4)
    options = parser.parse_args()
    for name in options.study or STUDIES:
        STUDIES[name](options.problems)
    sys.exit(figures.failures > 0)


if __name__ == "__main__":
    main()
