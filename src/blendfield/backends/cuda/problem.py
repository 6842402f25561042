"""A compiled problem on a card: tables, messages, beliefs and the mixing memory stay there."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from blendfield.backends.cuda import sources
from blendfield.backends.cuda.device import Device, Replay, bits
from blendfield.backends.cuda.launches import Blocks, Plan, Sums
from blendfield.backends.cuda.layout import Work, compile_layout
from blendfield.backends.protocol import (
    Certificate,
    DataType,
    FloatArray,
    LabelArray,
    Program,
    RealArray,
    unusable_potential,
)
from blendfield.errors import OptionError, SupportError

KERNELS = [
    *("heavy_soft", "heavy_hard", "light", "refresh_base", "load_tables", "first_unusable", "store_tables"),
    *("store_doubles", "messages_out", "messages_in", "mask_messages", "support_extends", "support_restricts"),
    *("support_tells", "support_prunes", "support_marks", "values", "beliefs", "zero_beliefs", "line"),
    *("push", "mix", "sum_pieces"),
]
CERTIFY = ["certify_children", "certify_parents", "zero_candidates"]
VIEW = [
    *("groups", "slots", "items", "lists", "ints", "slices", "index", "weights", "counting", "table_at", "table_axes"),
    *("message_at", "message_axes", "regions", "tables", "base", "messages", "epsilon", "wide"),
]
STATIC_ENTRIES = 1 << 18
"""table entries of one shape and slot in one class from which on a kernel of their own is compiled"""
MOST_STATIC = 48
ENOUGH_TEAMS = 1 << 12
"""lanes of large tables are shared by several teams until there are so many"""
MOST_SPLITS = 64
LIGHT_BYTES = 256
"""of a child's table that fit into registers"""
REGISTERS = 352
"""bytes of a child's messages that fit there too"""
PUSH_SHARE = 8
"""messages per thread in `push` (core/cuda/vectors.h)"""
WORK_BYTES = 1 << 30
"""of the certificate"""
HISTORY_SHARE = 0.4
"""of the free memory that the mixing history of one problem may take; else it stays in page-locked memory of the host,
which the kernels read and write over the bus while others of their threads compute"""

logger = logging.getLogger("blendfield.backends")


class Structure:
    """What problems of one program have in common, on the card too."""

    def __init__(self, device: Device, program: Program) -> None:
        self.device, self.program = device, program
        self.layout = layout = compile_layout(program)
        names = ("ints", "index", "counting", "table_at", "table_axes", "message_at", "message_axes", "regions")
        self.arrays = {name: device.xp.asarray(_padded(getattr(layout, name))) for name in names}
        self.arrays["slots"] = device.xp.asarray(_padded(layout.slot_table).view(np.uint8))
        self.arrays["slices"] = device.xp.asarray(_padded(layout.slices).view(np.uint8))


@dataclass(eq=False)
class Shelf:
    """Room for the tables of several problems, of which one at a time has its own there."""

    tables: Any
    base: Any
    owner: CudaProblem | None = None


_shelves: WeakValueDictionary[tuple[int, str, int, int], Shelf] = WeakValueDictionary()
_structures: WeakValueDictionary[tuple[int, int], Structure] = WeakValueDictionary()


def structure_of(device: Device, program: Program) -> Structure:
    """The one in use, if there is one: chunks of a training set are often alike."""
    known = _structures.get((id(device), id(program)))
    if known is None:
        known = _structures[id(device), id(program)] = Structure(device, program)
    return known


class CudaProblem:
    """See `protocol.Problem`."""

    def __init__(self, device: Device, program: Program, tables: RealArray, epsilon: float, dtype: DataType) -> None:
        self.device = device
        self.program = program
        self.dtype = np.dtype(dtype)
        self._xp = xp = device.xp
        self._epsilon = float(epsilon)
        self._structure = structure = structure_of(device, program)
        self.layout = layout = structure.layout
        self._group_table = layout.group_table.copy()
        self._kernel = device.kernels(sources.general(dtype), KERNELS)
        plan = Plan(device, layout)
        self._all = plan.blocks(layout.everything)
        self._senders = plan.blocks(layout.senders)
        inner = [work for work in layout.senders if layout.groups[work.group].masks]
        self._inner = plan.blocks(inner)
        whole = set(layout.schedule.tolist()) >= set(program.region_class[program.region_class >= 0].tolist())
        self._sweeps_all = whole
        """every region that sends does so in a sweep"""
        self._stale = False
        """base is not theta - the messages upwards"""
        self._slots = plan.blocks(layout.slots, whole=True)
        self._rest = plan.blocks(layout.rest)
        self._by_group = [plan.blocks([work]) for work in layout.everything]
        self._group_items = [plan.items(work)[0] for work in layout.everything]
        self._hard = [plan.blocks(works) for works in layout.heavy]
        self._static: dict[str, Any] = {}
        self._heavy, self._light = self._static_plan(plan, dtype)
        items, lists, self._blocks = plan.upload()

        def real(size: int) -> Any:
            return xp.zeros(max(size, 1), dtype=self.dtype)

        self._arrays: dict[str, Any] = {
            **structure.arrays,
            "groups": xp.asarray(self._group_table.view(np.uint8)),
            "items": items,
            "lists": lists,
            "weights": xp.asarray(_padded(layout.weights).astype(self.dtype)),
            "tables": real(layout.table_entries),
            "base": real(layout.base_entries),
            "messages": real(layout.message_entries),
        }
        self._view = xp.zeros(len(VIEW), dtype=np.int64)
        self._shelf: Shelf | None = None
        self._refill: Callable[[], None] | None = None
        self._write_view()
        self._zero = xp.asarray(layout.zero_children)
        self._message_size = int(program.graph.table_sizes[program.edge_children].sum())
        self._sum_values = self._segment_sums()
        self._sums_of_rows: dict[int, Sums] = {}
        self._replays: dict[tuple[bool, bool], Replay] = {}
        self._lane_values = xp.zeros(max(len(layout.regions), 1))
        self._sweep_values = xp.zeros(max(len(layout.regions), 1))
        self._buffers: dict[str, Any] = {}
        self._twin: Any = None
        self._twin_has_potentials = False
        self.forbidden = False
        self.allocate_history(0)
        self._load(self._upload(tables), keep=False)
        if tables.min(initial=0.0) == -np.inf:
            self._find_support()

    # Plumbing.

    def _write_view(self) -> None:
        view = [self._at(self._arrays[name]) if name in self._arrays else 0 for name in VIEW]
        view[VIEW.index("epsilon")] = bits(self._epsilon)
        view[VIEW.index("wide")] = self.layout.wide_messages
        self._view[...] = self._xp.asarray(np.array(view, dtype=np.int64))

    def share_tables(self, refill: Callable[[], None]) -> None:
        """Tables lie where those of others do, one problem at a time; `refill` makes them again."""
        if self.forbidden:  # what has no support is known from the tables alone
            return
        arrays = self._arrays
        key = (id(self.device), self.dtype.name, len(arrays["tables"]), len(arrays["base"]))
        shelf = _shelves.get(key)
        if shelf is None:
            shelf = _shelves[key] = Shelf(arrays["tables"], arrays["base"])
        self._shelf, self._refill = shelf, refill
        arrays["tables"], arrays["base"] = shelf.tables, shelf.base
        self._write_view()

    def _take_shelf(self) -> bool:
        """Whether somebody else's tables were there; they are no longer."""
        if self._shelf is None or self._shelf.owner is self:
            return False
        self._shelf.owner = self
        return True

    def _own_tables(self) -> None:
        if self._take_shelf():
            assert self._refill is not None
            self._refill()
            self._stale = True

    def _static_plan(
        self, plan: Plan, dtype: DataType
    ) -> tuple[list[list[tuple[str, Any]]], list[list[tuple[str, Any]]]]:
        """Launches per class, heavy and light: (kernel, Blocks) for any shape, (kernel, (item, thread blocks)) for one
        compiled for its shape.
        """
        layout = self.layout
        texts: dict[tuple[Any, ...], tuple[str, str]] = {}

        def name_of(key: tuple[Any, ...], text: Any) -> str:
            if key not in texts:
                name = f"{key[0]}_{len(texts)}"
                texts[key] = name, text(name)
            return texts[key][0]

        def large(work: Work) -> bool:
            group = layout.groups[work.group]
            return len(work.lanes) * group.entries >= STATIC_ENTRIES and len(texts) < MOST_STATIC

        most = 0
        heavy: list[list[tuple[str, Any]]] = []
        for works in layout.heavy:
            launches: list[tuple[str, Any]] = []
            for work in works:
                group = layout.groups[work.group]
                if large(work):
                    labels = group.labels(work.slot)
                    team = self.device.team if group.width == 1 else 1
                    items = plan.items(work)
                    splits = 1
                    tile = sources.tile_of(labels, len(work.lanes))
                    if group.width == 1:
                        units = min(plan.total(item) for item in items)
                        splits = min(-(-ENOUGH_TEAMS // units), -(-group.entries // labels // 32), MOST_SPLITS)
                        most = max(most, splits * len(work.lanes) * labels)
                    name = name_of(
                        ("heavy", group.extents, group.masks, group.width, work.slot, tile, splits),
                        lambda name, group=group, slot=work.slot, tile=tile, splits=splits: sources.heavy_kernel(
                            name, group, slot, tile, splits
                        ),
                    )
                    for item in items:
                        if group.width > 1:
                            plan.set_tile(item, tile, labels)
                        blocks = -(-plan.total(item) * splits * team // self.device.block)
                        launches.append((name, (item, blocks)))
                        if splits > 1:
                            lanes = plan.units(item)
                            launches.append((f"merge_{name}", (item, -(-lanes * labels // self.device.block))))
            general = plan.blocks([work for work in works if not large(work)])
            heavy.append([*launches, ("heavy_soft", general)])
        light: list[list[tuple[str, Any]]] = []
        for works in layout.light:
            launches = []
            others = []
            for work in works:
                group = layout.groups[work.group]
                if (
                    large(work)
                    and group.width > 1
                    and not group.masks
                    and group.entries * self.dtype.itemsize <= LIGHT_BYTES
                ):
                    labels = group.entries
                    degree = int(layout.slices["degree"][group.first_slice + work.lanes // group.width].max())
                    if degree * labels > REGISTERS // self.dtype.itemsize:
                        degree = 0
                    name = name_of(
                        ("light", labels, degree), lambda name, n=labels, d=degree: sources.light_kernel(name, n, d)
                    )
                    for item in plan.items(work):
                        launches.append((name, (item, -(-plan.units(item) // self.device.block))))
                else:
                    others.append(work)
            light.append([*launches, ("light", plan.blocks(others))])
        if texts:
            source = sources.general(dtype, "sweep") + "".join(text for _, text in texts.values())
            names = {name for launches in (*heavy, *light) for name, work in launches if not isinstance(work, Blocks)}
            self._static = self.device.kernels(source, sorted(names))
        self._collectors = self._xp.zeros(2 * max(most, 1), dtype=self.dtype)
        return heavy, light

    def _launch(
        self, name: str, blocks: Blocks | int, a: int = 0, b: int = 0, c: int = 0, d: int = 0, x: float = 0.0
    ) -> None:
        at, count = 0, blocks if isinstance(blocks, int) else blocks.count
        if isinstance(blocks, Blocks):
            at = self.device.address(self._blocks) + 8 * blocks.first
        view = self.device.address(self._view)
        self.device.launch(self._kernel[name], count, view, at, a, b, c, d, x)

    def _launch_static(self, name: str, item: int, count: int, values: int = 0) -> None:
        view = self.device.address(self._view)
        first, second = (values, item) if name.startswith("light") else (item, self._at(self._collectors))
        self.device.launch(self._static[name], count, view, 0, first, second, 0, 0, 0.0)

    def _at(self, array: Any) -> int:
        return self.device.address(array)

    def _buffer(self, name: str, size: int, dtype: Any = np.float64) -> Any:
        """Working memory that is kept."""
        if name not in self._buffers:
            self._buffers[name] = self._xp.zeros(max(size, 1), dtype=dtype)
        return self._buffers[name]

    def _segment_sums(self) -> Sums:
        """Sums of values by lane, per segment."""
        layout, program = self.layout, self.program
        if program.num_segments <= 1:
            sizes = np.full(program.num_segments, len(layout.regions), dtype=np.int64)
            return Sums(self.device, self._kernel["sum_pieces"], sizes)
        lanes = np.flatnonzero(layout.regions >= 0)
        segment = program.segment[layout.regions[lanes]]
        order = self._xp.asarray(lanes[np.argsort(segment, kind="stable")].astype(np.int32))
        sizes = np.bincount(segment, minlength=program.num_segments).astype(np.int64)
        return Sums(self.device, self._kernel["sum_pieces"], sizes, order)

    def _total(self, rows: Any, columns: int) -> Any:
        """float64 [columns] on the card."""
        count = len(rows) // columns
        if count not in self._sums_of_rows:
            sizes = np.array([count], dtype=np.int64)
            self._sums_of_rows[count] = Sums(self.device, self._kernel["sum_pieces"], sizes)
        return self._sums_of_rows[count](rows, columns).reshape(-1)

    def _by_segment(self, lanes: Any) -> FloatArray:
        if self.program.num_segments == 0:
            return np.zeros(0)
        sums: FloatArray = self.device.host(self._sum_values(lanes)).reshape(-1)
        return sums

    # Potentials and support.

    def _upload(self, flat: RealArray) -> Any:
        return self._xp.asarray(np.ascontiguousarray(flat, dtype=self.dtype))

    def _load(self, flat: Any, keep: bool) -> None:
        self._launch("load_tables", self._all, self._at(flat), 0, int(keep))
        self._potentials_changed()

    def _potentials_changed(self) -> None:
        self._stale = True
        self._twin_has_potentials = False

    def set_potentials(self, tables: RealArray) -> None:
        flat = self._upload(tables)
        none = np.iinfo(np.int64).max
        least = self._xp.full(1, none, dtype=np.int64)
        self._launch("first_unusable", self._all, self._at(flat), self._at(least))
        position = int(self.device.host(least)[0])
        if position != none:
            raise unusable_potential(self.program.graph, np.asarray(tables, dtype=self.dtype), position)
        self._load(flat, keep=True)

    def _refresh_base(self) -> None:
        """To be called before tables or base are read."""
        self._own_tables()
        if self._stale:
            self._launch("refresh_base", self._senders)
        self._stale = False

    def _refresh_for_sweep(self) -> None:
        """A sweep makes the base of all that send; it reads only that of regions with children."""
        self._own_tables()
        if self._stale and self._sweeps_all:
            self._launch("refresh_base", self._inner)
            self._stale = False
        self._refresh_base()

    def _find_support(self) -> None:
        """Generalised arc consistency: pruned entries become -inf in the tables."""
        xp = self._xp
        none = np.iinfo(np.int64).max
        state = xp.array([0, none], dtype=np.int64)
        self._launch("support_prunes", self._all, self._at(state))
        while True:
            pending, region = (int(k) for k in self.device.host(state))
            if region != none:
                raise SupportError(
                    f"region {region}: every label is forbidden (-inf), by itself or through its neighbours; at least "
                    "one joint label must stay"
                )
            if not pending and self.forbidden:
                break
            self.forbidden = True
            state[0] = 0
            self._launch("support_extends", self._slots)
            self._launch("support_restricts", self._all, self._at(state))
            self._launch("support_tells", self._senders)
            self._launch("support_prunes", self._all, self._at(state))
        self._arrays["messages"].fill(0)
        marks = xp.zeros(len(self.layout.groups), dtype=np.int32)
        self._launch("support_marks", self._all, self._at(marks))
        self._group_table["forbidden"] = self.device.host(marks)
        self._arrays["groups"][...] = xp.asarray(self._group_table.view(np.uint8))

    # Messages.

    @property
    def epsilon(self) -> float:
        return self._epsilon

    def set_epsilon(self, value: float) -> None:
        self._epsilon = float(value)
        self._view[VIEW.index("epsilon")] = bits(self._epsilon)

    def messages(self) -> RealArray:
        flat = self._xp.zeros(max(self._message_size, 1), dtype=self.dtype)
        self._launch("messages_out", self._slots, self._at(flat))
        result: RealArray = self.device.host(flat)[: self._message_size]
        return result

    def set_messages(self, flat: RealArray) -> None:
        if self._message_size:
            given = self._upload(flat)
            self._launch("messages_in", self._slots, self._at(given))
            if self.forbidden:
                self._launch("mask_messages", self._senders)
        self._stale = True

    # Sweeps.

    def _run(self, with_values: bool) -> None:
        """One full sweep; `with_values`: the last class enters its share of F into the values."""
        last = len(self.layout.schedule) - 1
        for step, c in enumerate(self.layout.schedule.tolist()):
            self._run_heavy(c)
            values = self._at(self._sweep_values) if with_values and step == last else 0
            for name, work in self._light[c]:
                if isinstance(work, Blocks):
                    self._launch(name, work, values)
                else:
                    self._launch_static(name, work[0], work[1], values)
        if with_values:
            self._launch("values", self._rest, self._at(self._sweep_values), x=self._epsilon)

    def _run_heavy(self, c: int) -> None:
        """mu to the regions of a class."""
        if self._epsilon > 0.0:
            for name, work in self._heavy[c]:
                if isinstance(work, Blocks):
                    self._launch(name, work)
                else:
                    self._launch_static(name, work[0], work[1])
        else:
            self._launch("heavy_hard", self._hard[c])

    def _replay(self, with_values: bool) -> None:
        """A sweep as one recorded graph of launches; the temperature is read from memory, unless F is wanted too."""
        if with_values:
            self._run(True)
            return
        key = self._epsilon > 0.0, with_values
        if key not in self._replays:
            self._replays[key] = self.device.record(lambda: self._run(with_values))
        self._replays[key]()

    def sweep(self, count: int = 1) -> None:
        if len(self.layout.schedule) and count:
            self._refresh_for_sweep()
            for _ in range(count):
                self._replay(False)

    def sweep_value(self) -> float:
        if not len(self.layout.schedule) or not self.layout.positive_hats or not self._epsilon > 0.0:
            self.sweep()
            return float(self.value().sum())
        self._refresh_for_sweep()
        self._replay(True)
        return float(self._by_segment(self._sweep_values).sum())

    # Values and beliefs.

    def value(self, epsilon: float | None = None) -> FloatArray:
        self._launch_values(epsilon)
        return self._by_segment(self._lane_values)

    def _launch_values(self, epsilon: float | None = None) -> None:
        """Values by lane."""
        self._refresh_base()
        at = self._epsilon if epsilon is None else float(epsilon)
        self._launch("values", self._all, self._at(self._lane_values), x=at)

    def _beliefs(self, epsilon: float | None) -> Any:
        """Beliefs in the layout of the tables."""
        self._refresh_base()
        at = self._epsilon if epsilon is None else float(epsilon)
        beliefs = self._buffer("beliefs", self.layout.table_entries, self.dtype)
        self._launch("beliefs", self._all, self._at(self._lane_values), self._at(beliefs), x=at)
        if len(self._zero):
            blocks = -(-len(self._zero) * self.device.team // self.device.block)
            self._launch("zero_beliefs", blocks, self._at(beliefs), self._at(self._zero), len(self._zero))
        return beliefs

    def beliefs(self, epsilon: float | None = None) -> RealArray:
        beliefs: RealArray = self._flat(self._beliefs(epsilon))
        return beliefs

    def value_and_beliefs(self, out: RealArray | None = None) -> tuple[FloatArray, RealArray]:
        beliefs = self._flat(self._beliefs(None))
        if out is not None:
            out[:] = beliefs
            beliefs = out
        return self._by_segment(self._lane_values), beliefs

    def _flat(self, lanes: Any) -> Any:
        """Tables in the user's layout, on the host."""
        size = int(self.program.graph.table_offsets[-1])
        flat = self._xp.empty(max(size, 1), dtype=lanes.dtype)
        name = "store_tables" if lanes.dtype == self.dtype else "store_doubles"
        self._launch(name, self._all, self._at(lanes), self._at(flat))
        return self.device.host(flat)[:size]

    def trial(self, direction: RealArray, steps: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        count = len(steps)
        if count == 0 or self._all.count == 0:
            return np.zeros(count), np.zeros(count), np.zeros(count)
        along = self._buffer("direction", self.layout.table_entries, self.dtype)
        flat = self._upload(direction)
        self._launch("load_tables", self._all, self._at(flat), self._at(along))
        return self._trial(along, steps)

    def _trial(self, along: Any, steps: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """`along`: layout of the tables."""
        self._refresh_base()
        xp, count = self._xp, len(steps)
        if count == 0 or self._all.count == 0:
            return np.zeros(count), np.zeros(count), np.zeros(count)
        device_steps = xp.asarray(np.ascontiguousarray(steps, dtype=np.float64))
        partial = xp.zeros(self._all.count * self.device.block // self.device.team * count * 3)
        self._launch("line", self._all, self._at(along), self._at(partial), self._at(device_steps), count)
        value, slope, curvature = self.device.host(self._total(partial, 3 * count)).reshape(count, 3).T.copy()
        return value, slope, curvature

    # Certificate.

    def certificate(
        self, smoothing: float | None = None, region_gaps: bool = False, candidate: bool = False
    ) -> Certificate:
        smoothing = self._epsilon if smoothing is None else float(smoothing)
        if not smoothing > 0.0:
            raise OptionError("smoothing must be positive: at epsilon = 0 no candidate can be made from beliefs")
        if not self.certifies:
            certificate: Certificate = self._on_host().certificate(smoothing, region_gaps, candidate)
            return certificate
        return self._certificate(smoothing, region_gaps, candidate)[0]

    @property
    def certifies(self) -> bool:
        """Certificates are made on the card: no forbidden labels, all children are single variables."""
        orders = np.asarray(self.program.graph.region_orders)
        return not self.forbidden and not (orders[self.program.edge_children] > 1).any()

    def _certificate(
        self, smoothing: float, region_gaps: bool = False, candidate: bool = False, keep: bool = False
    ) -> tuple[Certificate, Any]:
        """With `candidate` in the certificate, and with `keep` on the card: q, float64 in the layout of the tables."""
        q = self._certify(smoothing, candidate or keep)
        layout, xp = self.layout, self._xp
        gaps = self._buffer("gaps", len(layout.regions))
        counting = self._arrays["counting"]
        clipped = xp.where(counting >= 0.0, xp.maximum(gaps, 0.0), xp.minimum(gaps, 0.0))
        by_region = None
        if region_gaps:
            by_region = np.zeros(self.program.graph.num_regions)
            filled = layout.regions >= 0
            by_region[layout.regions[filled]] = self.device.host(clipped)[filled]
        certificate = Certificate(
            value=self._by_segment(self._lane_values),
            gap=self._by_segment(clipped),
            spread=self._by_segment(xp.abs(clipped)),
            region_gaps=by_region,
            candidate=self._flat(q) if candidate else None,
        )
        return certificate, q

    def _certify(self, smoothing: float, candidate: bool) -> Any:
        """Values and gaps by lane; with `candidate` q, float64 in the layout of the tables."""
        self._refresh_base()
        layout, xp, device = self.layout, self._xp, self.device
        if CERTIFY[0] not in self._kernel:
            self._kernel.update(device.kernels(sources.general(self.dtype.name, "certify"), CERTIFY))
        targets = self._buffer("targets", layout.message_entries)
        q = self._buffer("child candidates", layout.base_entries)
        gaps = self._buffer("gaps", len(layout.regions))
        out = xp.zeros(max(layout.table_entries, 1)) if candidate else None
        fixed = None
        if len(layout.zero_children):
            mask = np.zeros(len(layout.regions), dtype=np.uint8)
            firsts = layout.group_table["first_lane"][layout.zero_children[:, 3]]
            mask[firsts + layout.zero_children[:, 4]] = 1
            fixed = xp.asarray(mask)

        def arguments(work: Any, stride: int) -> Any:
            fields = [bits(smoothing), self._at(targets), self._at(q), 0 if fixed is None else self._at(fixed)]
            fields += [0 if out is None else self._at(out), self._at(self._lane_values), self._at(gaps)]
            fields += [0 if work is None else self._at(work), stride]
            return xp.asarray(np.array(fields, dtype=np.int64))

        children = arguments(None, 0)
        if fixed is not None:
            zero = -(-len(self._zero) * device.team // device.block)
            self._launch("zero_candidates", zero, self._at(children), self._at(self._zero), len(self._zero))
        self._launch("certify_children", self._senders, self._at(children))
        for group, blocks in zip(layout.groups, self._by_group, strict=True):
            if group.sends or not blocks.count:
                continue
            share = group.entries + sum(group.labels(s) for s in range(len(group.masks)))
            per_block = device.block if group.width > 1 else device.block // device.team
            at_once = min(max(1, WORK_BYTES // (8 * share * per_block)), blocks.count)
            work = xp.empty(at_once * per_block * share)
            parents = arguments(work, at_once * per_block if group.width > 1 else share)
            for first in range(0, blocks.count, at_once):
                part = Blocks(blocks.first + first, min(at_once, blocks.count - first))
                self._launch("certify_parents", part, self._at(parents))
        return out

    # Labels: few and branching; the cpu backend finds them at the messages of the card.

    def _on_host(self, messages: bool = True) -> Any:
        """The same problem in the memory of the host."""
        from blendfield.backends.cpu import CpuProblem

        self._own_tables()
        if self._twin is None or not self._twin_has_potentials:
            tables = self._flat(self._arrays["tables"])
            if self._twin is None:
                self._twin = CpuProblem(self.program, tables, self._epsilon, self.dtype.name, None)  # type: ignore[arg-type]
            else:
                self._twin.set_potentials(tables)
            self._twin_has_potentials = True
        self._twin.set_epsilon(self._epsilon)
        if messages:
            self._twin.set_messages(self.messages())
        return self._twin

    def score(self, labels: LabelArray) -> FloatArray:
        result: FloatArray = self._on_host(messages=False).score(labels)
        return result

    def decode(self) -> LabelArray:
        result: LabelArray = self._on_host().decode()
        return result

    def belief_labels(self) -> LabelArray:
        result: LabelArray = self._on_host().belief_labels()
        return result

    def local_search(self, labels: LabelArray, max_passes: int) -> LabelArray:
        result: LabelArray = self._on_host(messages=False).local_search(labels, max_passes)
        return result

    def block_search(self, labels: LabelArray, rounds: int, seed: int) -> LabelArray:
        result: LabelArray = self._on_host(messages=False).block_search(labels, rounds, seed)
        return result

    # History of the mixing.

    def allocate_history(self, slots: int) -> None:
        size = max(self.layout.message_entries, 1)
        self._residuals, self._images = [], []
        need = (2 * slots + 1) * size * self.dtype.itemsize
        fits = need <= HISTORY_SHARE * self.device.free_bytes()
        if not fits:
            logger.info("a mixing history of %d MiB stays in the memory of the host", need >> 20)
        make = self._xp.zeros if fits else self.device.page_locked
        self._residuals = [make(size, dtype=self.dtype) for _ in range(slots)]
        self._images = [make(size, dtype=self.dtype) for _ in range(slots)]
        self._saved = self._xp.zeros(size if slots else 1, dtype=self.dtype)
        self._pushed = [False] * slots

    def clear_history(self) -> None:
        self._pushed = [False] * len(self._pushed)

    def save_point(self) -> None:
        messages = self._arrays["messages"]
        if self._saved.size != messages.size:
            self._saved = self._xp.empty_like(messages)
        self._saved[...] = messages

    def push(self, slot: int) -> FloatArray:
        products: FloatArray = self.device.host(self._push(slot))
        return np.where(self._pushed, products, 0.0)

    def _push(self, slot: int) -> Any:
        """The products on the card; those with empty slots mean nothing."""
        self._require_slot(slot)
        slots, size = len(self._pushed), self.layout.message_entries
        self._pushed[slot] = True
        if size == 0:
            return self._xp.zeros(slots)
        share = PUSH_SHARE * self.device.block
        blocks = -(-size // share)
        partial = self._xp.empty(blocks * self.device.block // self.device.team * slots)
        addresses = [self._at(f) if k else 0 for f, k in zip(self._residuals, self._pushed, strict=True)]
        addresses += [self._at(g) for g in self._images]
        table = self._xp.asarray(np.array([*addresses, self._at(partial)], dtype=np.int64))
        self._launch("push", blocks, self._at(self._saved), self._at(table), slot, slots, float(size))
        return self._total(partial, slots)

    def mix(self, weights: FloatArray) -> None:
        slots, size = len(self._pushed), self.layout.message_entries
        if not any(self._pushed) or size == 0:
            if size:
                self._arrays["messages"].fill(0)
                self._stale = True
            return
        used = [self._at(g) if k else 0 for g, k in zip(self._images, self._pushed, strict=True)]
        table = self._xp.asarray(np.array(used, dtype=np.int64))
        given = self._xp.asarray(np.ascontiguousarray(weights, dtype=np.float64))
        self._launch("mix", -(-size // self.device.block), self._at(table), self._at(given), size, slots)
        self._stale = True

    def restore(self, slot: int) -> None:
        self._require_slot(slot)
        self._arrays["messages"][...] = self._images[slot]
        self._stale = True

    def _require_slot(self, slot: int) -> None:
        if not 0 <= slot < len(self._pushed):
            raise OptionError(f"slot {slot}: the history has {len(self._pushed)} slots")

    @property
    def memory_bytes(self) -> int:
        held = [*self._arrays.values(), *self._buffers.values(), *self._residuals, *self._images]
        held += [self._saved, self._blocks, self._lane_values, self._sweep_values, self._zero]
        return sum(int(array.nbytes) for array in held) + self._sum_values.nbytes


def _padded(array: Any) -> Any:
    """At least one entry: an address is needed."""
    return array if len(array) else np.zeros(1, dtype=array.dtype)
