"""Answers by brute force or by SciPy, sharing no code with any backend. For small models only.

Tables are flat, float64 [graph.table_offsets[-1]], as in `backends.protocol`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog, minimize
from scipy.sparse import csr_array, hstack, vstack
from scipy.special import logsumexp

from blendfield.graph import RegionGraph

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Exact:
    """What enumeration over all labellings knows."""

    value: float
    """eps log sum exp(score / eps); the best score at eps = 0"""
    marginals: FloatArray
    """float64 [tables layout], marginals of every region; at eps = 0 those of the uniform choice of a best labelling"""
    labels: npt.NDArray[np.int64]
    """int64 [V], a labelling of the best score, the lexicographically lowest one"""
    score: float
    """its score"""


def region_tables(graph: RegionGraph, flat: FloatArray) -> list[FloatArray]:
    """One table per region, in the region's own axes."""
    offsets = graph.table_offsets
    return [flat[offsets[r] : offsets[r + 1]].reshape(graph.shape(r)) for r in range(graph.num_regions)]


def enumerate_exact(graph: RegionGraph, tables: FloatArray, epsilon: float) -> Exact:
    """Sum, or maximise, over all labellings."""
    shape = tuple(int(n) for n in graph.cardinalities)
    scores = np.zeros(shape)
    for region, table in zip(graph.regions, region_tables(graph, tables), strict=True):
        order = np.argsort(region)
        scores = scores + table.transpose(order).reshape([n if i in region else 1 for i, n in enumerate(shape)])
    best = float(scores.max())
    if epsilon > 0.0:
        value = float(epsilon * logsumexp(scores / epsilon))
        weights = np.exp((scores - value) / epsilon)
    else:
        value = best
        weights = (scores >= best - 1e-9 * (1.0 + abs(best))).astype(np.float64)
    weights = weights / weights.sum()
    marginals = []
    for region in graph.regions:
        kept = sorted(region)
        marginal = weights.sum(axis=tuple(i for i in range(len(shape)) if i not in region))
        marginals.append(marginal.transpose([kept.index(i) for i in region]).ravel())
    labels = np.array(np.unravel_index(int(np.argmax(scores)), shape), dtype=np.int64)
    return Exact(value, np.concatenate(marginals), labels, best)


def message_matrix(graph: RegionGraph) -> csr_array:
    """Sparse [table entries, message entries], edges of the user's graph: hat = theta + matrix @ messages.

    Its transpose times the beliefs is the inconsistency of every edge, marginal of the parent minus child, which is
    also the gradient of F with respect to the messages.
    """
    blocks = [csr_array((int(graph.table_offsets[-1]), 0))]
    for parent, child in zip(graph.edge_parents.tolist(), graph.edge_children.tolist(), strict=True):
        outer, inner = list(graph.regions[parent]), list(graph.regions[child])
        size = int(graph.table_sizes[child])
        shared = [i for i in outer if i in inner]
        columns = np.arange(size).reshape(graph.shape(child)).transpose([inner.index(i) for i in shared])
        columns = columns.reshape([n if i in inner else 1 for i, n in zip(outer, graph.shape(parent), strict=True)])
        columns = np.broadcast_to(columns, graph.shape(parent)).ravel()
        rows = np.arange(columns.size) + int(graph.table_offsets[parent])
        all_rows = np.concatenate([rows, np.arange(size) + int(graph.table_offsets[child])])
        all_columns = np.concatenate([columns, np.arange(size)])
        signs = np.concatenate([np.ones(columns.size), -np.ones(size)])
        blocks.append(csr_array((signs, (all_rows, all_columns)), shape=(int(graph.table_offsets[-1]), size)))
    return csr_array(hstack(blocks, format="csr"))


def joint_optimum(
    graph: RegionGraph, tables: FloatArray, counting_numbers: FloatArray, epsilon: float, iterations: int = 20000
) -> float:
    """The minimum of F over all messages at once (L-BFGS-B), for positive counting numbers and epsilon.

    With forbidden labels the infimum may lie at infinity; the value returned is then slightly above it.
    """
    if epsilon <= 0.0 or np.min(counting_numbers) <= 0.0:
        raise ValueError("joint_optimum needs positive epsilon and counting numbers: F must be smooth")
    matrix = message_matrix(graph)
    adjoint = csr_array(matrix.T)
    scale = np.repeat(epsilon * np.asarray(counting_numbers), graph.table_sizes)
    starts = graph.table_offsets[:-1]
    region = np.repeat(np.arange(graph.num_regions), graph.table_sizes)

    def value_and_gradient(messages: FloatArray) -> tuple[float, FloatArray]:
        scaled = (tables + matrix @ messages) / scale
        top = np.maximum.reduceat(scaled, starts)
        weights = np.exp(scaled - top[region])
        sums = np.add.reduceat(weights, starts)
        value = float(np.sum(scale[starts] * (np.log(sums) + top)))
        return value, adjoint @ (weights / sums[region])

    options: Any = {"maxiter": iterations, "maxfun": 2 * iterations, "ftol": 1e-16, "gtol": 1e-11, "maxcor": 30}
    start = np.zeros(matrix.shape[1])
    if start.size == 0:
        return value_and_gradient(start)[0]
    return float(minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", options=options).fun)


def lp_optimum(graph: RegionGraph, tables: FloatArray) -> float:
    """The best score over the local polytope (HiGHS), the optimum at eps = 0.

    Forbidden entries carry no mass; -inf where no point of the polytope is left.
    """
    forbidden = np.isneginf(tables)
    region = np.repeat(np.arange(graph.num_regions), graph.table_sizes)
    entries = np.arange(region.size)
    normalised = csr_array((np.ones(region.size), (region, entries)), shape=(graph.num_regions, region.size))
    constraints: Any = vstack([csr_array(message_matrix(graph).T), normalised], format="csr")
    right = np.concatenate([np.zeros(constraints.shape[0] - graph.num_regions), np.ones(graph.num_regions)])
    bounds: Any = np.stack([np.zeros(region.size), np.where(forbidden, 0.0, 1.0)], axis=1)
    result: Any = linprog(
        -np.where(forbidden, 0.0, tables), A_eq=constraints, b_eq=right, bounds=bounds, method="highs"
    )
    if result.status == 2:
        return -np.inf
    if result.status != 0:
        raise RuntimeError(f"HiGHS: {result.message}")
    return -float(result.fun)
