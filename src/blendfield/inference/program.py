"""From graphs and counting numbers to the program that is compiled: relinking, segments, schedule."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield.backends.protocol import FloatArray, IntArray, Program
from blendfield.errors import BlendfieldError, BlendfieldWarning, CountingNumberError
from blendfield.graph import (
    RegionGraph,
    colour_classes,
    components,
    counting_numbers,
    disjoint_union,
    forest_classes,
    relink,
)

BoolArray = npt.NDArray[np.bool_]
LongArray = npt.NDArray[np.int64]

CHUNK_EDGES = 1 << 16

ZERO_REPLACEMENT = 1e-3
"""Zero counting numbers of outer regions become this share of the mean positive one: at 0 descent gets stuck."""


CALLER = 5
"""stack frames from `build_models` up to whoever called `infer`"""


class Kind(IntEnum):
    """What is known about a segment, and so what its numbers mean."""

    CONVEX = 0
    """no negative counting number: F is an upper bound, the certificate a lower one, and sweeps never raise F"""
    EXACT = 1
    """a forest with tree counting numbers: one upward and one downward pass give the exact value"""
    CONCAVE_ENTROPY = 2
    """tree-reweighted: the certificate's dual value is a lower bound, F no upper bound before convergence"""
    UNKNOWN = 3
    """negative counting numbers on a graph with cycles: no bounds"""


@dataclass(frozen=True)
class Models:
    """One or many models as one program. N models, R regions, V variables, S segments, each part of one model."""

    graphs: list[RegionGraph]
    program: Program
    region_starts: LongArray
    """int64 [N+1], regions of model k are region_starts[k]:region_starts[k+1]"""
    variable_starts: LongArray
    """int64 [N+1]"""
    segment_kind: npt.NDArray[np.int8]
    """int8 [S], a `Kind`"""
    segment_model: LongArray
    """int64 [S]"""
    one_sweep: BoolArray
    """bool [S]: one sweep is all there is to do, on exact forests and lone regions"""

    @cached_property
    def num_messages(self) -> int:
        """Entries of all messages; spares the array `message_ends` where that is all one needs."""
        children, sizes = self.program.edge_children, self.program.graph.table_sizes
        parts = range(0, len(children), CHUNK_EDGES)
        return sum(int(sizes[children[first : first + CHUNK_EDGES]].sum()) for first in parts)

    @cached_property
    def message_ends(self) -> LongArray:
        """int64 [E'+1]: the messages of relinked edge e are message_ends[e]:message_ends[e + 1]."""
        sizes = self.program.graph.table_sizes[self.program.edge_children]
        return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])

    def per_model(self, per_segment: FloatArray) -> FloatArray:
        """float64 [N]: sums over the segments of each model."""
        return np.bincount(self.segment_model, weights=per_segment, minlength=len(self.graphs)).astype(np.float64)


def build_models(
    graphs: list[RegionGraph], specs: list[Any], epsilon: float, single: bool, warn_uncertified: bool = True
) -> Models:
    """`graphs`, each with the counting numbers `specs[k]`, as one program. `single`: errors need not name the model.

    `warn_uncertified`: say so when negative counting numbers leave nothing certified.
    """
    union = disjoint_union(graphs)
    per_model = []
    for k, (graph, spec) in enumerate(zip(graphs, specs, strict=True)):
        per_model.append(_model_numbers(graph, spec, epsilon, "" if single else f"model {k}: "))
    numbers = _seen_once(per_model[0] if len(per_model) == 1 else np.concatenate(per_model))
    graph = union.graph
    parents, children = relink(graph, numbers)
    segment, num_segments = components(graph, parents, children)
    segment = _seen_once(segment)
    exact = _exact_segments(numbers, parents, children, segment, num_segments)
    negative = np.zeros(num_segments, dtype=bool)
    negative[segment[numbers < 0]] = True
    if (negative & ~exact).any():
        keep = _not_implied(graph, parents, children, (negative & ~exact)[segment[children]])
        now_exact = _exact_segments(numbers, parents[keep], children[keep], segment, num_segments)
        keep |= ~now_exact[segment[children]]
        parents, children, exact = parents[keep], children[keep], exact | now_exact
    classes, schedule = _schedule(graph, exact, parents, children, segment)

    starts = np.asarray(union.region_starts, dtype=np.int64)
    first_region = np.zeros(num_segments, dtype=np.int64)
    if num_segments > 1:
        first_region[segment[::-1]] = np.arange(graph.num_regions - 1, -1, -1)
    segment_model = np.searchsorted(starts, first_region, side="right") - 1
    reweighted = np.array([isinstance(spec, str) and spec == "trw" for spec in specs], dtype=bool)[segment_model]
    kind = np.select(
        [exact, ~negative, reweighted], [Kind.EXACT, Kind.CONVEX, Kind.CONCAVE_ENTROPY], Kind.UNKNOWN
    ).astype(np.int8)
    if warn_uncertified and (kind == Kind.UNKNOWN).any():
        region = int(np.flatnonzero((numbers < 0) & (kind[segment] == Kind.UNKNOWN))[0])
        model = int(segment_model[segment[region]])
        where = "" if single else f"model {model}: "
        warnings.warn(
            f"{where}region {region - int(starts[model])} has counting number {numbers[region]:g} < 0 and the relinked "
            "graph is no forest with tree counting numbers: the result is not certified",
            BlendfieldWarning,
            stacklevel=CALLER,
        )
    return Models(
        graphs=graphs,
        program=Program(
            graph=graph,
            counting_numbers=numbers,
            edge_parents=parents,
            edge_children=children,
            region_class=classes,
            schedule=schedule,
            segment=segment,
            num_segments=num_segments,
        ),
        region_starts=starts,
        variable_starts=np.asarray(union.variable_starts, dtype=np.int64),
        segment_kind=kind,
        segment_model=segment_model,
        one_sweep=exact | (np.bincount(segment[children], minlength=num_segments) == 0),
    )


def _seen_once(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """`values` [R]; where all are the same, one number seen R times."""
    if len(values) == 0 or not (values == values[0]).all():
        return values
    return np.broadcast_to(values[:1].copy(), len(values))


def _model_numbers(graph: RegionGraph, spec: Any, epsilon: float, where: str) -> FloatArray:
    """float64 [R]: the counting numbers of one model; what cannot be used on outer regions is dealt with here."""
    try:
        numbers = counting_numbers(graph, spec)
    except BlendfieldError as error:
        if where:
            raise type(error)(f"{where}{error}") from error
        raise
    has_parents = np.zeros(graph.num_regions, dtype=bool)
    has_children = np.zeros(graph.num_regions, dtype=bool)
    has_parents[graph.edge_children] = True
    has_children[graph.edge_parents] = True
    outer = has_children & ~has_parents
    if (outer & (numbers < 0)).any():
        region = int((outer & (numbers < 0)).argmax())
        raise CountingNumberError(
            f"{where}region {region} is an outer region with children: its counting number must be > 0; "
            f"got {numbers[region]:g}"
        )
    zero = outer & (numbers == 0)
    if zero.any():
        positive = numbers[numbers > 0]
        replacement = ZERO_REPLACEMENT * (float(positive.mean()) if len(positive) else 1.0)
        numbers = np.where(zero, replacement, numbers)
        if epsilon > 0:  # at epsilon = 0 they do not change the program, only the way to its optimum
            warnings.warn(
                f"{where}{int(zero.sum())} outer regions have counting number 0, first region {int(zero.argmax())}; "
                f"{replacement:g} is used there, since message passing gets stuck at 0",
                BlendfieldWarning,
                stacklevel=CALLER + 1,
            )
    return numbers


def _exact_segments(
    numbers: FloatArray, parents: IntArray, children: IntArray, segment: IntArray, num_segments: int
) -> BoolArray:
    """bool [S]: trees on which an upward and a downward pass are exact.

    A segment is a tree when it has one edge less than regions. The update is ordinary belief propagation when

        c_p = c_r + sum_{p' in P(r)} c_p'     on every edge (p, r),

    as with the Moebius numbers "bethe".
    """
    regions_in = np.bincount(segment, minlength=num_segments)
    edges_in = np.bincount(segment[children], minlength=num_segments)
    tree = (edges_in == regions_in - 1) & (edges_in > 0)
    if not tree.any():
        return np.asarray(tree)
    total = numbers + np.bincount(children, weights=numbers[parents], minlength=len(numbers))
    propagates = np.abs(numbers[parents] - total[children]) <= 1e-12 * np.abs(numbers[parents])
    broken = np.bincount(segment[children], weights=~propagates, minlength=num_segments) > 0
    return np.asarray(tree & ~broken)


def _not_implied(graph: RegionGraph, parents: IntArray, children: IntArray, wanted: BoolArray) -> BoolArray:
    """bool [E']: False for edges whose constraint follows from others; looks at the edges `wanted`, bool [E'], only.

    When p and p' both have a child s that contains r, they agree on r because they agree on s: of the edges (p, r) and
    (p', r) one is enough. Relinked junction trees become trees that way.
    """
    from scipy.sparse import coo_array  # slow to import, seldom needed
    from scipy.sparse.csgraph import connected_components

    edges = np.flatnonzero(wanted)
    # All pairs (e, f) of edges with the same parent; edges are sorted by parent.
    first = np.searchsorted(parents[edges], parents[edges], side="left")
    count = np.searchsorted(parents[edges], parents[edges], side="right") - first
    e = np.repeat(np.arange(len(edges)), count)
    f = np.arange(len(e)) - np.repeat(np.cumsum(count) - count - first, count)
    r, s = children[edges[e]], children[edges[f]]
    contained = _contained(graph, r, s)
    e, pair = e[contained], r[contained].astype(np.int64) * graph.num_regions + s[contained]
    # Edges (p, r) that share a pair (r, s) hang together; the first of each component stays.
    names, pair = np.unique(pair, return_inverse=True)
    size = len(edges) + len(names)
    links = coo_array((np.ones(len(e), dtype=bool), (e, len(edges) + pair)), shape=(size, size))
    component = connected_components(links, directed=False)[1][: len(edges)]
    keep = ~wanted
    keep[edges[np.unique(component, return_index=True)[1]]] = True
    return keep


def _contained(graph: RegionGraph, inner: IntArray, outer: IntArray) -> BoolArray:
    """bool [n]: region inner[k] is a strict part of region outer[k]."""
    orders = np.diff(graph.region_offsets)
    contained: BoolArray = orders[inner] < orders[outer]
    for a in range(int(orders[inner].max(initial=0))):
        some = np.flatnonzero(contained & (a < orders[inner]))
        variable = graph.region_variables[graph.region_offsets[inner[some]] + a]
        found = np.zeros(len(some), dtype=bool)
        for b in range(int(orders[outer[some]].max(initial=0))):
            there = np.flatnonzero(b < orders[outer[some]])
            places = graph.region_offsets[outer[some[there]]] + b
            found[there] |= graph.region_variables[places] == variable[there]
        contained[some[~found]] = False
    return contained


def _schedule(
    graph: RegionGraph, exact: BoolArray, parents: IntArray, children: IntArray, segment: IntArray
) -> tuple[npt.NDArray[np.int8] | IntArray, IntArray]:
    """(region_class [R], schedule): two passes for the forests that are exact, colour classes for the rest."""
    if not exact.any() and len(children):
        classes = colour_classes(graph, parents, children)
        return _narrow(classes), np.arange(int(classes.max()) + 1, dtype=np.int32)
    classes = np.full(graph.num_regions, -1, dtype=np.int32)
    steps: list[int] = []
    on_forest = exact[segment[children]]
    if on_forest.any():
        passes = forest_classes(graph, parents[on_forest], children[on_forest])
        assert passes is not None  # one edge less than regions
        used = exact[segment] & (passes >= 0)
        classes[used] = passes[used]
        depth = int(passes[used].max(initial=-1)) + 1
        steps = [*range(depth), *range(depth - 2, -1, -1)]
    rest = ~on_forest
    if rest.any():
        first = max(steps, default=-1) + 1
        colours = colour_classes(graph, parents[rest], children[rest])
        used = ~exact[segment] & (colours >= 0)
        classes[used] = colours[used] + first
        steps += range(first, first + int(colours[used].max(initial=-1)) + 1)
    return _narrow(classes), np.array(steps, dtype=np.int32)


def _narrow(classes: IntArray) -> npt.NDArray[np.int8] | IntArray:
    """`classes` [R] in as few bytes as will do."""
    return classes.astype(np.int8) if classes.max(initial=-1) < np.iinfo(np.int8).max else classes
