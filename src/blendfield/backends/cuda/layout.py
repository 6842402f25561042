"""The compiled problem as the kernels see it (`core/cuda/threads.h`): flat arrays, made with NumPy.

Regions of one shape, with the same child slots and the same role, form a group; a region is a lane of it. The arrays of
structures have the memory layout of the C++ structures of the same name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield.backends.protocol import FloatArray, IntArray, Program
from blendfield.errors import TableSizeError

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

NO_EDGE = 0xFFFFFFFF
WIDE = 32
FEW_LANES = 24
"""groups with fewer lanes than this, and tables of a team's size, are worked on lane by lane"""
ENOUGH_THREADS = 1 << 15
"""and so are those for which fewer threads than this would find work, where tables have LARGE_TABLE entries"""
LARGE_TABLE = 1024
LARGE_SINGLE = 64
TILE = 8
"""labels per thread, about"""

GROUP = np.dtype(
    [
        *((name, "i8") for name in ("tables", "base", "first_lane", "entries", "rows", "slices", "slots", "extents")),
        ("counting", "f8"),
        *((name, "i4") for name in ("axes", "last", "lanes", "width", "slot_count", "uniform", "forbidden", "unused")),
    ]
)
SLOT = np.dtype(
    [
        *((name, "i8") for name in ("messages", "own_entry", "other_entry", "own_label", "other_label")),
        *((name, "i8") for name in ("row_label", "places")),
        *((name, "i4") for name in ("labels", "others", "last_stride", "unused")),
    ]
)
ITEM = np.dtype(
    [
        *((name, "i8") for name in ("first", "list", "units")),
        *((name, "i4") for name in ("group", "slot", "count", "tile")),
    ]
)
SLICE = np.dtype([("index", "i8"), ("weights", "i8"), ("degree", "i4"), ("uniform", "i4")])


@dataclass
class Group:
    """One group. `members`: regions by lane."""

    extents: tuple[int, ...]
    masks: tuple[int, ...]
    """axes of every child slot, as bits"""
    sends: bool
    members: IntArray
    width: int
    entries: int
    tables: int = 0
    base: int = -1
    first_lane: int = 0
    first_slot: int = 0
    first_slice: int = -1

    @property
    def lanes(self) -> int:
        return len(self.members)

    @property
    def padded(self) -> int:
        return -(-self.lanes // self.width) * self.width

    def labels(self, slot: int) -> int:
        """Size of the tables of the children in a slot."""
        return int(np.prod([n for a, n in enumerate(self.extents) if self.masks[slot] >> a & 1], dtype=np.int64))

    def strides(self, slot: int) -> list[int]:
        """Stride of every axis in the labels of the slot, 0 when absent."""
        strides, step = [0] * len(self.extents), 1
        for axis in reversed(range(len(self.extents))):
            if self.masks[slot] >> axis & 1:
                strides[axis] = step
                step *= self.extents[axis]
        return strides


@dataclass
class Work:
    """Lanes of one group (and slot) that are worked on in one launch."""

    group: int
    lanes: IntArray
    slot: int = -1


@dataclass
class Layout:
    """See the module. L padded lanes, in the order of the groups."""

    groups: list[Group]
    group_table: npt.NDArray[Any]
    slot_table: npt.NDArray[Any]
    slices: npt.NDArray[Any]
    index: npt.NDArray[np.uint32]
    weights: FloatArray
    ints: IntArray
    regions: IntArray
    """int32 [L], -1: padding"""
    counting: FloatArray
    table_at: Int64Array
    table_axes: IntArray
    message_at: Int64Array
    message_axes: IntArray
    group_of: IntArray
    """int32 [R]"""
    lane_of: IntArray
    """int32 [R]"""
    table_entries: int
    base_entries: int
    message_entries: int
    wide_messages: int
    schedule: IntArray
    heavy: list[list[Work]]
    """per class"""
    light: list[list[Work]]
    """per class"""
    everything: list[Work]
    rest: list[Work]
    """regions outside {r} + P(r), r in the last class of the schedule"""
    senders: list[Work]
    slots: list[Work]
    zero_children: IntArray
    """int32 [.., 5]: first parent's group, its lane, slot, own group, own lane, of children with c = 0"""
    positive_hats: bool
    """every c_r + sum c_p > 0: the value after a sweep comes with it"""
    static: dict[str, Any] = field(default_factory=dict)

    def position(self, region: IntArray) -> tuple[Int64Array, Int64Array]:
        """(position of entry 0 in the tables, distance of entries) of regions."""
        table = self.group_table[self.group_of[region]]
        lane, width = self.lane_of[region].astype(np.int64), table["width"].astype(np.int64)
        return table["tables"] + lane // width * width * table["entries"] + lane % width, width


def compile_layout(program: Program) -> Layout:
    """Everything but the numbers in the tables."""
    graph = program.graph
    regions = graph.num_regions
    parents = program.edge_parents.astype(np.int64)
    children = program.edge_children.astype(np.int64)
    offsets = np.asarray(graph.region_offsets, dtype=np.int64)
    orders = np.diff(offsets)
    axes, variables, cards = _core_axes(graph.region_variables, graph.cardinalities, offsets)
    masks = _edge_masks(variables, offsets, orders, parents, children, graph.region_variables)

    by_slot = _sorted_order(parents, masks)  # edges of a parent by their slot
    edges_of = np.bincount(parents, minlength=regions)
    first_edge = np.concatenate([[0], np.cumsum(edges_of)])
    slot_of_edge = np.empty(len(parents), dtype=np.int32)
    slot_of_edge[by_slot] = np.arange(len(parents)) - first_edge[parents[by_slot]]
    degree = np.bincount(children, minlength=regions)

    # Groups, and lanes in them: those whose children (then themselves) act in the same classes come together.
    sends = program.region_class >= 0
    columns: list[npt.NDArray[Any]] = [orders, sends]
    for axis in range(int(orders.max(initial=0))):
        columns.append(np.where(axis < orders, cards[np.minimum(offsets[:-1] + axis, len(cards) - 1)], 0))
    most_slots = int(edges_of.max(initial=0))
    slot_edges = [by_slot[np.minimum(first_edge[:-1] + s, max(len(by_slot) - 1, 0))] for s in range(most_slots)]
    for s in range(most_slots):
        columns.append(np.where(s < edges_of, masks[slot_edges[s]], 0))
    key = _dense_key(columns, regions)
    classes = [np.where(s < edges_of, program.region_class[children[slot_edges[s]]], -1) for s in range(most_slots)]
    order = _lexsort([degree, program.region_class, *reversed(classes), key], regions)
    starts = np.concatenate([np.flatnonzero(np.diff(key[order], prepend=-1)), [regions]]).astype(np.int64)
    groups = []
    for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        members = order[begin:end].astype(np.int32)
        r = int(members[0])
        extents = tuple(int(n) for n in cards[offsets[r] : offsets[r + 1]])
        own_masks = tuple(int(masks[by_slot[first_edge[r] + s]]) for s in range(int(edges_of[r])))
        entries = int(np.prod(extents, dtype=np.int64))
        if entries >= 2**31:
            raise TableSizeError(f"region {r}: its table has {entries} entries; the cuda backend takes up to 2^31 - 1")
        groups.append(
            Group(
                extents, own_masks, bool(sends[r]), members, choose_width(end - begin, entries, len(extents)), entries
            )
        )
    groups.sort(key=lambda g: g.width == 1)  # messages of wide groups come first: see View::wide

    layout = _place(program, groups, orders, axes, offsets, first_edge, by_slot)
    _find_parents(layout, program, parents, children, slot_of_edge, degree)
    _find_work(layout, program, children, first_edge, by_slot, parents)
    return layout


def choose_width(lanes: int, entries: int, axes: int = 2) -> int:
    """32: a thread per lane, or several for tiles of labels; 1: a team per lane."""
    few = lanes < FEW_LANES and entries >= WIDE
    threads = lanes if axes == 1 else lanes * max(1, round(entries ** (1 / axes)) // TILE)
    large = threads < ENOUGH_THREADS and entries >= (LARGE_SINGLE if axes == 1 else LARGE_TABLE)
    return 1 if few or large else WIDE


# Structure.


def _core_axes(variables: IntArray, cardinalities: IntArray, offsets: Int64Array) -> tuple[Any, Any, Any]:
    """Axes of every region by (label count, variable): (positions in the user's tuple, variables, label counts)."""
    cards = cardinalities[variables]
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    ascending = (cards[1:] > cards[:-1]) | ((cards[1:] == cards[:-1]) & (variables[1:] > variables[:-1]))
    positions = np.arange(len(variables)) - offsets[owner]
    if (ascending | (owner[1:] != owner[:-1])).all():
        return positions, variables, cards
    order = np.lexsort((variables, cards, owner))
    return positions[order], variables[order], cards[order]


def _edge_masks(
    variables: IntArray,
    offsets: Int64Array,
    orders: Int64Array,
    parents: Int64Array,
    children: Int64Array,
    child_variables: IntArray,
) -> IntArray:
    """int32 [E]: core axes of the parent that carry the child's variables, as bits."""
    masks = np.zeros(len(parents), dtype=np.int64)
    for k in range(int(orders[children].max(initial=0))):
        some = np.flatnonzero(orders[children] > k)
        wanted = child_variables[offsets[children[some]] + k]
        parent = parents[some]
        for axis in range(int(orders[parent].max(initial=0))):
            inside = axis < orders[parent]
            found = inside & (variables[np.where(inside, offsets[parent] + axis, 0)] == wanted)
            masks[some[found]] |= 1 << axis
    return masks.astype(np.int32)


def _sorted_order(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> Int64Array:
    """Order by (first, second); `first` is sorted already."""
    if ((np.diff(first) > 0) | (np.diff(second) >= 0)).all():
        return np.arange(len(first))
    order: Int64Array = np.lexsort((second, first))
    return order


def _dense_key(columns: list[npt.NDArray[Any]], size: int) -> Int64Array:
    """One integer per row, equal where all columns are."""
    key = np.zeros(size, dtype=np.int64)
    for column in columns:
        if size and column.min() != column.max():
            low, high = int(column.min()), int(column.max())
            key = key * (high - low + 1) + (column.astype(np.int64) - low)
            key = np.unique(key, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return key


def _lexsort(keys: list[npt.NDArray[Any]], size: int) -> Int64Array:
    """Stable order by the last key first; constant keys cost nothing."""
    useful = [key for key in keys if size and key.min() != key.max()]
    order: Int64Array = np.lexsort(useful) if useful else np.arange(size)
    return order


# Places.


def _place(
    program: Program,
    groups: list[Group],
    orders: Int64Array,
    axes: Int64Array,
    offsets: Int64Array,
    first_edge: Int64Array,
    by_slot: Int64Array,
) -> Layout:
    """Offsets of tables, lanes and messages."""
    graph = program.graph
    group_of = np.zeros(graph.num_regions, dtype=np.int32)
    lane_of = np.zeros(graph.num_regions, dtype=np.int32)
    group_table = np.zeros(len(groups), dtype=GROUP)
    ints: list[int | IntArray] = []
    size = 0

    def add(values: Any) -> int:
        nonlocal size
        array = np.asarray(values, dtype=np.int32).reshape(-1)
        ints.append(array)
        size += len(array)
        return size - len(array)

    permutations: dict[tuple[Any, ...], int] = {}

    def user_strides(extents: tuple[int, ...], axes_of: tuple[int, ...]) -> int:
        """Where the strides of a table's core axes in the user's order are among the ints; -1: the same order."""
        if all(a == k for k, a in enumerate(axes_of)):
            return -1
        key = (extents, axes_of)
        if key not in permutations:
            shape = [0] * len(extents)
            for a, n in zip(axes_of, extents, strict=True):
                shape[a] = n
            steps = np.concatenate([np.cumprod(shape[:0:-1], dtype=np.int64)[::-1], [1]])
            permutations[key] = add([steps[a] for a in axes_of])
        return permutations[key]

    region_axes = np.full(graph.num_regions, -1, dtype=np.int32)
    tables = lanes = base = 0
    for number, g in enumerate(groups):
        group_of[g.members] = number
        lane_of[g.members] = np.arange(g.lanes)
        g.tables, g.first_lane = tables, lanes
        tables += g.padded * g.entries
        lanes += g.padded
        if g.sends:
            g.base = base
            base += g.padded * g.entries
        count = len(g.extents)
        if count > 1:
            own = axes[offsets[g.members][:, None] + np.arange(count)]
            moved = np.flatnonzero((own != np.arange(count)).any(axis=1))
            if len(moved):
                distinct, which = np.unique(own[moved], axis=0, return_inverse=True)
                where = np.array([user_strides(g.extents, tuple(row)) for row in distinct.tolist()], dtype=np.int32)
                region_axes[g.members[moved]] = where[which.reshape(-1)]

    regions = np.full(lanes, -1, dtype=np.int32)
    counting = np.zeros(lanes)
    table_at = np.zeros(lanes, dtype=np.int64)
    table_axes = np.full(lanes, -1, dtype=np.int32)
    child_sizes = graph.table_sizes[program.edge_children]
    message_offsets = np.concatenate([[0], np.cumsum(child_sizes)]).astype(np.int64)
    message_at: list[Int64Array] = [np.zeros(0, dtype=np.int64)]
    message_axes: list[IntArray] = [np.zeros(0, dtype=np.int32)]
    slot_rows: list[npt.NDArray[Any]] = [np.zeros(0, dtype=SLOT)]
    messages = places = wide = slots = 0
    for number, g in enumerate(groups):
        here = slice(g.first_lane, g.first_lane + g.lanes)
        regions[here] = g.members
        counting[here] = program.counting_numbers[g.members]
        table_at[here] = graph.table_offsets[g.members]
        table_axes[here] = region_axes[g.members]
        count, labels = len(g.extents), [g.labels(s) for s in range(len(g.masks))]
        g.first_slot = slots
        row = group_table[number]
        row["tables"], row["base"], row["first_lane"], row["entries"] = g.tables, g.base, g.first_lane, g.entries
        row["axes"], row["last"], row["lanes"], row["width"] = count, g.extents[-1], g.lanes, g.width
        row["rows"] = g.entries // g.extents[-1]
        row["slot_count"], row["slots"], row["slices"] = len(g.masks), slots, -1
        row["counting"] = counting[g.first_lane]
        row["uniform"] = bool((counting[here] == counting[g.first_lane]).all())
        strides = [g.strides(s) for s in range(len(g.masks))]
        # The extents, then for every slot which axes it has.
        row["extents"] = add([*g.extents, *(int(m >> a & 1) for m in g.masks for a in range(count))])
        own_slots = np.zeros(len(g.masks), dtype=SLOT)
        for s, mask in enumerate(g.masks):
            slot = own_slots[s]
            own_axes = [a for a in range(count) if mask >> a & 1]
            other_axes = [a for a in range(count) if not mask >> a & 1]
            entry_strides = _row_strides(g.extents)
            slot["labels"], slot["others"] = labels[s], g.entries // labels[s]
            slot["own_entry"] = add(entry_sums(g.extents, own_axes, entry_strides))
            slot["other_entry"] = add(entry_sums(g.extents, other_axes, entry_strides))
            slot["own_label"] = add([entry_sums(g.extents, own_axes, t) for t in strides])
            slot["other_label"] = add([entry_sums(g.extents, other_axes, t) for t in strides])
            slot["row_label"] = add(entry_sums(g.extents, list(range(count - 1)), strides[s]))
            slot["last_stride"] = strides[s][-1]
            slot["messages"], slot["places"] = messages, places
            messages += g.padded * labels[s]
            places += g.padded
            edges = by_slot[first_edge[g.members] + s]
            at = np.zeros(g.padded, dtype=np.int64)
            at[: g.lanes] = message_offsets[edges]
            moved_axes = np.full(g.padded, -1, dtype=np.int32)
            moved_axes[: g.lanes] = region_axes[program.edge_children[edges]]
            message_at.append(at)
            message_axes.append(moved_axes)
        slot_rows.append(own_slots)
        slots += len(g.masks)
        if g.width == WIDE:
            wide = messages
    if messages >= NO_EDGE:
        raise TableSizeError(f"{messages} message entries in one problem; the cuda backend takes up to 2^32 - 2")
    return Layout(
        groups=groups,
        group_table=group_table,
        slot_table=np.concatenate(slot_rows),
        slices=np.zeros(0, dtype=SLICE),
        index=np.zeros(0, dtype=np.uint32),
        weights=np.zeros(0),
        ints=np.concatenate([np.zeros(0, dtype=np.int32), *ints]),
        regions=regions,
        counting=counting,
        table_at=table_at,
        table_axes=table_axes,
        message_at=np.concatenate(message_at),
        message_axes=np.concatenate(message_axes),
        group_of=group_of,
        lane_of=lane_of,
        table_entries=tables,
        base_entries=base,
        message_entries=messages,
        wide_messages=wide,
        schedule=program.schedule,
        heavy=[],
        light=[],
        everything=[],
        rest=[],
        senders=[],
        slots=[],
        zero_children=np.zeros((0, 5), dtype=np.int32),
        positive_hats=True,
    )


def _row_strides(extents: tuple[int, ...]) -> list[int]:
    strides = [1] * len(extents)
    for axis in range(len(extents) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * extents[axis + 1]
    return strides


def entry_sums(extents: tuple[int, ...], axes: list[int], strides: list[int]) -> IntArray:
    """int32 [product of the axes' extents], last axis fastest: sum of digit times stride."""
    total = np.zeros(1, dtype=np.int64)
    for axis in axes:
        total = (total[:, None] + np.arange(extents[axis]) * strides[axis]).reshape(-1)
    return total.astype(np.int32)


# Parents.


def _find_parents(
    layout: Layout,
    program: Program,
    parents: Int64Array,
    children: Int64Array,
    slot_of_edge: IntArray,
    degree: Int64Array,
) -> None:
    """Slices: where lanes find their messages upwards, and with which weights."""
    table = layout.group_table
    group_of, lane_of = layout.group_of, layout.lane_of
    first_slice = np.zeros(len(layout.groups), dtype=np.int64)
    degrees, widths, count = [np.zeros(0, dtype=np.int32)], [np.zeros(0, dtype=np.int64)], 0
    for number, g in enumerate(layout.groups):
        if g.sends:
            g.first_slice = count
            first_slice[number] = table["slices"][number] = count
            by_lane = np.zeros(g.padded, dtype=np.int32)
            by_lane[: g.lanes] = degree[g.members]
            degrees.append(by_lane.reshape(-1, g.width).max(axis=1))
            widths.append(np.full(len(degrees[-1]), g.width))
            count += len(degrees[-1])
    width = table["width"].astype(np.int64)
    region_width = width[group_of]
    region_slice = first_slice[group_of] + lane_of // region_width
    region_within = lane_of % region_width
    slice_of, own_width, own_within = region_slice[children], region_width[children], region_within[children]
    slices = np.zeros(count, dtype=SLICE)
    slices["degree"] = np.concatenate(degrees)
    slice_width = np.concatenate(widths)
    ends = np.cumsum(slices["degree"] * slice_width)
    slices["index"] = ends - slices["degree"] * slice_width

    slot = table["slots"][group_of[parents]] + slot_of_edge
    w = region_width[parents]
    at = lane_of[parents] // w * w * layout.slot_table["labels"][slot]
    at += layout.slot_table["messages"][slot] + region_within[parents]
    order = np.argsort(children, kind="stable")
    rank = np.empty(len(children), dtype=np.int64)
    firsts = np.concatenate([[0], np.cumsum(degree)])
    rank[order] = np.arange(len(children)) - firsts[children[order]]
    index = np.full(int(ends[-1]) if count else 0, NO_EDGE, dtype=np.uint32)
    row = rank * own_width + own_within
    index[slices["index"][slice_of] + row] = at.astype(np.uint32)

    # Shares c_p / c_hat; 1 / (1 + |P(r)|) where c_hat = 0 up to rounding.
    c = program.counting_numbers
    hat = c + np.bincount(children, weights=c[parents], minlength=len(c))
    size = np.abs(c) + np.bincount(children, weights=np.abs(c[parents]), minlength=len(c))
    hat[np.abs(hat) <= 1e-12 * size] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(hat[children] != 0, c[parents] / hat[children], 1.0 / (1.0 + degree[children]))
    senders = np.flatnonzero(program.region_class >= 0)
    layout.positive_hats = bool((hat[senders] > 0).all())
    rows = slices["degree"].astype(np.int64) + 1
    dense_ends = np.cumsum(rows * slice_width)
    dense_at = dense_ends - rows * slice_width
    dense = np.full(int(dense_ends[-1]) if count else 0, np.nan)
    dense[dense_at[slice_of] + row] = share
    sender_slice = region_slice[senders]
    last_row = slices["degree"][sender_slice] * region_width[senders]
    dense[dense_at[sender_slice] + last_row + region_within[senders]] = hat[senders]
    # A slice whose lanes agree (those without such a parent take any weight) keeps one value per row.
    row_starts = np.concatenate([[0], np.cumsum(np.repeat(slice_width, rows))])[:-1].astype(np.int64)
    if count:
        low = np.fmin.reduceat(dense, row_starts)
        high = np.fmax.reduceat(dense, row_starts)
        first_row = np.concatenate([[0], np.cumsum(rows)])[:-1]
        slices["uniform"] = np.logical_and.reduceat(low >= high, first_row)
        uniform = slices["uniform"].astype(bool)
        kept = np.where(uniform, rows, rows * slice_width)
        slices["weights"] = np.cumsum(kept) - kept
        dense = np.where(np.isnan(dense), 0.0, dense)
        pieces_uniform = np.repeat(uniform, rows)
        entry_kept = np.repeat(~pieces_uniform, np.repeat(slice_width, rows))
        weights = np.empty(int(kept.sum()))
        take = np.repeat(uniform, kept)
        weights[take] = low[pieces_uniform]
        weights[~take] = dense[entry_kept]
        layout.weights = weights
    layout.slices, layout.index = slices, index


# Work.


def _find_work(
    layout: Layout,
    program: Program,
    children: Int64Array,
    first_edge: Int64Array,
    by_slot: Int64Array,
    parents: Int64Array,
) -> None:
    """Which lanes take part in what."""
    count = int(program.region_class.max(initial=-1)) + 1
    layout.heavy = [[] for _ in range(count)]
    layout.light = [[] for _ in range(count)]
    covered = np.zeros(program.graph.num_regions, dtype=bool)
    if len(program.schedule):
        last = program.region_class == program.schedule[-1]
        covered |= last
        covered[parents[last[children]]] = True
    for number, g in enumerate(layout.groups):
        everything = np.arange(g.lanes, dtype=np.int32)
        layout.everything.append(Work(number, everything))
        rest = np.flatnonzero(~covered[g.members]).astype(np.int32)
        if len(rest):
            layout.rest.append(Work(number, rest))
        if g.sends:
            layout.senders.append(Work(number, everything))
            for c, lanes in _by_class(program.region_class[g.members]):
                layout.light[c].append(Work(number, lanes))
        for s in range(len(g.masks)):
            layout.slots.append(Work(number, everything, s))
            acting = program.region_class[children[by_slot[first_edge[g.members] + s]]]
            for c, lanes in _by_class(acting):
                layout.heavy[c].append(Work(number, lanes, s))

    zero = np.flatnonzero(program.counting_numbers[children] == 0)
    if len(zero):
        child, first = np.unique(children[zero], return_index=True)
        edge = zero[first]  # edges are sorted by parent: this is the one to the lowest
        parent = parents[edge]
        slot = np.empty(len(children), dtype=np.int64)
        slot[by_slot] = np.arange(len(children)) - first_edge[parents[by_slot]]
        layout.zero_children = np.stack(
            [
                layout.group_of[parent],
                layout.lane_of[parent],
                slot[edge],
                layout.group_of[child],
                layout.lane_of[child],
            ],
            axis=1,
        ).astype(np.int32)


def _by_class(classes: npt.NDArray[np.int8] | IntArray) -> list[tuple[int, IntArray]]:
    """(class, lanes) for every class that occurs; -1 is left out."""
    present = (np.flatnonzero(np.bincount(classes + 1)[1:])).tolist()
    return [(c, np.flatnonzero(classes == c).astype(np.int32)) for c in present]
