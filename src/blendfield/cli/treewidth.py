"""How large tables become when variables are summed out one after the other: an upper bound by a greedy order."""

from __future__ import annotations

import heapq
import math
import time
from dataclasses import dataclass

import numpy as np

from blendfield.graph import RegionGraph


@dataclass(frozen=True)
class Elimination:
    treewidth: int
    """variables of the largest table, less one: no smaller than the true treewidth"""
    log2_largest: float
    """log2 of the entries of the largest table"""
    log2_total: float
    """log2 of the entries of all tables together"""


def eliminate(graph: RegionGraph, seconds: float = 3.0) -> Elimination | None:
    """The order that always takes a variable with the fewest neighbours; None when that takes longer than `seconds`."""
    started = time.perf_counter()
    labels = np.log2(graph.cardinalities).tolist()
    neighbours: dict[int, set[int]] = {}
    for row in np.flatnonzero(graph.region_orders > 1).tolist():
        region = graph.regions[row]
        for i in region:
            neighbours.setdefault(i, set()).update(region)
        if row % 4096 == 0 and time.perf_counter() - started > seconds:
            return None
    # Variables that are alone have tables of their own only.
    width = 0 if graph.num_variables else -1
    alone = [labels[i] for i in range(graph.num_variables) if i not in neighbours]
    largest = max(alone, default=0.0)
    total = math.fsum(2.0**size for size in alone)
    queue = [(len(around), i) for i, around in neighbours.items()]
    heapq.heapify(queue)
    steps = 0
    while queue:
        degree, i = heapq.heappop(queue)
        if i not in neighbours or degree != len(neighbours[i]):
            continue
        clique = neighbours.pop(i)
        width = max(width, len(clique) - 1)
        size = sum(labels[k] for k in clique)
        largest = max(largest, size)
        total += 2.0 ** min(size, 1000.0)
        clique.discard(i)
        for k in clique:
            around = neighbours[k]
            around |= clique
            around.discard(i)
            heapq.heappush(queue, (len(around), k))
        steps += 1 + len(clique) ** 2 // 64
        if steps > 256:
            steps = 0
            if time.perf_counter() - started > seconds:
                return None
    return Elimination(width, largest, math.log2(total) if total else 0.0)
