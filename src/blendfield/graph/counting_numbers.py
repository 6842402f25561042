"""Counting numbers c_r: the weights of the region entropies.

With N_i regions containing variable i, a choice covers i exactly once when the c_r of these regions sum to one; the
program is then an upper bound of the exact value for c_r >= 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield import _core
from blendfield.errors import CountingNumberError
from blendfield.graph.parsing import Int32Array
from blendfield.graph.region_graph import RegionGraph
from blendfield.graph.spanning_trees import edge_appearance

FloatArray = npt.NDArray[np.float64]


def counting_numbers(graph: RegionGraph, spec: str | npt.ArrayLike = "ones") -> FloatArray:
    """One counting number per region, float64 [R], not to be written to.

    "ones"         c_r = 1
    "cover"        strictly positive, local, covers every variable exactly once
    "cover-outer"  the same with nearly all the weight on the outer regions: tighter
    "bethe"        Moebius numbers: exact on forests and junction trees, negative elsewhere
    "trw"          edge appearance probabilities of spanning trees; pairwise graphs only
    an array [R]   as it is
    """
    if isinstance(spec, str):
        if spec not in _BY_NAME:
            names = ", ".join(map(repr, _BY_NAME))
            raise CountingNumberError(f"counting numbers: expected one of {names} or an array, got {spec!r:.60}")
        return _BY_NAME[spec](graph)
    return _from_array(graph, spec)


def _from_array(graph: RegionGraph, spec: Any) -> FloatArray:
    try:
        numbers = np.asarray(spec)
    except (ValueError, TypeError, OverflowError):
        raise CountingNumberError(f"counting numbers: expected {graph.num_regions} real numbers") from None
    if numbers.shape != (graph.num_regions,):
        raise CountingNumberError(
            f"counting numbers: expected one per region, shape ({graph.num_regions},) with the appended "
            f"single-variable regions included; got shape {numbers.shape}"
        )
    if numbers.dtype.kind not in "iuf" and numbers.size:
        raise CountingNumberError(f"counting numbers: expected real numbers, got an array of {numbers.dtype}")
    numbers = numbers.astype(np.float64)
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if wrong.size:
        raise CountingNumberError(f"counting number of region {wrong[0]}: expected finite, got {numbers[wrong[0]]}")
    return numbers


def _ones(graph: RegionGraph) -> FloatArray:
    return np.broadcast_to(np.ones(1), graph.num_regions)


def _cover(graph: RegionGraph) -> FloatArray:
    """c_r = 1 / max over i in r of N_i for larger regions, N_i = number of regions containing i."""
    larger = graph.region_orders > 1
    return _fill_singles(graph, np.where(larger, 1 / _largest_inside(graph, _regions_per_variable(graph)), 0))


def _cover_outer(graph: RegionGraph) -> FloatArray:
    """Outer regions c_a = 0.99 / max d_i (d_i = outer regions containing i), inner larger ones 0.01 of that.

    Where more inner than outer regions meet in a variable, the inner ones share 0.0099 by their own number, so that
    the single variables keep a positive rest.
    """
    larger = graph.region_orders > 1
    is_inner = np.zeros(graph.num_regions, bool)
    is_inner[graph.edge_children] = True
    num_outer = _regions_per_variable(graph, larger & ~is_inner)
    num_inner = _regions_per_variable(graph, larger & is_inner)
    outer = 0.99 / np.maximum(_largest_inside(graph, num_outer), 1)
    inner = 0.0099 / np.maximum(_largest_inside(graph, np.maximum(num_outer, num_inner)), 1)
    return _fill_singles(graph, np.where(larger, np.where(is_inner, inner, outer), 0))


def _bethe(graph: RegionGraph) -> FloatArray:
    """Moebius numbers c_r = 1 - sum of c over ALL ancestors of r."""
    return _core.moebius_numbers(graph.region_offsets, graph.edge_parents, graph.edge_children)


def _trw(graph: RegionGraph) -> FloatArray:
    """c of a pair = probability that a random spanning tree contains it, c_i = 1 - sum of the pairs' at i."""
    larger = np.flatnonzero(graph.region_orders > 2)
    if larger.size:
        region = int(larger[0])
        raise CountingNumberError(
            f"counting numbers 'trw' need regions of at most two variables; region {region} has "
            f"{graph.region_orders[region]}: {graph.regions[region]}"
        )
    pairs = np.flatnonzero(graph.region_orders == 2)
    starts = graph.region_variables[graph.region_offsets[pairs]]
    ends = graph.region_variables[graph.region_offsets[pairs] + 1]
    numbers = np.zeros(graph.num_regions)
    numbers[pairs] = edge_appearance(graph.num_variables, starts, ends)
    return _fill_singles(graph, numbers)


_BY_NAME: dict[str, Callable[[RegionGraph], FloatArray]] = {
    "ones": _ones,
    "cover": _cover,
    "cover-outer": _cover_outer,
    "bethe": _bethe,
    "trw": _trw,
}


def _regions_per_variable(graph: RegionGraph, counted: npt.NDArray[np.bool_] | None = None) -> npt.NDArray[np.intp]:
    """Number of (counted) regions that contain each variable, [V]."""
    variables: Int32Array = graph.region_variables
    if counted is not None:
        variables = variables[np.repeat(counted, graph.region_orders)]
    return np.bincount(variables, minlength=graph.num_variables)


def _largest_inside(graph: RegionGraph, per_variable: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """The largest of a region's variables' numbers, [R]."""
    if graph.num_regions == 0:
        return np.zeros(0, np.intp)
    return np.maximum.reduceat(per_variable[graph.region_variables], graph.region_offsets[:-1])


def _fill_singles(graph: RegionGraph, numbers: FloatArray) -> FloatArray:
    """Given the numbers of the larger regions (singles zero): c_i = 1 - sum of those that contain i."""
    covered = np.bincount(
        graph.region_variables, weights=np.repeat(numbers, graph.region_orders), minlength=graph.num_variables
    )
    numbers[graph.single_regions] = 1 - covered
    return numbers
