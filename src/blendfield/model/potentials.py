"""Potentials in every accepted form become one flat table array, checked once and for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from blendfield.backends.protocol import DataType, RealArray
from blendfield.errors import PotentialError
from blendfield.graph import RegionGraph

LARGEST = {"float64": 1e100, "float32": 1e30}
"""Largest finite potential in absolute value: sums of many of them must stay finite."""

CHUNK_ENTRIES = 1 << 20


def flatten_potentials(graph: RegionGraph, potentials: Any, dtype: DataType = "float64") -> RealArray:
    """All potentials as one flat array [graph.table_offsets[-1]]: region after region, each in C order in its own axes.

    Accepted forms, R regions of which the user gave G:

    * a sequence of G or R array-likes, each of its region's shape; None stands for zeros;
    * a bulk pair (region indices int [n], tables [n, ...]), all of one shape, or a list of such pairs; zeros
      elsewhere;
    * one flat array in the layout returned here (not copied when it is of `dtype` already).

    Values are real numbers or -inf (forbidden).
    """
    flat = (
        _from_flat(graph, potentials, dtype)
        if _is_flat(potentials)
        else _from_bulk(graph, [potentials], dtype)
        if _is_bulk(potentials)
        else _from_sequence(graph, potentials, dtype)
    )
    _check_values(graph, flat, dtype)
    return flat


def _is_flat(potentials: Any) -> bool:
    return isinstance(potentials, np.ndarray) and potentials.ndim == 1 and potentials.dtype != object


def _is_bulk(item: Any) -> bool:
    """A pair of a 1-D integer array and an array of two or more dimensions."""
    return (
        isinstance(item, tuple)
        and len(item) == 2
        and isinstance(item[0], np.ndarray)
        and isinstance(item[1], np.ndarray)
        and item[0].ndim == 1
        and item[0].dtype.kind in "iu"
        and item[1].ndim >= 2
    )


def _from_flat(graph: RegionGraph, potentials: npt.NDArray[Any], dtype: DataType) -> RealArray:
    entries = int(graph.table_offsets[-1])
    if len(potentials) != entries:
        raise PotentialError(
            f"a flat array of potentials must have one entry per table entry, {entries} in all; got {len(potentials)}"
        )
    _require_numeric(potentials, "the flat array of potentials")
    return cast(RealArray, np.ascontiguousarray(_cast(potentials, dtype, "the flat array of potentials")))


def _from_sequence(graph: RegionGraph, potentials: Any, dtype: DataType) -> RealArray:
    if isinstance(potentials, (str, bytes, dict, set)) or not isinstance(potentials, (Sequence, np.ndarray)):
        raise PotentialError(
            "potentials must be a sequence with one array per region, a bulk pair (region indices, tables) or a list "
            f"of such pairs, or one flat array; got {type(potentials).__name__}"
        )
    if isinstance(potentials, np.ndarray) and potentials.ndim == 0:
        raise PotentialError("potentials must be a sequence with one array per region; got a single number")
    items = list(potentials)
    bulk = [_is_bulk(item) for item in items]
    if items and all(bulk):
        return _from_bulk(graph, items, dtype)
    if any(bulk):
        raise PotentialError(
            f"potentials[{bulk.index(True)}] is a bulk pair but potentials[{bulk.index(False)}] is not; "
            "use bulk pairs only, or one array per region"
        )
    if len(items) not in (graph.num_given, graph.num_regions):
        expected = f"{graph.num_regions} (all regions)"
        if graph.num_given != graph.num_regions:
            expected = f"{graph.num_given} (the regions given) or {expected}"
        raise PotentialError(f"potentials must have length {expected}; got {len(items)}")
    flat = _zeros(graph, dtype)
    offsets = graph.table_offsets.tolist()
    cardinalities = graph.cardinalities.tolist()
    starts = graph.region_offsets.tolist()
    variables = graph.region_variables.tolist()
    for region, item in enumerate(items):
        if item is None:
            continue
        where = f"potentials of region {region}"
        table = _as_array(item, where)
        shape = tuple(cardinalities[i] for i in variables[starts[region] : starts[region + 1]])
        if table.shape != shape:
            raise PotentialError(f"{where} must have shape {shape}; got {table.shape}")
        _require_numeric(table, where)
        flat[offsets[region] : offsets[region + 1]] = _cast(table, dtype, where).reshape(-1)
    return flat


def _from_bulk(graph: RegionGraph, pairs: list[Any], dtype: DataType) -> RealArray:
    flat = _zeros(graph, dtype)
    times_given = np.zeros(graph.num_regions, dtype=np.int64)
    for number, (given_indices, tables) in enumerate(pairs):
        where = f"bulk potentials, pair {number}"
        if len(given_indices) != len(tables):
            raise PotentialError(f"{where}: {len(given_indices)} region indices but {len(tables)} tables")
        _require_numeric(tables, where)
        unknown = (given_indices < 0) | (given_indices >= graph.num_regions)
        if unknown.any():
            raise PotentialError(
                f"{where}: region {given_indices[unknown.argmax()]} is unknown; "
                f"indices go from 0 to {graph.num_regions - 1}"
            )
        indices = given_indices.astype(np.int64)
        _check_shapes(graph, indices, tables.shape[1:], where)
        times_given += np.bincount(indices, minlength=graph.num_regions)
        _scatter(flat, graph.table_offsets, indices, tables, dtype, where)
    if (times_given > 1).any():
        raise PotentialError(f"bulk potentials: region {int((times_given > 1).argmax())} is given more than once")
    return flat


def _check_shapes(graph: RegionGraph, indices: npt.NDArray[np.int64], shape: tuple[int, ...], where: str) -> None:
    """Every region in `indices`, int64 [n], must have this shape."""
    starts = graph.region_offsets[indices]
    wrong = graph.region_offsets[indices + 1] - starts != len(shape)
    for axis, size in enumerate(shape):
        if wrong.any():
            break
        wrong = graph.cardinalities[graph.region_variables[starts + axis]] != size
    if wrong.any():
        region = int(indices[wrong.argmax()])
        raise PotentialError(f"{where}: region {region} has shape {graph.shape(region)}; got tables of shape {shape}")


def _scatter(
    flat: RealArray,
    offsets: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int64],
    tables: npt.NDArray[Any],
    dtype: DataType,
    where: str,
) -> None:
    """flat[table of indices[k]] = tables[k]; one copy when the regions follow each other, chunks otherwise."""
    if len(indices) == 0:
        return
    size = int(np.prod(tables.shape[1:], dtype=np.int64))
    rows = tables.reshape(len(indices), size)
    if (np.diff(indices) == 1).all():
        start = int(offsets[indices[0]])
        flat[start : start + rows.size] = _cast(rows, dtype, where).reshape(-1)
        return
    within = np.arange(size)
    chunk = max(1, CHUNK_ENTRIES // size)
    for first in range(0, len(indices), chunk):
        places = offsets[indices[first : first + chunk], None] + within
        flat[places] = _cast(rows[first : first + chunk], dtype, where)


def _zeros(graph: RegionGraph, dtype: DataType) -> RealArray:
    zeros: RealArray = np.zeros(int(graph.table_offsets[-1]), dtype=dtype)
    return zeros


def _as_array(item: Any, where: str) -> npt.NDArray[Any]:
    try:
        return np.asarray(item)
    except Exception as error:
        raise PotentialError(f"{where} cannot be read as an array of numbers: {error}") from error


def _require_numeric(table: npt.NDArray[Any], where: str) -> None:
    if table.dtype.kind not in "iuf":
        raise PotentialError(f"{where} must be real numbers (integers or floats); got dtype {table.dtype}")


def _cast(table: npt.NDArray[Any], dtype: DataType, where: str) -> RealArray:
    """`table` in `dtype`; a finite number that would become infinite there is an error, not a forbidden label."""
    if table.dtype == dtype:
        return cast(RealArray, table)
    with np.errstate(over="ignore"):
        converted: RealArray = table.astype(dtype)
    if (
        table.dtype.kind == "f"
        and table.dtype.itemsize > converted.dtype.itemsize
        and (np.isinf(converted) & np.isfinite(table)).any()
    ):
        raise PotentialError(f"{where}: a value is too large for {dtype} (use -inf to forbid a label)")
    return converted


def _check_values(graph: RegionGraph, flat: RealArray, dtype: DataType) -> None:
    """Reject NaN, +inf and numbers whose sums would overflow. Usually two passes and no temporary array."""
    if len(flat) == 0:
        return
    limit = LARGEST[dtype]
    highest = flat.max()  # NaN if there is any
    lowest = flat.min()
    if highest <= limit and lowest >= -limit:
        return
    bad = ~(flat <= limit) | ((flat < -limit) & (flat != -np.inf))
    if not bad.any():
        return
    place = int(bad.argmax())
    region = int(np.searchsorted(graph.table_offsets, place, side="right")) - 1
    entry = tuple(int(k) for k in np.unravel_index(place - int(graph.table_offsets[region]), graph.shape(region)))
    value = flat[place]
    expected = (
        "finite or -inf (forbidden)"
        if not np.isfinite(value)
        else f"at most {limit:g} in absolute value (-inf forbids a label)"
    )
    raise PotentialError(f"potentials of region {region}: entry {entry} is {value}; expected {expected}")
