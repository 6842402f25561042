"""Hypothesis strategies for region graphs, and the definitions they are checked against, word for word."""

import itertools

import numpy as np
from hypothesis import strategies as st

from blendfield.graph import RegionGraph


@st.composite
def region_lists(draw, max_variables=6, max_order=4, max_regions=12):
    """(cardinalities, regions): distinct sets of variables, axes in any order."""
    num_variables = draw(st.integers(1, max_variables))
    cardinalities = draw(st.lists(st.integers(1, 4), min_size=num_variables, max_size=num_variables))
    sets = draw(
        st.lists(
            st.lists(st.integers(0, num_variables - 1), min_size=1, max_size=max_order, unique=True),
            max_size=max_regions,
            unique_by=frozenset,
        )
    )
    return cardinalities, [tuple(region) for region in sets]


@st.composite
def region_graphs(draw, edges=("hasse", "variables", "explicit"), **limits):
    cardinalities, regions = draw(region_lists(**limits))
    kind = draw(st.sampled_from(edges))
    if kind != "explicit":
        return RegionGraph(cardinalities, regions, edges=kind)
    all_regions = [set(region) for region in RegionGraph(cardinalities, regions).regions]
    inclusions = [
        (p, c) for p, c in itertools.permutations(range(len(all_regions)), 2) if all_regions[c] < all_regions[p]
    ]
    chosen = draw(st.lists(st.sampled_from(inclusions), unique=True)) if inclusions else []
    return RegionGraph(cardinalities, regions, edges=chosen)


@st.composite
def pairwise_forests(draw, max_variables=12):
    """A random forest as (number of variables, pairs)."""
    num_variables = draw(st.integers(1, max_variables))
    parents = [draw(st.integers(-1, i - 1)) for i in range(num_variables)]
    names = draw(st.permutations(range(num_variables)))
    return num_variables, [(names[i], names[p]) for i, p in enumerate(parents) if p >= 0]


@st.composite
def hypertrees(draw, max_factors=8):
    """A random tree of factors of order 1 to 4 as (number of variables, factors); two factors share one variable."""
    num_variables, factors = 1, []
    for _ in range(draw(st.integers(0, max_factors))):
        shared = draw(st.integers(0, num_variables - 1))
        order = draw(st.integers(2, 4))
        factors.append((shared, *range(num_variables, num_variables + order - 1)))
        num_variables += order - 1
    return num_variables, factors


def edge_list(graph):
    return list(zip(graph.edge_parents.tolist(), graph.edge_children.tolist(), strict=True))


def brute_force_hasse(regions):
    sets = [set(region) for region in regions]
    n = range(len(sets))
    return [(p, c) for p in n for c in n if sets[c] < sets[p] and not any(sets[c] < sets[q] < sets[p] for q in n)]


def ancestors(edges, region):
    found, stack = set(), [region]
    while stack:
        child = stack.pop()
        for p, c in edges:
            if c == child and p not in found:
                found.add(p)
                stack.append(p)
    return found


def touched(num_regions, edges):
    """{r} + P(r) of every region that has parents."""
    parents = {r: set() for r in range(num_regions)}
    for p, c in edges:
        parents[c].add(p)
    return {r: {r} | above for r, above in parents.items() if above}


def has_conflicts(classes, num_regions, edges):
    """Whether two regions of the same class touch the same region."""
    seen = set()
    for r, regions in touched(num_regions, edges).items():
        for x in regions:
            if (x, classes[r]) in seen:
                return True
            seen.add((x, classes[r]))
    return False


def covering(graph, numbers):
    """Sum of the counting numbers of the regions that contain each variable, [V]."""
    total = np.zeros(graph.num_variables)
    for region, number in zip(graph.regions, numbers, strict=True):
        total[list(region)] += number
    return total
