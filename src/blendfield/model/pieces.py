"""Features of one sample in the three forms the kernels know. `start` is where a region's table begins in the sample's
flat tables (`RegionGraph.table_offsets`); weights are counted within their block.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]

Kind = Literal["triples", "tables", "free", "linear"]


@dataclass(frozen=True)
class BlockShape:
    """The weights of a block as one sample sees them."""

    kind: Kind
    shape: tuple[int, ...]
    """triples: (K,); tables: (m,); free: (n, m) or (n, Y); linear: (Y, F)"""
    region: tuple[int, ...] | None = field(default=None, compare=False)
    """linear, on regions of several variables: their shape, where it is known; weights of tables of another shape would
    mean something else"""


@dataclass(frozen=True)
class Terms:
    """n terms of one table size Y: theta[start_j + y] += w[weight_j] * coefficient_j * tables[table_j, y]."""

    start: Int64Array
    """int64 [n]"""
    weight: Int32Array
    """int32 [n]"""
    coefficient: FloatArray | None
    """float64 [n]; None: ones"""
    table: Int32Array | None
    """int32 [n], row of `tables`; None: term j has row j"""
    tables: FloatArray
    """float64 [rows, Y]"""


@dataclass(frozen=True)
class Rows:
    """n regions of one table size Y with a weight per entry: theta[start_j + y] += w[base_j + y] * coefficient_j."""

    start: Int64Array
    """int64 [n]"""
    base: Int32Array
    """int32 [n]"""
    coefficient: FloatArray | None
    """float64 [n]; None: ones"""
    size: int
    """Y"""


@dataclass(frozen=True)
class Linear:
    """n regions of one table size Y that share weights [Y, F]: theta[start_j + y] += sum_f w[y, f] features[j, f]."""

    start: Int64Array
    """int64 [n]"""
    features: Any
    """float64 [n, F], dense or scipy.sparse CSR"""
    size: int
    """Y"""


Piece = Terms | Rows | Linear


@dataclass(frozen=True)
class BoundBlock:
    """A block of features on one sample's graph."""

    name: str
    shape: BlockShape
    pieces: list[Piece]
