"""Many graphs as one, so that many models share one compiled problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from blendfield.errors import GraphError
from blendfield.graph.parsing import MAX_COUNT, Int32Array, Int64Array, offsets_of
from blendfield.graph.region_graph import RegionGraph


class DisjointUnion(NamedTuple):
    """graph k's regions are region_starts[k] .. region_starts[k + 1] - 1 of `graph`, its variables likewise.

    region_starts, variable_starts: int64 [number of graphs + 1].
    """

    graph: RegionGraph
    region_starts: Int64Array
    variable_starts: Int64Array


def disjoint_union(graphs: Sequence[RegionGraph]) -> DisjointUnion:
    """The graphs side by side; regions keep their order, appended ones their place, edges are carried over.

    One graph is returned as it is.
    """
    region_starts = offsets_of(np.array([graph.num_regions for graph in graphs], np.int64))
    variable_starts = offsets_of(np.array([graph.num_variables for graph in graphs], np.int64))
    if len(graphs) == 1:
        return DisjointUnion(graphs[0], region_starts, variable_starts)
    num_edges = sum(graph.num_edges for graph in graphs)
    if max(int(region_starts[-1]), int(variable_starts[-1]), num_edges) > MAX_COUNT:
        raise GraphError("the graphs have more than 2^31 - 1 regions, variables or edges together")

    def joined(name: str, starts: Int64Array | None = None) -> Int32Array:
        parts = [np.zeros(0, np.int32), *(getattr(graph, name) for graph in graphs)]
        numbers: Int32Array = np.concatenate(parts)
        if starts is not None:
            lengths = [len(part) for part in parts[1:]]
            numbers += np.repeat(starts[:-1].astype(np.int32), lengths)
        return numbers

    orders = np.concatenate([np.zeros(0, np.int32), *(graph.region_orders for graph in graphs)])
    union = RegionGraph.from_checked_arrays(
        cardinalities=joined("cardinalities"),
        region_offsets=offsets_of(orders),
        region_variables=joined("region_variables", variable_starts),
        edge_parents=joined("edge_parents", region_starts),
        edge_children=joined("edge_children", region_starts),
        num_given=int(region_starts[-1]),
    )
    return DisjointUnion(union, region_starts, variable_starts)
