"""Edge appearance probabilities: how likely a random spanning tree contains an edge."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield import _core
from blendfield.graph.parsing import Int32Array

FloatArray = npt.NDArray[np.float64]

_LARGEST_DENSE = 2000  # variables of a component whose Laplacian is inverted
_ENTRIES_AT_ONCE = 2**22  # of stacked Laplacians
_USES = 3  # of every edge, where trees are drawn


def edge_appearance(num_variables: int, starts: Int32Array, ends: Int32Array) -> FloatArray:
    """A distribution over spanning forests: the probability of every edge, float64 [L], in (0, 1].

    starts, ends: int32 [L], the variables at both ends of every edge.
    Small components: uniform over all spanning trees, by Kirchhoff's theorem the edge's effective resistance. Large
    ones: uniform over trees drawn so that every edge is in several of them. Any such distribution serves.
    """
    component, count = _core.components(num_variables, starts, ends)
    sizes = np.bincount(component, minlength=count)
    edge_component = component[starts]
    num_edges = np.bincount(edge_component, minlength=count)
    probabilities = np.ones(len(starts))  # right where the component is a tree
    has_cycle = num_edges >= sizes
    dense = has_cycle & (sizes <= _LARGEST_DENSE)
    for size in np.unique(sizes[dense]):
        chosen = np.flatnonzero(dense & (sizes == size))
        at_once = max(1, _ENTRIES_AT_ONCE // int(size) ** 2)
        for first in range(0, len(chosen), at_once):
            _by_resistance(probabilities, chosen[first : first + at_once], component, starts, ends)
    drawn = (has_cycle & ~dense)[edge_component]
    if drawn.any():
        uses, trees = _core.spanning_tree_uses(
            num_variables, np.ascontiguousarray(starts[drawn]), np.ascontiguousarray(ends[drawn]), _USES, 0
        )
        probabilities[drawn] = uses / trees
    return probabilities


def _by_resistance(
    probabilities: FloatArray, chosen: npt.NDArray[Any], component: Int32Array, starts: Int32Array, ends: Int32Array
) -> None:
    """Fills in the edges of the chosen components, all of the same size n: with the Laplacian L,
    R_ij = (e_i - e_j)' L^+ (e_i - e_j), and L^+ may be replaced by (L + 1 1'/n)^-1."""
    place = np.full(int(component.max()) + 1, -1)
    place[chosen] = np.arange(len(chosen))
    members = np.flatnonzero(place[component] >= 0)
    members = members[np.argsort(component[members], kind="stable")]
    n = len(members) // len(chosen)
    local = np.zeros(len(component), np.intp)
    local[members] = np.tile(np.arange(n), len(chosen))
    edges = np.flatnonzero(place[component[starts]] >= 0)
    k, i, j = place[component[starts[edges]]], local[starts[edges]], local[ends[edges]]
    laplacians = np.full((len(chosen), n, n), 1 / n)
    for row, column, weight in ((i, i, 1), (j, j, 1), (i, j, -1), (j, i, -1)):
        np.add.at(laplacians, (k, row, column), weight)
    inverse = np.linalg.inv(laplacians)
    probabilities[edges] = np.minimum(inverse[k, i, i] + inverse[k, j, j] - 2 * inverse[k, i, j], 1)
