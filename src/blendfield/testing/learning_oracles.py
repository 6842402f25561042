"""The optimum of learning by SciPy, over weights and messages at once. For small problems only, triples only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog, minimize
from scipy.sparse import block_diag, csr_array, hstack
from scipy.special import logsumexp

from blendfield.graph import RegionGraph
from blendfield.testing.oracles import message_matrix, region_tables

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Example:
    """One sample in dense form; N table entries, K weights."""

    graph: RegionGraph
    features: FloatArray
    """float64 [N, K]"""
    labels: npt.NDArray[np.int64]
    """int64 [V]"""
    loss: FloatArray
    """float64 [N], zero at the true labels"""

    @property
    def truth(self) -> FloatArray:
        """float64 [N]: 1 at every region's true joint label."""
        truth = np.zeros(len(self.loss))
        for region, table in zip(self.graph.regions, region_tables(self.graph, truth), strict=True):
            table[tuple(self.labels[list(region)])] = 1.0
        return truth


def dense_features(graph: RegionGraph, triples: Sequence[tuple[int, int, Any]], size: int) -> FloatArray:
    """float64 [N, K] of (region, weight, table) triples."""
    features = np.zeros((int(graph.table_offsets[-1]), size))
    for region, weight, table in triples:
        full = np.broadcast_to(np.asarray(table, dtype=np.float64), graph.shape(region)).ravel()
        start = int(graph.table_offsets[region])
        features[start : start + full.size, weight] += full
    return features


def hamming_loss(graph: RegionGraph, labels: npt.NDArray[np.int64]) -> FloatArray:
    """float64 [N]: 1 per wrong variable; unobserved ones (-1) cost nothing."""
    loss = np.zeros(int(graph.table_offsets[-1]))
    for region, table in zip(graph.regions, region_tables(graph, loss), strict=True):
        if len(region) == 1 and labels[region[0]] >= 0:
            table[:] = 1.0
            table[labels[region[0]]] = 0.0
    return loss


@dataclass(frozen=True)
class LearningOptimum:
    """The minimum of F over (w, lambda)."""

    value: float
    weights: FloatArray


def learning_optimum(
    examples: Sequence[Example],
    counting_numbers: Sequence[FloatArray],
    epsilon: float,
    C: float | FloatArray,
    l1: float | FloatArray = 0.0,
    lowest: float | FloatArray = -np.inf,
    gamma: float = 0.0,
    highest: float | FloatArray = np.inf,
) -> LearningOptimum:
    """L-BFGS-B on w = positive part - negative part and all messages; epsilon and counting numbers > 0.

    C, l1, lowest and highest (infinite or 0): for all weights, or float [K]. `gamma`: strength of gamma/2 |lambda|^2 on
    the messages (soft marginalisation).
    """
    size = examples[0].features.shape[1]
    strength, sparsity = np.broadcast_to(C, size), np.broadcast_to(l1, size)
    features = np.concatenate([example.features for example in examples])
    base = np.concatenate([example.loss for example in examples])
    truth = np.concatenate([example.truth for example in examples])
    matrix = csr_array(block_diag([message_matrix(example.graph) for example in examples], format="csr"))
    adjoint = csr_array(matrix.T)
    sizes = np.concatenate([example.graph.table_sizes for example in examples])
    starts = np.cumsum(sizes) - sizes
    region = np.repeat(np.arange(len(sizes)), sizes)
    scale = np.repeat(epsilon * np.concatenate(list(counting_numbers)), sizes)

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        positive, negative, messages = x[:size], x[size : 2 * size], x[2 * size :]
        weights = positive - negative
        theta = base + features @ weights
        scaled = (theta + matrix @ messages) / scale
        top = np.maximum.reduceat(scaled, starts)
        terms = np.exp(scaled - top[region])
        sums = np.add.reduceat(terms, starts)
        beliefs = terms / sums[region]
        value = float((scale[starts] * (np.log(sums) + top)).sum() - theta @ truth)
        value += 0.5 * float((strength * weights) @ weights) + float(sparsity @ (positive + negative))
        value += 0.5 * gamma * float(messages @ messages)
        slope = features.T @ (beliefs - truth) + strength * weights
        gradient = np.concatenate([slope + sparsity, -slope + sparsity, adjoint @ beliefs + gamma * messages])
        return value, gradient

    count = 2 * size + matrix.shape[1]
    upper, lower = np.broadcast_to(highest, size), np.broadcast_to(lowest, size)
    bounds: Any = [(0.0, limit) for limit in [*upper, *-lower]] + [(None, None)] * matrix.shape[1]
    options: Any = {"maxiter": 40000, "maxfun": 80000, "ftol": 1e-16, "gtol": 1e-10, "maxcor": 40}
    found = minimize(objective, np.zeros(count), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return LearningOptimum(float(found.fun), found.x[:size] - found.x[size : 2 * size])


def learning_lp(examples: Sequence[Example], l1: float) -> float:
    """The minimum of F + l1 |w|_1 over weights and messages at epsilon = 0, by HiGHS:

    sum_r t_r - theta_r(y_r) + l1 sum_k (p_k + n_k),  t_r >= every entry of hat_r,  w = p - n,  p, n >= 0 .
    """
    features = csr_array(np.concatenate([example.features for example in examples]))
    base = np.concatenate([example.loss for example in examples])
    truth = np.concatenate([example.truth for example in examples])
    matrix = block_diag([message_matrix(example.graph) for example in examples], format="csr")
    sizes = np.concatenate([example.graph.table_sizes for example in examples])
    region = np.repeat(np.arange(len(sizes)), sizes)
    picks = csr_array((np.ones(len(base)), (np.arange(len(base)), region)))
    size = features.shape[1]
    true = features.T @ truth
    costs = np.concatenate([l1 - true, l1 + true, np.zeros(matrix.shape[1]), np.ones(len(sizes))])
    left: Any = hstack([features, -features, matrix, -picks], format="csr")
    bounds: Any = [(0.0, None)] * (2 * size) + [(None, None)] * (matrix.shape[1] + len(sizes))
    found: Any = linprog(costs, A_ub=left, b_ub=-base, bounds=bounds, method="highs")
    if found.status != 0:
        raise RuntimeError(f"HiGHS: {found.message}")
    return float(found.fun) - float(base @ truth)


def exact_marginal_objective(
    examples: Sequence[tuple[RegionGraph, FloatArray, npt.NDArray[np.int64], FloatArray]],
    weights: FloatArray,
    epsilon: float,
) -> float:
    """As `exact_objective`, of examples (graph, features, labels with -1 where unobserved, loss): sum over samples of
    eps log sum_yhat exp((l + w.phi(yhat)) / eps) - eps log of the same sum over the labellings that agree with y."""
    total = 0.0
    for graph, features, labels, loss in examples:
        scores = _scores(graph, loss + features @ weights)
        agreeing = scores[tuple(slice(None) if y < 0 else slice(y, y + 1) for y in labels.tolist())]
        total += float(epsilon * (logsumexp(scores / epsilon) - logsumexp(agreeing / epsilon)))
    return total


def _scores(graph: RegionGraph, theta: FloatArray) -> FloatArray:
    """float64 [n_1, n_2, ...]: the score of every labelling."""
    shape = tuple(int(n) for n in graph.cardinalities)
    scores = np.zeros(shape)
    for scope, table in zip(graph.regions, region_tables(graph, theta), strict=True):
        order = np.argsort(scope)
        scores = scores + table.transpose(order).reshape([n if i in scope else 1 for i, n in enumerate(shape)])
    return scores


def exact_objective(examples: Sequence[Example], weights: FloatArray, epsilon: float) -> float:
    """sum over samples of eps log sum_yhat exp((l + w.phi(yhat)) / eps) - w.phi(y), by enumeration; no regulariser."""
    total = 0.0
    for example in examples:
        scores = _scores(example.graph, example.loss + example.features @ weights)
        total += float(epsilon * logsumexp(scores / epsilon)) if epsilon > 0 else float(scores.max())
        total -= float((example.loss + example.features @ weights) @ example.truth)
    return total
