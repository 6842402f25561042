"""What users hand over as cardinalities, regions and edges, turned into flat int32 arrays or a GraphError."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield import _core
from blendfield.errors import GraphError
from blendfield.graph.ragged import Ragged

MAX_ORDER = 32  # variables of a region
MAX_COUNT = 2**31 - 1  # regions, edges, variables and labels are counted in int32

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]


@contextmanager
def core_faults() -> Iterator[None]:
    """Faults found by the core arrive as ValueErrors that already name the place."""
    try:
        yield
    except ValueError as fault:
        raise GraphError(str(fault)) from None


def parse_integers(numbers: Any, subject: str) -> Int32Array:
    """A one-dimensional array or a sequence of integers as int32 [n]."""
    if isinstance(numbers, np.ndarray) and numbers.dtype != object:
        if numbers.ndim != 1:
            raise GraphError(f"{subject}: expected one dimension, got an array of shape {numbers.shape}")
        return _to_int32(numbers, subject)
    with core_faults():
        return _core.parse_integers(numbers, subject)


def parse_regions(regions: Any) -> tuple[Int64Array, Int32Array]:
    """Regions as (offsets int64 [G + 1], variables int32 [offsets[G]]); their meaning is not checked here."""
    if isinstance(regions, Ragged):
        return regions.offsets, regions.values
    if _is_table_of_integers(regions):
        return _from_blocks([regions])
    if isinstance(regions, list | tuple) and regions and _is_table_of_integers(regions[0]):
        return _from_blocks(regions)
    with core_faults():
        return _core.parse_rows(regions, "region", MAX_ORDER)


def parse_edges(edges: Any) -> tuple[Int32Array, Int32Array]:
    """Pairs (parent, child) as two arrays int32 [E]; their meaning is not checked here."""
    if isinstance(edges, np.ndarray) and edges.dtype != object and edges.size:
        if edges.ndim != 2 or edges.shape[1] != 2:
            raise GraphError(f"edges: expected pairs (parent, child), got an array of shape {edges.shape}")
        pairs = _to_int32(edges, "edges")
    else:
        with core_faults():
            offsets, numbers = _core.parse_rows(edges, "edge", 2)
        short = np.flatnonzero(np.diff(offsets) != 2)
        if short.size:
            raise GraphError(f"edge {short[0]}: expected a pair (parent, child)")
        pairs = numbers.reshape(-1, 2)
    return np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])


def _is_table_of_integers(block: Any) -> bool:
    return isinstance(block, np.ndarray) and block.ndim == 2 and block.dtype != object


def _from_blocks(blocks: Any) -> tuple[Int64Array, Int32Array]:
    """Blocks [n, k], each row one region, concatenated."""
    if not all(map(_is_table_of_integers, blocks)):
        raise GraphError("regions: expected integer arrays [number of regions, order] only, or tuples only")
    if sum(len(block) for block in blocks) > MAX_COUNT:
        raise GraphError("regions: expected at most 2^31 - 1 regions")
    for block in blocks:
        if len(block) and not 1 <= block.shape[1] <= MAX_ORDER:
            raise GraphError(f"regions: expected 1 to {MAX_ORDER} variables each, got an array of shape {block.shape}")
    variables = [_to_int32(block, "regions").ravel() for block in blocks]
    orders = np.concatenate([np.broadcast_to(np.int64(block.shape[1]), len(block)) for block in blocks])
    return offsets_of(orders), np.concatenate(variables)


def _to_int32(numbers: npt.NDArray[Any], subject: str) -> Int32Array:
    if numbers.size == 0:
        return np.zeros(numbers.shape, np.int32)
    if numbers.dtype.kind not in "iu":
        raise GraphError(f"{subject}: expected integers, got an array of {numbers.dtype}")
    if numbers.dtype.itemsize >= 4:
        outside = (numbers > MAX_COUNT) | (numbers < -MAX_COUNT)
        if outside.any():
            place = np.unravel_index(int(outside.argmax()), outside.shape)
            where = ", ".join(map(str, place))
            raise GraphError(f"{subject}: expected 32-bit integers, got {numbers[place]} at position {where}")
    return np.ascontiguousarray(numbers, dtype=np.int32)


def offsets_of(lengths: npt.NDArray[Any]) -> Int64Array:
    """[0, running sum of lengths], int64 [n + 1]."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
