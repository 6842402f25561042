"""The arithmetic of features on flat tables, in NumPy. n terms or regions, tables of Y entries, K weights.

`flat`, `d`, `b`: float [table layout]; `start` int64 [n]: position of entry 0 of a table in them.
"""

from __future__ import annotations

import numpy as np

from blendfield.backends.protocol import RealArray
from blendfield.model.pieces import FloatArray, Int32Array, Int64Array


def terms_apply(
    start: Int64Array,
    weight: Int32Array,
    coefficient: FloatArray | None,
    table: Int32Array | None,
    tables: FloatArray,
    weights: FloatArray,
    flat: RealArray,
    threads: int,
) -> None:
    """flat[start_j + y] += w[weight_j] coefficient_j tables[table_j, y]."""
    factor = weights[weight] if coefficient is None else weights[weight] * coefficient
    np.add.at(flat, _places(start, tables.shape[1]), factor[:, None] * _rows(table, tables, len(start)))


def terms_moments(
    start: Int64Array,
    weight: Int32Array,
    coefficient: FloatArray | None,
    table: Int32Array | None,
    tables: FloatArray,
    d: RealArray,
    out: FloatArray,
    threads: int,
) -> None:
    """out[weight_j] += coefficient_j <d at start_j, tables[table_j]>."""
    product = (d[_places(start, tables.shape[1])] * _rows(table, tables, len(start))).sum(axis=1)
    product = product if coefficient is None else product * coefficient
    out += np.bincount(weight, product, minlength=len(out))


def terms_curvature(
    start: Int64Array,
    weight: Int32Array,
    coefficient: FloatArray | None,
    table: Int32Array | None,
    tables: FloatArray,
    b: RealArray,
    scale: FloatArray,
    out: FloatArray,
    threads: int,
) -> None:
    """out[weight_j] += scale_j coefficient_j^2 (<b, t^2> - <b, t>^2), t = tables[table_j]."""
    beliefs, rows = b[_places(start, tables.shape[1])], _rows(table, tables, len(start))
    variance = (beliefs * rows * rows).sum(axis=1) - (beliefs * rows).sum(axis=1) ** 2
    variance = variance if coefficient is None else variance * coefficient**2
    out += np.bincount(weight, np.maximum(variance, 0.0) * scale, minlength=len(out))


def free_apply(
    start: Int64Array,
    base: Int32Array,
    coefficient: FloatArray | None,
    size: int,
    weights: FloatArray,
    flat: RealArray,
    threads: int,
) -> None:
    """flat[start_j + y] += w[base_j + y] coefficient_j."""
    values = weights[_places(base, size)]
    np.add.at(flat, _places(start, size), values if coefficient is None else values * coefficient[:, None])


def free_moments(
    start: Int64Array,
    base: Int32Array,
    coefficient: FloatArray | None,
    size: int,
    d: RealArray,
    out: FloatArray,
    threads: int,
) -> None:
    """out[base_j + y] += coefficient_j d[start_j + y]."""
    values = d[_places(start, size)]
    np.add.at(out, _places(base, size), values if coefficient is None else values * coefficient[:, None])


def free_curvature(
    start: Int64Array,
    base: Int32Array,
    coefficient: FloatArray | None,
    size: int,
    b: RealArray,
    scale: FloatArray,
    out: FloatArray,
    threads: int,
) -> None:
    """out[base_j + y] += scale_j coefficient_j^2 b (1 - b) at start_j + y."""
    values = b[_places(start, size)]
    values = values * (1.0 - values) * (scale if coefficient is None else scale * coefficient**2)[:, None]
    np.add.at(out, _places(base, size), values)


def rows_gather(start: Int64Array, size: int, d: RealArray, threads: int) -> FloatArray:
    """float64 [n, Y]: the tables at `start`."""
    return d[_places(start, size)].astype(np.float64)


def rows_add(start: Int64Array, rows: FloatArray, flat: RealArray, threads: int) -> None:
    """Add rows, float64 [n, Y], to the tables at `start`, all different."""
    flat[_places(start, rows.shape[1])] += rows


def _places(start: Int64Array | Int32Array, size: int) -> Int64Array:
    places: Int64Array = start[:, None] + np.arange(size)
    return places


def _rows(table: Int32Array | None, tables: FloatArray, count: int) -> FloatArray:
    """[n, Y]; without `table` the only one, or one for each term."""
    if table is not None:
        return tables[table]
    return tables if len(tables) == count else np.broadcast_to(tables, (count, tables.shape[1]))
