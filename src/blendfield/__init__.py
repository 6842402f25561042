"""Learning and inference, blended, in random fields.

Names are imported with the room that holds them, when they are first asked for: `import blendfield` by itself loads
nothing heavy, not even NumPy.
"""

import importlib
import logging
from typing import TYPE_CHECKING

from blendfield.errors import (
    BlendfieldError,
    BlendfieldWarning,
    CheckpointError,
    CountingNumberError,
    DataNotFoundError,
    EngineError,
    FeatureError,
    FileFormatError,
    GraphError,
    ImageError,
    LabelError,
    LossError,
    MissingExtraError,
    NotEnoughMemoryError,
    NotFittedError,
    OptionError,
    PotentialError,
    SupportError,
    TableSizeError,
)

if TYPE_CHECKING:  # what the names below are; at run time `__getattr__` looks them up
    from blendfield.estimators import ChainClassifier, GraphClassifier, GridClassifier
    from blendfield.formats import (
        Shards,
        read_cfn,
        read_evidence,
        read_fg,
        read_mar,
        read_model,
        read_mpe,
        read_pr,
        read_uai,
        read_wcsp,
        write_evidence,
        write_fg,
        write_mar,
        write_model,
        write_mpe,
        write_pr,
        write_shards,
        write_uai,
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
    from blendfield.inference import Anderson, Messages, Progress, Result
    from blendfield.inference.infer import infer  # not from the room: its module of that name confuses mypy
    from blendfield.learning import BlendedLearner, StructuredLoss, TrainingProgress, infer_in_parts
    from blendfield.model import FixedPotentials, FreeWeights, Sample, TableFeatures, TiedLinear, WeightedHamming

logging.getLogger("blendfield").addHandler(logging.NullHandler())  # the program that uses us decides

__version__ = "0.1.0"

__all__ = [
    "Anderson",
    "BlendedLearner",
    "BlendfieldError",
    "BlendfieldWarning",
    "ChainClassifier",
    "CheckpointError",
    "CountingNumberError",
    "DataNotFoundError",
    "EngineError",
    "FeatureError",
    "FileFormatError",
    "FixedPotentials",
    "FreeWeights",
    "GraphClassifier",
    "GraphError",
    "GridClassifier",
    "ImageError",
    "LabelError",
    "LossError",
    "Messages",
    "MissingExtraError",
    "NotEnoughMemoryError",
    "NotFittedError",
    "OptionError",
    "PotentialError",
    "Progress",
    "RegionGraph",
    "Result",
    "Sample",
    "Shards",
    "StructuredLoss",
    "SupportError",
    "TableFeatures",
    "TableSizeError",
    "TiedLinear",
    "TrainingProgress",
    "WeightedHamming",
    "__version__",
    "chain_graph",
    "factor_graph",
    "graph_from_networkx",
    "grid_graph",
    "infer",
    "infer_in_parts",
    "read_cfn",
    "read_evidence",
    "read_fg",
    "read_mar",
    "read_model",
    "read_mpe",
    "read_pr",
    "read_uai",
    "read_wcsp",
    "superpixel_graph",
    "tree_graph",
    "write_evidence",
    "write_fg",
    "write_mar",
    "write_model",
    "write_mpe",
    "write_pr",
    "write_shards",
    "write_uai",
]

# In the order of their imports, so that a name is found before anything heavier is loaded.
_ROOMS = ("graph", "backends", "model", "inference", "formats", "engines", "learning", "estimators")


def __getattr__(name: str) -> object:
    if name in _ROOMS:
        return importlib.import_module(f"blendfield.{name}")
    if name in __all__:
        for room in _ROOMS:
            module = importlib.import_module(f"blendfield.{room}")
            if hasattr(module, name):
                globals()[name] = value = getattr(module, name)
                return value
    raise AttributeError(f"module 'blendfield' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS})
