"""Features as the kernels see them (`core/cuda/features.h`): flat arrays, made with NumPy from the parts of a map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield.backends.cuda.layout import WIDE, Group, Int64Array, Layout, entry_sums
from blendfield.backends.protocol import Features, FloatArray, IntArray, Program, TermsPart
from blendfield.errors import TableSizeError

TERM_BLOCK = np.dtype([("at", "i8"), ("count", "i4"), ("shared", "i4")])


@dataclass
class TermArrays:
    """See `Terms` of the kernels. n term numbers, padding included; G groups."""

    blocks: npt.NDArray[Any]
    first: Int64Array
    """int64 [G]"""
    weight: IntArray
    """int32 [n]"""
    table: Int64Array
    """int64 [n]"""
    coefficient: FloatArray
    """float64 [n]"""
    tables: FloatArray
    present: Int64Array
    """the numbers of all sums that leave a kernel; rank[present[i]] has to be the place of the i-th"""
    most: IntArray
    """int32 [G]: terms per lane, at most"""


def regions_of(program: Program, start: Int64Array) -> Int64Array:
    """int64 [n]: whose tables begin at `start`."""
    found: Int64Array = np.searchsorted(program.graph.table_offsets, start, side="right") - 1
    return found


def term_arrays(layout: Layout, program: Program, parts: Sequence[TermsPart], share: bool) -> TermArrays:
    """All terms by lane. `share`: sums of blocks whose lanes agree are made within the kernel."""
    groups = layout.groups
    firsts = np.array([g.first_lane for g in groups], dtype=np.int64)
    regions = [regions_of(program, part.start) for part in parts]
    group = _joined([layout.group_of[r] for r in regions]).astype(np.int64)
    lane = _joined([layout.lane_of[r] for r in regions]).astype(np.int64)
    weight = _joined([part.weight for part in parts]).astype(np.int32)
    ones = [np.ones(len(part.start)) if part.coefficient is None else part.coefficient for part in parts]
    coefficient = _joined(ones).astype(np.float64)
    number = firsts[group] + lane if len(groups) else lane

    # Blocks of lanes, and the number of every term in them.
    order = np.arange(len(number)) if (np.diff(number) >= 0).all() else np.argsort(number, kind="stable")
    in_lane = np.bincount(number, minlength=len(layout.regions))
    rank = np.empty(len(number), dtype=np.int64)
    ends = np.cumsum(in_lane)
    rank[order] = np.arange(len(number)) - (ends - in_lane)[number[order]]
    width = np.array([g.width for g in groups], dtype=np.int64)
    counts, widths, first_block = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)], 0
    first = np.full(len(groups), -1, dtype=np.int64)
    most = np.zeros(len(groups), dtype=np.int32)
    for k, g in enumerate(groups):
        by_block = in_lane[g.first_lane : g.first_lane + g.padded].reshape(-1, g.width).max(axis=1)
        most[k] = by_block.max(initial=0)
        if most[k]:
            first[k] = first_block
            first_block += len(by_block)
            counts.append(by_block)
            widths.append(np.full(len(by_block), g.width))
    count, wide = np.concatenate(counts), np.concatenate(widths)
    sizes = count * wide
    blocks = np.zeros(len(count), dtype=TERM_BLOCK)
    blocks["at"], blocks["count"] = np.cumsum(sizes) - sizes, count
    total = int(sizes.sum())
    if total >= 2**31:
        raise TableSizeError(f"{total} terms in one problem; the cuda backend takes up to 2^31 - 1")
    own_block = first[group] + lane // width[group] if len(groups) else lane
    at = blocks["at"][own_block] + rank * width[group] + lane % width[group] if total else np.zeros(0, dtype=np.int64)

    arrays = TermArrays(
        blocks=blocks,
        first=first,
        weight=np.full(total, -1, dtype=np.int32),
        table=np.zeros(total, dtype=np.int64),
        coefficient=np.zeros(total),
        tables=np.zeros(1),
        present=at,
        most=most,
    )
    arrays.weight[at] = weight
    arrays.coefficient[at] = coefficient
    _place_tables(arrays, layout, parts, regions, at, own_block)
    if share:
        _find_shared(arrays, layout, at)
    return arrays


def _joined(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype=np.int64), *arrays])


def _place_tables(
    arrays: TermArrays,
    layout: Layout,
    parts: Sequence[TermsPart],
    regions: Sequence[Int64Array],
    at: Int64Array,
    own_block: Int64Array,
) -> None:
    """Tables that terms share are kept once, in the order of the lanes' axes; those of one term each entry by entry."""
    stored: list[FloatArray] = [np.zeros(1)]
    size, begin = 1, 0
    for part, region in zip(parts, regions, strict=True):
        stop = begin + len(region)
        numbers, block = at[begin:stop], own_block[begin:stop]
        begin = stop
        entries = part.tables.shape[1]
        lane = np.array([g.first_lane for g in layout.groups])[layout.group_of[region]] + layout.lane_of[region]
        axes = layout.table_axes[lane].astype(np.int64)
        single = len(part.tables) == 1
        if part.table is None and not single:
            for k in np.flatnonzero(np.bincount(layout.group_of[region])).tolist():
                g = layout.groups[k]
                mine = layout.group_of[region] == k
                start = int(arrays.blocks["at"][arrays.first[k]])
                local = numbers[mine] - start
                own = np.zeros((-(-int(local.max()) // g.width) + 1, entries, g.width))
                values = _in_order(g, layout, part.tables[mine], axes[mine])
                own[local // g.width, :, local % g.width] = values
                arrays.table[numbers[mine]] = ~(size + local // g.width * g.width * entries + local % g.width)
                stored.append(own.reshape(-1))
                size += own.size
            continue
        row = np.zeros(len(region), dtype=np.int64) if single or part.table is None else part.table.astype(np.int64)
        span = int(axes.max(initial=-1)) + 2
        places = row * span + axes + 1
        which = np.zeros(len(places), dtype=np.int64)
        kinds = places[:1]
        if len(places) and places.min() != places.max():
            kinds, which = np.unique(places, return_inverse=True)
        example = np.zeros(len(kinds), dtype=np.int64)
        example[which] = np.arange(len(region))
        values = np.empty((len(kinds), entries))
        for j, place in enumerate(kinds.tolist()):
            g = layout.groups[layout.group_of[region[example[j]]]]
            values[j] = _in_order(g, layout, part.tables[[place // span]], np.array([place % span - 1]))[0]
        arrays.table[numbers] = size + which * entries
        stored.append(values.reshape(-1))
        size += values.size
        del block
    arrays.tables = np.concatenate(stored)


def _in_order(group: Group, layout: Layout, tables: FloatArray, axes: Int64Array) -> FloatArray:
    """float64 [n, Y]: tables in the order of the group's axes; axes int64 [n]: as `Layout.table_axes`."""
    if (axes < 0).all():
        return tables
    result = tables.copy()
    for strides_at in np.unique(axes[axes >= 0]).tolist():
        strides = layout.ints[strides_at : strides_at + len(group.extents)].tolist()
        chosen = axes == strides_at
        result[chosen] = tables[chosen][:, entry_sums(group.extents, list(range(len(group.extents))), strides)]
    return result


def _find_shared(arrays: TermArrays, layout: Layout, at: Int64Array) -> None:
    """Marks blocks whose lanes agree; of their terms one sum leaves the kernel."""
    blocks = arrays.blocks
    real = np.zeros(len(arrays.weight), dtype=bool)
    real[at] = True
    for k, g in enumerate(layout.groups):
        first = int(arrays.first[k])
        if first < 0 or g.width != WIDE:
            continue
        own = blocks[first : first + g.padded // WIDE]
        begin, end = int(own["at"][0]), int(own["at"][-1] + own["count"][-1] * WIDE)
        shape = (-1, WIDE)
        weight, table = arrays.weight[begin:end].reshape(shape), arrays.table[begin:end].reshape(shape)
        coefficient, mask = arrays.coefficient[begin:end].reshape(shape), real[begin:end].reshape(shape)
        same = (weight[:, :1] == weight) & (table[:, :1] == table) & (coefficient[:, :1] == coefficient)
        if g.lanes % WIDE:  # lanes that are not there agree with all
            same[len(same) - int(own["count"][-1]) :, g.lanes % WIDE :] = True
        good = same.all(axis=1) & (weight[:, 0] >= 0) & (table[:, 0] >= 0)
        filled = own["count"] > 0
        starts = ((own["at"] - begin) // WIDE)[filled]
        shared = np.zeros(len(own), dtype=bool)
        if len(starts):
            shared[filled] = np.logical_and.reduceat(good, starts)
        blocks["shared"][first : first + len(own)] = shared
        rows = np.repeat(shared, own["count"])
        mask[rows, 1:] = False
    arrays.present = np.flatnonzero(real)


def ranks(size: int, weights: Sequence[npt.NDArray[Any]]) -> tuple[list[IntArray], Int64Array]:
    """Rows of sums in the order of their weights: (row of each of the given, per array; rows per weight int64 [K])."""
    joined = _joined(weights)
    if len(joined) >= 2**31:
        raise TableSizeError(f"{len(joined)} sums in one problem; the cuda backend takes up to 2^31 - 1")
    place = np.empty(len(joined), dtype=np.int32)
    place[np.argsort(joined, kind="stable")] = np.arange(len(joined), dtype=np.int32)
    ends = np.cumsum([len(array) for array in weights])[:-1]
    return np.split(place, ends), np.bincount(joined, minlength=size).astype(np.int64)


def layers(regions: Int64Array) -> list[IntArray | None]:
    """Indices int32 into `regions` such that no region comes twice in one list; None: all, once."""
    order = np.argsort(regions, kind="stable")
    ordered = regions[order]
    starts = np.flatnonzero(np.concatenate([[True], np.diff(ordered) > 0])) if len(ordered) else ordered
    times = np.diff(np.append(starts, len(ordered)))
    if times.max(initial=1) == 1:
        return [None]
    rank = np.arange(len(ordered)) - np.repeat(starts, times)
    return [order[rank == k].astype(np.int32) for k in range(int(times.max()))]


def places_of(layout: Layout, regions: Int64Array) -> IntArray:
    """int32 [n, 2]: (group, lane)."""
    return np.stack([layout.group_of[regions], layout.lane_of[regions]], axis=1).astype(np.int32)


def writes_of(layout: Layout, program: Program, features: Features) -> npt.NDArray[np.uint8]:
    """uint8 [G]: groups whose beliefs themselves are needed."""
    write = np.zeros(max(len(layout.groups), 1), dtype=np.uint8)
    for start in [*(part.start for part in features.rows), *(part.start for part in features.matrices)]:
        write[layout.group_of[regions_of(program, start)]] = 1
    return write
