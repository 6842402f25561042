"""Variables, regions, edges, counting numbers and schedules."""

from blendfield.graph.builders import (
    chain_graph,
    factor_graph,
    graph_from_networkx,
    grid_graph,
    superpixel_graph,
    tree_graph,
)
from blendfield.graph.counting_numbers import counting_numbers
from blendfield.graph.joining import JoinGraph, join_graph
from blendfield.graph.ragged import Ragged
from blendfield.graph.region_graph import RegionGraph
from blendfield.graph.relinking import relink
from blendfield.graph.schedule import colour_classes, components, forest_classes
from blendfield.graph.union import DisjointUnion, disjoint_union

__all__ = [
    "DisjointUnion",
    "JoinGraph",
    "Ragged",
    "RegionGraph",
    "chain_graph",
    "colour_classes",
    "components",
    "counting_numbers",
    "disjoint_union",
    "factor_graph",
    "forest_classes",
    "graph_from_networkx",
    "grid_graph",
    "join_graph",
    "relink",
    "superpixel_graph",
    "tree_graph",
]
