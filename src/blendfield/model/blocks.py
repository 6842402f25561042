"""Named blocks of features. Blocks of the same name, in one sample or in many, share their weights.

`regions` is always an integer array [n] of region indices of the sample's graph; no region twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield.errors import FeatureError
from blendfield.graph import RegionGraph
from blendfield.model.pieces import BlockShape, BoundBlock, FloatArray, Int32Array, Int64Array, Linear, Rows, Terms

MAX_WEIGHTS = 2**31 - 1
TRIPLES = ""
"""name of the block of (region, weight, table) triples"""


@dataclass(frozen=True, eq=False)
class TiedLinear:
    """Weights [Y, F], shared by all regions of the block: theta_r(y) = sum_f w[y, f] features[r, f].

    All regions have the same shape (Y entries); single variables may differ in their number of labels, of which the
    largest is Y.
    """

    name: str
    regions: npt.ArrayLike
    """int [n]"""
    features: Any
    """float [n, F], an array or a scipy.sparse matrix"""

    def bind(self, graph: RegionGraph) -> BoundBlock:
        where, regions = _head(self, graph)
        features = _matrix(self.features, len(regions), where, regions)
        sizes = graph.table_sizes[regions]
        _require_one_shape(graph, regions, where, singles_may_differ=True)
        pieces = []
        for size in np.unique(sizes).tolist():
            chosen = np.flatnonzero(sizes == size)
            some = features if len(chosen) == len(regions) else features[chosen]
            pieces.append(Linear(graph.table_offsets[regions[chosen]], some, size))
        shape = (int(sizes.max(initial=0)), int(features.shape[1]))
        several = len(regions) > 0 and graph.region_orders[regions[0]] > 1
        region = graph.shape(int(regions[0])) if several else None
        return BoundBlock(self.name, BlockShape("linear", shape, region), list(pieces))


@dataclass(frozen=True, eq=False)
class TableFeatures:
    """Weights [m]: theta_r = sum_k w[k] coefficients[r, k] tables[k] (or tables[r, k]). All regions have one shape.

    An Ising term whose strength depends on the contrast x_r of a pair:
    `TableFeatures("pair", pairs, [[[1, -1], [-1, 1]]] * 2, coefficients=np.stack([np.ones(n), x], axis=1))`.
    """

    name: str
    regions: npt.ArrayLike
    """int [n]"""
    tables: npt.ArrayLike
    """float [m, *shape of a region], shared by all, or [n, m, *shape]"""
    coefficients: npt.ArrayLike | None = None
    """float [n, m]; None: ones"""

    def bind(self, graph: RegionGraph) -> BoundBlock:
        where, regions = _head(self, graph)
        terms, count = _table_terms(graph, regions, self.tables, self.coefficients, where)
        weight = np.tile(np.arange(count, dtype=np.int32), len(regions))
        shape = BlockShape("tables", (count,))
        return BoundBlock(self.name, shape, [Terms(weight=weight, **terms)])


@dataclass(frozen=True, eq=False)
class FreeWeights:
    """Every region of the block has weights of its own, the same in all samples by position in `regions`.

    Without `tables` one weight per joint label: weights [n, Y], theta_r(y) = w[r, y] coefficients[r].
    With `tables` weights [n, m]: theta_r = sum_k w[r, k] coefficients[r, k] tables[k] (or tables[r, k]).
    """

    name: str
    regions: npt.ArrayLike
    """int [n]"""
    tables: npt.ArrayLike | None = None
    """float [m, *shape of a region], shared by all, or [n, m, *shape]"""
    coefficients: npt.ArrayLike | None = None
    """float [n], or [n, m] with tables; None: ones"""

    def bind(self, graph: RegionGraph) -> BoundBlock:
        where, regions = _head(self, graph)
        n = len(regions)
        if self.tables is not None:
            terms, count = _table_terms(graph, regions, self.tables, self.coefficients, where)
            weight = np.arange(n * count, dtype=np.int32)
            return BoundBlock(self.name, BlockShape("free", (n, count)), [Terms(weight=weight, **terms)])
        _require_one_shape(graph, regions, where)
        size = int(graph.table_sizes[regions[0]]) if n else 0
        base = np.arange(n, dtype=np.int32) * np.int32(size)
        coefficients = _coefficients(self.coefficients, (n,), where, regions)
        rows = Rows(graph.table_offsets[regions], base, coefficients, size)
        return BoundBlock(self.name, BlockShape("free", (n, size)), [rows])


@dataclass(frozen=True, eq=False)
class FixedPotentials:
    """Known potentials, no weights: as `infer` takes them, -inf included."""

    potentials: Any


Block = TiedLinear | TableFeatures | FreeWeights


def bind_triples(graph: RegionGraph, triples: Sequence[Any]) -> BoundBlock:
    """The paper's phi_{k,r}: (region, weight, table) each, the table broadcastable to the region's shape."""
    by_size: dict[int, list[tuple[int, int, FloatArray]]] = {}
    shapes: dict[int, tuple[int, ...]] = {}
    flattened: dict[tuple[int, tuple[int, ...]], FloatArray] = {}  # tables given again and again are read once
    largest = -1
    for number, triple in enumerate(triples):
        if not isinstance(triple, (tuple, list)) or len(triple) != 3:
            raise FeatureError(f"feature {number}: expected (region, weight, table) or a block of features")
        region = _index(triple[0], graph.num_regions, f"feature {number}: region")
        weight = _index(triple[1], MAX_WEIGHTS, f"feature {number} (region {region}): weight")
        largest = max(largest, weight)
        shape = shapes.get(region)
        if shape is None:
            shape = shapes[region] = graph.shape(region)
        key = id(triple[2]), shape
        table = flattened.get(key)
        if table is None:
            table = flattened[key] = _broadcast(triple[2], shape, f"feature {number} (region {region})")
        by_size.setdefault(len(table), []).append((region, weight, table))
    pieces = []
    for terms in by_size.values():
        terms.sort(key=lambda term: term[0])
        rows: dict[int, int] = {}
        row_of = np.array([rows.setdefault(id(term[2]), len(rows)) for term in terms], dtype=np.int32)
        distinct: list[FloatArray] = [np.zeros(0)] * len(rows)
        for row, term in zip(row_of.tolist(), terms, strict=True):
            distinct[row] = term[2]
        start = graph.table_offsets[np.array([term[0] for term in terms], dtype=np.int64)]
        weight_of = np.array([term[1] for term in terms], dtype=np.int32)
        pieces.append(Terms(start, weight_of, None, row_of, np.stack(distinct)))
    return BoundBlock(TRIPLES, BlockShape("triples", (largest + 1,)), list(pieces))


def _head(block: Block, graph: RegionGraph) -> tuple[str, Int64Array]:
    """(how errors name the block, its regions int64 [n])."""
    if not isinstance(block.name, str) or not block.name:
        raise FeatureError(f"a block of features needs a name, a string that is not empty; got {block.name!r:.60}")
    where = f"block {block.name!r:.60}"
    try:
        regions = np.asarray(block.regions)
    except (ValueError, TypeError, OverflowError):
        raise FeatureError(f"{where}: regions must be an array of integers") from None
    if regions.ndim != 1 or (regions.dtype.kind not in "iu" and regions.size):
        raise FeatureError(f"{where}: regions must be integers [n]; got {regions.dtype} of shape {regions.shape}")
    unknown = np.flatnonzero((regions < 0) | (regions >= graph.num_regions))
    if unknown.size:
        raise FeatureError(
            f"{where}: region {regions[unknown[0]]} is unknown; indices go from 0 to {graph.num_regions - 1}"
        )
    regions = regions.astype(np.int64)
    times = np.bincount(regions, minlength=1)
    if (times > 1).any():
        raise FeatureError(f"{where}: region {int((times > 1).argmax())} is listed more than once")
    return where, regions


def _matrix(features: Any, rows: int, where: str, regions: Int64Array) -> Any:
    """float64 [rows, F], dense and C-contiguous or CSR; finite."""
    matrix: Any
    row_of: Any = None
    if hasattr(features, "tocsr"):
        from scipy.sparse import csr_array

        try:
            matrix = csr_array(features, dtype=np.float64)
        except (TypeError, ValueError):
            raise FeatureError(f"{where}: sparse features must be real numbers") from None
        values = matrix.data
        row_of = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    else:
        matrix = _real(features, f"{where}: features")
        values = matrix
    if matrix.ndim != 2 or matrix.shape[0] != rows:
        raise FeatureError(f"{where}: features must have shape [{rows} regions, F]; got {matrix.shape}")
    bad = ~np.isfinite(values)
    if bad.any():
        row = int(bad.any(axis=1).argmax()) if row_of is None else int(row_of[bad.argmax()])
        raise FeatureError(f"{where}: features of region {regions[row]} hold NaN or infinity; expected finite numbers")
    return matrix


def _table_terms(
    graph: RegionGraph, regions: Int64Array, tables: Any, coefficients: Any, where: str
) -> tuple[dict[str, Any], int]:
    """(start, coefficient, table and tables of n * m terms sorted by position, m)."""
    _require_one_shape(graph, regions, where)
    n = len(regions)
    array = _real(tables, f"{where}: tables")
    shape = graph.shape(int(regions[0])) if n else array.shape[1:]
    own = array.ndim == len(shape) + 2
    expected = (n, *array.shape[1:2], *shape) if own else (*array.shape[:1], *shape)
    if array.shape != expected or array.ndim == len(shape):
        names = ", ".join(map(str, shape))
        raise FeatureError(f"{where}: tables must have shape [m, {names}] or [{n}, m, {names}]; got {array.shape}")
    if not np.isfinite(array).all():
        first = int((~np.isfinite(array)).reshape(len(array), -1).any(axis=1).argmax())
        which = f"of region {regions[first]}" if own else f"number {first}"
        raise FeatureError(f"{where}: the table {which} holds NaN or infinity; expected finite numbers")
    count = array.shape[1] if own else array.shape[0]
    flat = np.ascontiguousarray(array.reshape(-1, int(np.prod(shape, dtype=np.int64))))
    factors = _coefficients(coefficients, (n, count), where, regions)
    start = np.repeat(graph.table_offsets[regions], count)
    table: Int32Array | None = None if own else np.tile(np.arange(count, dtype=np.int32), n)
    return {
        "start": start,
        "coefficient": None if factors is None else factors.reshape(-1),
        "table": table,
        "tables": flat,
    }, count


def _coefficients(given: Any, shape: tuple[int, ...], where: str, regions: Int64Array) -> FloatArray | None:
    if given is None:
        return None
    factors = _real(given, f"{where}: coefficients")
    if factors.shape == shape[:1] and len(shape) == 2 and shape[1] == 1:
        factors = factors.reshape(shape)
    if factors.shape != shape:
        raise FeatureError(f"{where}: coefficients must have shape {shape}; got {factors.shape}")
    bad = ~np.isfinite(factors)
    if bad.any():
        row = int(np.unravel_index(int(bad.argmax()), shape)[0])
        raise FeatureError(f"{where}: the coefficient of region {regions[row]} is not finite")
    return np.ascontiguousarray(factors)


def _require_one_shape(graph: RegionGraph, regions: Int64Array, where: str, singles_may_differ: bool = False) -> None:
    if len(regions) == 0:
        return
    orders = graph.region_orders[regions]
    wrong = orders != orders[0]
    if not (singles_may_differ and orders[0] == 1):
        first = graph.region_offsets[regions]
        shape = graph.shape(int(regions[0]))
        for axis, size in enumerate(shape):
            if wrong.any():
                break
            wrong = graph.cardinalities[graph.region_variables[first + axis]] != size
    if wrong.any():
        region = int(regions[wrong.argmax()])
        raise FeatureError(
            f"{where}: region {region} has shape {graph.shape(region)}, but region {regions[0]} has "
            f"{graph.shape(int(regions[0]))}; expected one shape"
        )


def _broadcast(table: Any, shape: tuple[int, ...], where: str) -> FloatArray:
    """float64 [entries]: `table` broadcast to a region's shape, finite."""
    array = _real(table, f"{where}: table")
    try:
        full = np.broadcast_to(array, shape)
    except ValueError:
        raise FeatureError(f"{where}: a table of shape {array.shape} does not broadcast to {shape}") from None
    if not np.isfinite(full).all():
        raise FeatureError(f"{where}: the table holds NaN or infinity; expected finite numbers")
    return np.ascontiguousarray(full).reshape(-1)


def _real(values: Any, where: str) -> FloatArray:
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        raise FeatureError(f"{where} cannot be read as an array of numbers") from None
    if array.dtype.kind not in "iufb":
        raise FeatureError(f"{where} must be real numbers; got dtype {array.dtype}")
    return np.ascontiguousarray(array, dtype=np.float64) if array.ndim else array.astype(np.float64)


def _index(value: Any, limit: int, what: str) -> int:
    if not isinstance(value, (int, np.integer)) or isinstance(value, (bool, np.bool_)):
        raise FeatureError(f"{what} must be an integer; got {value!r:.60}")
    if not 0 <= value < limit:
        raise FeatureError(f"{what} must be from 0 to {limit - 1}; got {value}")
    return int(value)
