"""How exact is the engine? Random problems against enumeration, joint optimisation (L-BFGS-B) and linear programming.

    python benchmarks/exactness.py [--problems 40] [--backend cpu]

Prints the worst figure of every kind; exits with 1 when a limit is passed. No figure may be NaN.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time

import numpy as np

import blendfield as bf
from blendfield.graph import counting_numbers
from blendfield.testing import (
    enumerate_exact,
    joint_optimum,
    lp_optimum,
    random_forest,
    random_junction_tree,
    random_region_graph,
    random_tables,
)
from worst_figures import WorstFigures, worse

figures = WorstFigures()
row = figures.row


def numbers_of(name: str, graph: bf.RegionGraph, rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(0.3, 1.5, graph.num_regions) if name == "array" else counting_numbers(graph, name)


def optima(problems: int, backend: str) -> None:
    """Three levels: the optimum of the program, and bounds on both sides of it at every certificate."""
    for epsilon, name in itertools.product((1.0, 0.25, 0.05), ("ones", "cover", "array")):
        started = time.perf_counter()
        away = outside = 0.0
        for seed in range(problems):
            rng = np.random.default_rng(seed)
            graph = random_region_graph(rng)
            tables = random_tables(rng, graph)
            numbers = numbers_of(name, graph, rng)
            result = bf.infer(graph, tables, epsilon=epsilon, counting_numbers=numbers, backend=backend, tolerance=1e-9)
            optimum = joint_optimum(graph, tables, numbers, epsilon)
            scale = max(1.0, abs(optimum))
            # The joint optimiser stops a little above the optimum; a lower `upper` is no error but its.
            away = worse(away, abs(result.upper - optimum) / scale)
            low = (result.history["lower"] - optimum).max() / scale
            high = (result.lower - result.history["upper"]).max() / scale
            outside = worse(outside, max(low, high, 0.0))
        row(f"three levels, eps {epsilon}, {name}: |upper - joint optimum|, relative", away, 1e-6, problems, started)
        row(
            f"three levels, eps {epsilon}, {name}: bounds beyond the optimum, relative",
            outside,
            1e-6,
            problems,
            started,
        )


def zero(problems: int, backend: str) -> None:
    """eps = 0: bounds around the linear program."""
    for name in ("ones", "cover"):
        started = time.perf_counter()
        gap = outside = 0.0
        for seed in range(problems):
            rng = np.random.default_rng(seed)
            graph = random_region_graph(rng)
            tables = random_tables(rng, graph, integer=seed % 2 == 0)
            result = bf.infer(graph, tables, epsilon=0, counting_numbers=name, backend=backend)
            optimum = lp_optimum(graph, tables)
            scale = max(1.0, abs(optimum))
            gap = worse(gap, result.gap / scale)
            outside = worse(outside, max(result.lower - optimum, optimum - result.upper, 0.0) / scale)
        row(f"eps 0, {name}: gap, relative", gap, 1e-2, problems, started)
        row(f"eps 0, {name}: linear program outside [lower, upper], relative", outside, 1e-9, problems, started)


def exact(problems: int, backend: str) -> None:
    """Forests and junction trees with Moebius numbers."""
    for name, make, limit in (("forests", random_forest, 1e-9), ("junction trees", random_junction_tree, 1e-8)):
        started = time.perf_counter()
        value = marginal = best = 0.0
        for seed in range(problems):
            rng = np.random.default_rng(seed)
            graph = make(rng)
            tables = random_tables(rng, graph, forbidden=0.3 * (seed % 3 == 0))
            truth = enumerate_exact(graph, tables, 1.0)
            result = bf.infer(graph, tables, counting_numbers="bethe", backend=backend)
            value = worse(value, abs(result.upper - truth.value) / max(1.0, abs(truth.value)))
            marginal = worse(marginal, float(np.abs(result.beliefs.flat - truth.marginals).max()))
            at_zero = bf.infer(graph, tables, epsilon=0, counting_numbers="bethe", backend=backend)
            best = worse(best, abs(at_zero.score - enumerate_exact(graph, tables, 0.0).value))
        row(f"{name}, bethe: log-partition, relative", value, limit, problems, started)
        row(f"{name}, bethe: marginals of all regions", marginal, limit, problems, started)
        row(f"{name}, bethe, eps 0: score of the labels - best score", best, limit, problems, started)


def forbidden(problems: int, backend: str) -> None:
    """30 to 40 % of the joint labels forbidden."""
    for epsilon, name in itertools.product((1.0, 0.25, 0.0), ("ones", "cover")):
        started = time.perf_counter()
        outside = leaked = 0.0
        for seed in range(problems):
            rng = np.random.default_rng(seed)
            graph = random_region_graph(rng)
            tables = random_tables(rng, graph, forbidden=float(rng.uniform(0.3, 0.4)))
            result = bf.infer(graph, tables, epsilon=epsilon, counting_numbers=name, backend=backend)
            truth = enumerate_exact(graph, tables, epsilon)
            scale = max(1.0, abs(truth.value))
            outside = worse(
                outside, max((truth.value - result.upper) / scale, (result.lower - result.upper) / scale, 0.0)
            )
            leaked = worse(leaked, float(result.beliefs.flat[np.isneginf(tables)].max(initial=0.0)))
            if np.isnan(result.beliefs.flat).any() or np.isnan([result.upper, result.lower]).any():
                outside = np.inf
        row(
            f"forbidden labels, eps {epsilon}, {name}: bounds violated, relative (NaN: inf)",
            outside,
            1e-9,
            problems,
            started,
        )
        row(f"forbidden labels, eps {epsilon}, {name}: belief of a forbidden label", leaked, 0.0, problems, started)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=40)
    parser.add_argument("--backend", default="auto")
    arguments = parser.parse_args()
    for study in (optima, zero, exact, forbidden):
        study(arguments.problems, arguments.backend)
    return figures.failures > 0


if __name__ == "__main__":
    sys.exit(main())
