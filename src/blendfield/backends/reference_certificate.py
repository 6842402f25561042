"""Consistent beliefs and the gap they certify (mathematics §6), for the reference backend.

Whatever the messages, any point q of the local polytope bounds the optimum from below by D(q) <= optimum <= F, and

    F - D(q) = sum_r eps c_r KL(q_r || b_r)          [at eps c_r = 0: extremum of hat_r - <q_r, hat_r>]

so the quality of the bound is only a matter of finding q close to the beliefs b.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import xlogy

from blendfield.backends.protocol import FloatArray
from blendfield.backends.reference_tables import BoolArray, Link, soft_max

if TYPE_CHECKING:
    from blendfield.backends.reference import ReferenceProblem

SCALING_ROUNDS = 200
SCALING_RESIDUAL = 1e-13
PROJECTIONS = 3


def consistent_beliefs(problem: ReferenceProblem, beliefs: list[FloatArray]) -> tuple[list[FloatArray], BoolArray]:
    """A point q of the local polytope near `beliefs`, by region, and bool [num_segments]: where none was found.

    Each segment is treated by itself: by scaling where labels are forbidden, else by rounding when all children are
    single variables, else by projection.
    """
    segment, count = problem.program.segment, problem.program.num_segments
    forbidden, deep, failed = (np.zeros(count, dtype=bool) for _ in range(3))
    for r, support in enumerate(problem.support):
        forbidden[segment[r]] |= not support.all()
    for link in problem.links:
        deep[segment[link.child]] |= len(problem.regions[link.child]) > 1

    candidate = list(beliefs)
    projected = [r for r in range(len(beliefs)) if deep[segment[r]] and not forbidden[segment[r]]]
    if projected:
        for r, table in zip(projected, _project_and_mix(problem, beliefs, projected), strict=True):
            candidate[r] = table
    for r in sorted(range(len(beliefs)), key=lambda r: len(problem.regions[r])):  # children before parents
        children = [(link, candidate[link.child]) for link in problem.links_down[r]]
        if forbidden[segment[r]]:
            candidate[r], converged = _scale_to_children(candidate[r], children)
            failed[segment[r]] |= not converged
        elif children and not deep[segment[r]]:
            # The result depends on the order; every backend takes the axes by label count, then variable.
            children.sort(key=lambda pair: (pair[1].size, problem.regions[pair[0].child][0]))
            candidate[r] = _round_to_children(candidate[r], children)
    return candidate, failed


def gaps(problem: ReferenceProblem, candidate: list[FloatArray]) -> FloatArray:
    """float64 [R]: eps c_r sum(q log(q/b) - q + b), q the consistent `candidate`, b the beliefs at epsilon."""
    result = np.zeros(len(candidate))
    for r, q in enumerate(candidate):
        c = float(problem.counting_numbers[r])
        scale = problem.epsilon * c
        hat = problem.hat(r)[problem.support[r]]
        q = q[problem.support[r]]
        value = float(soft_max(hat, problem.epsilon, c))
        if scale == 0.0:
            gap = value - float(q @ hat)
        else:
            log_b = (hat - value) / scale  # not log(b): b may be too small to be represented
            gap = scale * float(np.sum(xlogy(q, q) - q * log_b - q + np.exp(log_b)))
        result[r] = max(gap, 0.0) if c >= 0.0 else min(gap, 0.0)  # the other sign is rounding
    return result


def _round_to_children(table: FloatArray, children: list[tuple[Link, FloatArray]]) -> FloatArray:
    """For single-variable children: scale until no marginal is too large, then add the product of what is missing."""
    for link, q in children:
        marginal = link.down(table)
        ratio = np.divide(q, marginal, out=np.ones_like(q), where=marginal > q)
        table = table * link.up(ratio)
    missing = [np.maximum(q - link.down(table), 0.0) for link, q in children]
    delta = 1.0 - float(table.sum())
    if delta <= 0.0 or min(float(e.sum()) for e in missing) <= 0.0:
        return table
    # prod_i e_i / delta^(k-1), each e_i of mass delta; uniform over the variables that are no children
    filling = np.full(table.shape, delta / table.size)
    for (link, q), e in zip(children, missing, strict=True):
        filling = filling * link.up(e / e.sum() * q.size)
    return np.asarray(table + filling)


def _scale_to_children(table: FloatArray, children: list[tuple[Link, FloatArray]]) -> tuple[FloatArray, bool]:
    """Iterative scaling of `table`, zeros staying zero, to the children's marginals; and whether that was reached."""
    for _ in range(SCALING_ROUNDS + 1):
        residual = max((float(np.abs(link.down(table) - q).max()) for link, q in children), default=0.0)
        if residual <= SCALING_RESIDUAL:
            return table, True
        for link, q in children:
            marginal = link.down(table)
            usable = marginal >= np.finfo(np.float64).tiny  # q / marginal must not overflow
            table = table * link.up(np.divide(q, marginal, out=np.zeros_like(q), where=usable))
    return table, False


def _project_and_mix(problem: ReferenceProblem, beliefs: list[FloatArray], chosen: list[int]) -> list[FloatArray]:
    """Alternate projection and absolute value, then mix each segment with the uniform point as much as it needs."""
    terms = _projection_terms(problem, chosen)
    tables = _project(problem, terms, {r: beliefs[r] for r in chosen})
    for _ in range(PROJECTIONS - 1):
        if all(float(table.min()) >= 0.0 for table in tables.values()):
            break
        tables = _project(problem, terms, {r: np.abs(table) for r, table in tables.items()})
    mixing = np.zeros(problem.program.num_segments)
    for r, table in tables.items():
        least, uniform = float(table.min()), 1.0 / table.size
        if least < 0.0:
            s = problem.program.segment[r]
            mixing[s] = max(mixing[s], min(1.0, (1.0 + 1e-12) * -least / (uniform - least)))
    result = []
    for r, table in tables.items():
        part = mixing[problem.program.segment[r]]
        result.append(np.maximum((1.0 - part) * table + part / table.size, 0.0))
    return result


@dataclass(frozen=True)
class _ProjectionTerm:
    """One marginal that several regions share: its variables, sorted, and the regions that must agree on it."""

    variables: tuple[int, ...]
    regions: list[int]


def _projection_terms(problem: ReferenceProblem, chosen: list[int]) -> list[_ProjectionTerm]:
    """For each non-empty subset S of a child: components of the regions with S, through edges whose child has S.

    Variables with a single label constrain nothing and are left out.
    """
    among = set(chosen)
    labels = problem.program.graph.cardinalities
    links = [link for link in problem.links if link.child in among]
    links_of_subset: dict[tuple[int, ...], list[Link]] = {}
    for link in links:
        child = sorted(v for v in problem.regions[link.child] if labels[v] > 1)
        for size in range(1, len(child) + 1):
            for subset in itertools.combinations(child, size):
                links_of_subset.setdefault(subset, []).append(link)
    terms = []
    for subset, edges in links_of_subset.items():
        nodes = sorted({r for link in edges for r in (link.parent, link.child)})
        place = {r: k for k, r in enumerate(nodes)}
        pairs = [[place[link.parent] for link in edges], [place[link.child] for link in edges]]
        matrix = coo_array((np.ones(len(edges)), pairs), shape=(len(nodes), len(nodes)))
        count, component = connected_components(matrix, directed=False)
        for k in range(count):
            terms.append(_ProjectionTerm(subset, [nodes[j] for j in np.flatnonzero(component == k)]))
    return terms


def _project(
    problem: ReferenceProblem, terms: list[_ProjectionTerm], tables: dict[int, FloatArray]
) -> dict[int, FloatArray]:
    """Euclidean projection of normalised tables onto the marginalisation constraints, in closed form.

    With m_S^r the pure interaction of the marginal of b_r on S and v_r = |Y_r| / |Y_S|: b_r += (g_S - m_S^r) / v_r,
    g_S = sum_r (m_S^r / v_r) / sum_r (1 / v_r).
    """
    tables = {r: table / table.sum() for r, table in tables.items()}
    result = dict(tables)
    for term in terms:
        pure = {r: _pure_marginal(tables[r], problem.regions[r], term.variables) for r in term.regions}
        volume = {r: tables[r].size / pure[r].size for r in term.regions}
        common = sum(pure[r] / volume[r] for r in term.regions) / sum(1.0 / volume[r] for r in term.regions)
        for r in term.regions:
            order = [term.variables.index(v) for v in problem.regions[r] if v in term.variables]
            shape = [
                n if v in term.variables else 1 for v, n in zip(problem.regions[r], problem.shapes[r], strict=True)
            ]
            result[r] = result[r] + ((common - pure[r]) / volume[r]).transpose(order).reshape(shape)
    return result


def _pure_marginal(table: FloatArray, region: tuple[int, ...], variables: tuple[int, ...]) -> FloatArray:
    """Marginal on `variables` (axes in that order) with its mean along every axis removed."""
    remaining = [v for v in region if v in variables]
    marginal = table.sum(axis=tuple(k for k, v in enumerate(region) if v not in variables))
    marginal = marginal.transpose([remaining.index(v) for v in variables])
    for axis in range(marginal.ndim):
        marginal = marginal - marginal.mean(axis=axis, keepdims=True)
    return np.asarray(marginal)
