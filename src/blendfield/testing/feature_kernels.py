"""What the kernels of `core/features` compute, in NumPy: same names, same arguments (but threads), obviously right.

Arrays in all of them: flat, d, beliefs float [entries of all tables]; w, gradient float64 [K]; sums float64 [2, K];
start int64 [n], rising where tables are changed; weight, base, table, region int32 [n]; coefficient float64 [n]; scale
float64 [regions]; tables float64 [rows, Y].
No coefficient means 1; no table means row 0 of one, or row j of n.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from blendfield.backends.protocol import FloatArray, IntArray, LabelArray, RealArray


def terms_apply(
    flat: RealArray,
    w: FloatArray,
    start: LabelArray,
    weight: IntArray,
    coefficient: FloatArray | None,
    table: IntArray | None,
    tables: FloatArray,
) -> None:
    """flat[start_j + y] += w[weight_j] coefficient_j tables[table_j, y]"""
    rows = _rows(tables, table, len(start))
    np.add.at(flat, _positions(start, rows.shape[1]), (w[weight] * _factors(coefficient, start))[:, None] * rows)


def terms_moments(
    gradient: FloatArray,
    d: RealArray,
    start: LabelArray,
    weight: IntArray,
    coefficient: FloatArray | None,
    table: IntArray | None,
    tables: FloatArray,
) -> None:
    """gradient[weight_j] += coefficient_j sum_y d[start_j + y] tables[table_j, y]"""
    rows = _rows(tables, table, len(start))
    products = (d[_positions(start, rows.shape[1])] * rows).sum(axis=1)
    np.add.at(gradient, weight, _factors(coefficient, start) * products)


def terms_statistics(
    sums: FloatArray,
    beliefs: RealArray,
    scale: FloatArray,
    region: IntArray,
    start: LabelArray,
    weight: IntArray,
    coefficient: FloatArray | None,
    table: IntArray | None,
    tables: FloatArray,
) -> None:
    """sums[0] as `terms_moments` of the beliefs,

    sums[1, weight_j] += scale[region_j] coefficient_j^2 Var(tables[table_j]) under b = beliefs[start_j ...]
    """
    terms_moments(sums[0], beliefs, start, weight, coefficient, table, tables)
    rows = _rows(tables, table, len(start))
    b = beliefs[_positions(start, rows.shape[1])]
    mean = (b * rows).sum(axis=1, keepdims=True)
    variance = (b * (rows - mean) ** 2).sum(axis=1)
    np.add.at(sums[1], weight, scale[region] * _factors(coefficient, start) ** 2 * variance)


def free_apply(
    flat: RealArray, w: FloatArray, start: LabelArray, base: IntArray, coefficient: FloatArray | None, entries: int
) -> None:
    """flat[start_j + y] += w[base_j + y] coefficient_j"""
    values = w[_positions(base, entries)] * _factors(coefficient, start)[:, None]
    np.add.at(flat, _positions(start, entries), values)


def free_moments(
    gradient: FloatArray, d: RealArray, start: LabelArray, base: IntArray, coefficient: FloatArray | None, entries: int
) -> None:
    """gradient[base_j + y] += coefficient_j d[start_j + y]"""
    values = d[_positions(start, entries)] * _factors(coefficient, start)[:, None]
    np.add.at(gradient, _positions(base, entries), values)


def free_statistics(
    sums: FloatArray,
    beliefs: RealArray,
    scale: FloatArray,
    region: IntArray,
    start: LabelArray,
    base: IntArray,
    coefficient: FloatArray | None,
    entries: int,
) -> None:
    """sums[0] as `free_moments` of the beliefs,

    sums[1, base_j + y] += scale[region_j] coefficient_j^2 b (1 - b),  b = beliefs[start_j + y]
    """
    free_moments(sums[0], beliefs, start, base, coefficient, entries)
    b = beliefs[_positions(start, entries)].astype(np.float64)
    values = (scale[region] * _factors(coefficient, start) ** 2)[:, None] * b * (1.0 - b)
    np.add.at(sums[1], _positions(base, entries), values)


def rows_gather(flat: RealArray, start: LabelArray, entries: int) -> FloatArray:
    """float64 [n, entries]: rows[j, y] = flat[start_j + y]"""
    return flat[_positions(start, entries)].astype(np.float64)


def rows_scatter_add(flat: RealArray, rows: FloatArray, start: LabelArray) -> None:
    """flat[start_j + y] += rows[j, y]"""
    np.add.at(flat, _positions(start, rows.shape[1]), rows)


def _positions(first: npt.NDArray[np.integer], entries: int) -> LabelArray:
    """int64 [n, entries]: first_j + y"""
    return np.asarray(first, dtype=np.int64)[:, None] + np.arange(entries, dtype=np.int64)


def _rows(tables: FloatArray, table: IntArray | None, count: int) -> FloatArray:
    """float64 [n, Y]: the table of each term"""
    if table is not None:
        return tables[table]
    return tables if len(tables) == count else np.repeat(tables, count, axis=0)


def _factors(coefficient: FloatArray | None, start: LabelArray) -> FloatArray:
    return np.ones(len(start)) if coefficient is None else coefficient
