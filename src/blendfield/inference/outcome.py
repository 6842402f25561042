"""What a method hands back for N models side by side, and how results are made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield.backends.protocol import FloatArray, LabelArray
from blendfield.graph import DisjointUnion, RegionGraph
from blendfield.inference.result import Part, Result
from blendfield.inference.solution import Solution

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Outcome:
    """V variables and R regions of all N models together, C certificates."""

    union: DisjointUnion
    labels: LabelArray
    """int64 [V]"""
    score: FloatArray
    """float64 [N]"""
    upper: FloatArray
    lower: FloatArray
    gap: FloatArray
    certified: BoolArray
    """bool [N]"""
    converged: BoolArray
    reason: str
    """why those that did not converge stopped"""
    iterations: int
    history: dict[str, npt.NDArray[Any]]
    """iteration [C], upper, lower, gap [C, N], seconds [C]"""
    counting_numbers: FloatArray
    """float64 [R]"""
    solution: Solution


def results_of(graphs: list[RegionGraph], epsilon: float, outcome: Outcome) -> list[Result]:
    """One result per model."""
    by_model = ("upper", "lower", "gap")
    union = outcome.union
    offsets = union.graph.table_offsets
    results = []
    for k, graph in enumerate(graphs):
        variables = slice(*(int(v) for v in union.variable_starts[k : k + 2]))
        regions = slice(*(int(r) for r in union.region_starts[k : k + 2]))
        converged = bool(outcome.converged[k])
        results.append(
            Result(
                labels=outcome.labels[variables].copy(),
                score=float(outcome.score[k]),
                upper=float(outcome.upper[k]),
                lower=float(outcome.lower[k]),
                gap=float(outcome.gap[k]),
                certified=bool(outcome.certified[k]),
                converged=converged,
                stop_reason="converged" if converged else outcome.reason,
                iterations=outcome.iterations,
                history={
                    name: (values[:, k] if name in by_model else values).copy()
                    for name, values in outcome.history.items()
                },
                epsilon=epsilon,
                counting_numbers=outcome.counting_numbers[regions],
                graph=graph,
                _solution=outcome.solution,
                _part=Part(k, variables, regions, slice(int(offsets[regions.start]), int(offsets[regions.stop]))),
            )
        )
    return results
