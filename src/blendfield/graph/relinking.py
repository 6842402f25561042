"""Relinking: edges around regions that must not send messages downwards."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from blendfield import _core
from blendfield.graph.parsing import Int32Array, core_faults
from blendfield.graph.region_graph import RegionGraph


def relink(graph: RegionGraph, counting_numbers: npt.NDArray[np.float64]) -> tuple[Int32Array, Int32Array]:
    """Replaces every edge (p, r) whose parent p has parents and c_p <= 0 by (p', r) for all parents p' of p, until
    every parent is an outer region or has c > 0.

    The constraints are implied by the remaining ones: same program, same optimum. Messages from a region with
    c_p <= 0 are what makes block descent stop too early or diverge.

    counting_numbers: float64 [R]. Returns (edge_parents, edge_children) int32 [E'], sorted by (parent, child).
    """
    numbers = np.ascontiguousarray(counting_numbers, dtype=np.float64)
    if len(numbers) == graph.num_regions:
        inner = np.zeros(graph.num_regions, dtype=bool)
        inner[graph.edge_children] = True
        if not (inner & (numbers <= 0))[graph.edge_parents].any():
            return graph.edge_parents, graph.edge_children
    with core_faults():
        return _core.relink(graph.region_offsets, numbers, graph.edge_parents, graph.edge_children)
