"""Consistent beliefs by iterative scaling: tables are scaled until their marginals are the beliefs of what is below.

Nothing but the beliefs of a region and of those below it goes into its result. So parts of one graph that have a
region, and all that is below it, get the same consistent beliefs of it from the same beliefs (mathematics §6, §7).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield.backends.protocol import FloatArray, Program
from blendfield.learning.consistency import Consistency

BoolArray = npt.NDArray[np.bool_]
ROUNDS = 300
RESIDUAL = 1e-13
"""of a marginal; what is left is rounding"""


@dataclass(frozen=True)
class _Step:
    """Edges of regions with the same number of variables, one of each region. m message entries, N table entries."""

    parent: Any
    """sparse [m, N]: marginal of the parent"""
    child: Any
    """sparse [m, N]: table of the child"""


class Scaling:
    """For the regions of one program."""

    def __init__(self, program: Program) -> None:
        between, graph = Consistency(program), program.graph
        parents = program.edge_parents
        first = np.searchsorted(parents, parents)  # they are sorted
        slot = np.arange(len(parents)) - first
        order = graph.region_orders[parents]
        sizes = graph.table_sizes[program.edge_children]
        self._levels: list[list[_Step]] = []
        """regions of few variables first: the others are scaled to them"""
        for axes in np.unique(order).tolist():
            steps = []
            for number in np.unique(slot[order == axes]).tolist():
                entries = np.repeat((order == axes) & (slot == number), sizes)
                steps.append(_Step(between.parent[entries], between.child[entries]))
            self._levels.append(steps)

    def consistent(self, beliefs: FloatArray) -> FloatArray | None:
        """float64 [N] -> [N]; None where there is no such scaling, or it takes too long."""
        q = beliefs.copy()
        for steps in self._levels:
            wanted = [np.asarray(step.child @ q) for step in steps]
            for _ in range(ROUNDS):
                residual = 0.0
                for step, want in zip(steps, wanted, strict=True):
                    marginal = np.asarray(step.parent @ q)
                    residual = max(residual, float(np.abs(marginal - want).max(initial=0.0)))
                    factor = np.divide(want, marginal, out=np.zeros_like(want), where=marginal > 0)
                    inside = np.asarray(step.parent.T @ np.ones(len(want))) > 0
                    q = np.where(inside, q * np.asarray(step.parent.T @ factor), q)
                if not residual > RESIDUAL:
                    break
            else:
                return None
        return q if np.isfinite(q).all() else None


def supported(program: Program, allowed: BoolArray) -> BoolArray:
    """Generalised arc consistency (mathematics §3), bool [N]: a joint label stays while every child allows its
    restriction and every parent extends it.
    """
    between = Consistency(program)
    while True:
        present = allowed.astype(np.float64)
        extensions: FloatArray = np.asarray(between.parent @ present) * np.asarray(between.child @ present)
        dead = (extensions == 0).astype(np.float64)
        barred: FloatArray = np.asarray(between.parent.T @ dead) + np.asarray(between.child.T @ dead)
        kept: BoolArray = allowed & (barred == 0)
        if np.array_equal(kept, allowed):
            return kept
        allowed = kept
