"""Learning and inference, blended, in random fields."""

from blendfield.errors import (
    BlendfieldError,
    BlendfieldWarning,
    CountingNumberError,
    DataNotFoundError,
    FileFormatError,
    GraphError,
    NotEnoughMemoryError,
    OptionError,
    PotentialError,
    SupportError,
    TableSizeError,
)
from blendfield.graph import (
    RegionGraph,
    chain_graph,
    factor_graph,
    graph_from_networkx,
    grid_graph,
    superpixel_graph,
    tree_graph,
)
from blendfield.inference import Anderson, Messages, Progress, Result, infer

__version__ = "0.1.0"

__all__ = [
    "Anderson",
    "BlendfieldError",
    "BlendfieldWarning",
    "CountingNumberError",
    "DataNotFoundError",
    "FileFormatError",
    "GraphError",
    "Messages",
    "NotEnoughMemoryError",
    "OptionError",
    "PotentialError",
    "Progress",
    "RegionGraph",
    "Result",
    "SupportError",
    "TableSizeError",
    "__version__",
    "chain_graph",
    "factor_graph",
    "graph_from_networkx",
    "grid_graph",
    "infer",
    "superpixel_graph",
    "tree_graph",
]
