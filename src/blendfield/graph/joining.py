"""The same scores over larger regions: join graphs, of which relaxations are tighter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from blendfield import _core
from blendfield.graph.parsing import Int32Array
from blendfield.graph.ragged import Ragged
from blendfield.graph.region_graph import RegionGraph


@dataclass(frozen=True)
class JoinGraph:
    """What joining made of a graph with R regions; the variables are the same."""

    source: RegionGraph
    graph: RegionGraph
    holder: Int32Array
    """int32 [R]: the region of `graph` that takes over the table of a region of `source`"""
    exact: bool
    """`graph` is a junction tree: with the counting numbers "bethe" its relaxation is exact"""

    def tables(self, tables: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """The same scores, float64 [table layout of `graph`], of `tables`, float [table layout of `source`]."""
        source, graph = self.source, self.graph
        flat: npt.NDArray[np.float64] = _core.join_tables(
            source.cardinalities,
            source.region_offsets,
            source.region_variables,
            source.table_offsets,
            np.ascontiguousarray(tables, dtype=np.float64),
            graph.region_offsets,
            graph.region_variables,
            graph.table_offsets,
            self.holder,
        )
        return flat


def join_graph(graph: RegionGraph, most_entries: float) -> JoinGraph:
    """Regions joined along an order of elimination, as long as a joint table has at most `most_entries` entries."""
    offsets, variables, holder, exact = _core.join_regions(
        graph.cardinalities, graph.region_offsets, graph.region_variables, graph.table_offsets, float(most_entries)
    )
    return JoinGraph(graph, RegionGraph(graph.cardinalities, Ragged(offsets, variables)), holder, exact)
