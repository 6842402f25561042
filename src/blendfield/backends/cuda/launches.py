"""From lanes to launches: items of work and the blocks of threads that do them; sums in a fixed order."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield.backends.cuda.device import Device
from blendfield.backends.cuda.layout import ITEM, Layout, Work

RUNS = 4
"""lanes in at most so many runs are items of their own; else they are listed"""
PIECE = 1024
"""terms of a sum that one team adds up"""


@dataclass(frozen=True)
class Blocks:
    """Thread blocks first .. first + count of the plan."""

    first: int
    count: int


class Plan:
    """Collects items and blocks; `upload` brings them to the card."""

    def __init__(self, device: Device, layout: Layout) -> None:
        self.device = device
        self.layout = layout
        self._items: list[tuple[int, ...]] = []
        self._lists: list[npt.NDArray[np.int32]] = []
        self._listed = 0
        self._blocks: list[npt.NDArray[np.int32]] = []
        self._count = 0

    def items(self, work: Work) -> list[int]:
        """The items of some work, by number."""
        lanes = work.lanes
        starts = np.concatenate([[0], np.flatnonzero(np.diff(lanes) != 1) + 1, [len(lanes)]])
        if len(lanes) == 0:
            return []
        if len(starts) - 1 <= RUNS:
            runs = [(int(lanes[a]), -1, int(b - a)) for a, b in itertools.pairwise(starts)]
        else:
            runs = [(0, self._listed, len(lanes))]
            self._lists.append(lanes)
            self._listed += len(lanes)
        numbers = []
        for first, listed, count in runs:
            tile, tiles = self._tiles(work)
            self._items.append((first, listed, count * tiles, work.group, max(work.slot, 0), count, tile))
            numbers.append(len(self._items) - 1)
        return numbers

    def _tiles(self, work: Work) -> tuple[int, int]:
        """(labels of the slot per unit of work, units per lane)."""
        if work.slot < 0:
            return 1, 1
        group = self.layout.groups[work.group]
        labels = group.labels(work.slot)
        own_last = group.masks[work.slot] >> (len(group.extents) - 1) & 1
        tile = 1 if group.width > 1 else 32 if own_last else 4
        return tile, -(-labels // tile)

    def blocks(self, works: Sequence[Work], whole: bool = False) -> Blocks:
        """Thread blocks for all of them; `whole`: units are lanes even where a slot is given."""
        first = self._count
        for work in works:
            for number in self.items(work):
                item = self._items[number]
                if whole:
                    self._items[number] = item = (*item[:2], item[5], *item[3:])
                wide = self.layout.groups[work.group].width > 1
                per_block = self.device.block if wide else self.device.block // self.device.team
                count = -(-item[2] // per_block)
                pairs = np.empty((count, 2), dtype=np.int32)
                pairs[:, 0] = number
                pairs[:, 1] = np.arange(count)
                self._blocks.append(pairs)
                self._count += count
        return Blocks(first, self._count - first)

    def total(self, number: int) -> int:
        """Units of work of an item."""
        return int(self._items[number][2])

    def units(self, number: int) -> int:
        """Lanes of an item."""
        return int(self._items[number][5])

    def set_tile(self, number: int, tile: int, labels: int) -> int:
        """Work on so many labels of the slot at a time; returns the units of the item."""
        first, listed, _, group, slot, count, _ = self._items[number]
        units = count * -(-labels // tile)
        self._items[number] = (first, listed, units, group, slot, count, tile)
        return units

    def upload(self) -> tuple[Any, Any, Any]:
        """(items, lists, blocks) on the card."""
        xp = self.device.xp
        items = np.array(self._items, dtype=ITEM) if self._items else np.zeros(1, dtype=ITEM)
        lists = np.concatenate([np.zeros(1, dtype=np.int32), *self._lists])[1:] if self._lists else np.zeros(1, "i4")
        blocks = np.concatenate([np.zeros((0, 2), dtype=np.int32), *self._blocks])
        return xp.asarray(items.view(np.uint8)), xp.asarray(lists), xp.asarray(blocks)


class Sums:
    """Sums of the rows of an array, segment by segment, in a fixed order whatever the machine."""

    def __init__(self, device: Device, kernel: Any, sizes: npt.NDArray[np.int64], order: Any = None) -> None:
        """`sizes` [segments]: rows of each, one after the other (in the order int32 [rows], where given)."""
        self.device = device
        self.kernel = kernel
        self.order = order
        self._levels = []
        self._outputs: dict[int, list[Any]] = {}
        address = 0 if order is None else device.address(order)
        while True:
            pieces = np.maximum(-(-sizes // PIECE), 1)
            begins = np.concatenate([[0], np.cumsum(sizes)])[:-1]
            piece_of = np.repeat(np.arange(len(sizes)), pieces)
            rank = np.arange(len(piece_of)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
            starts = np.append(begins[piece_of] + rank * PIECE, sizes.sum())
            self._levels.append((len(piece_of), device.xp.asarray(np.append(starts, address).astype(np.int64))))
            if len(piece_of) == len(sizes):
                break
            sizes, address = pieces, 0

    def __call__(self, rows: Any, columns: int = 1) -> Any:
        """float64 [segments, columns] on the card, of float64 [rows, columns]; overwritten by the next call."""
        device = self.device
        if columns not in self._outputs:
            self._outputs[columns] = [device.xp.empty((pieces, columns)) for pieces, _ in self._levels]
        for (pieces, starts), out in zip(self._levels, self._outputs[columns], strict=True):
            blocks = -(-pieces * columns * device.team // device.block)
            device.launch(
                self.kernel,
                blocks,
                0,
                device.address(starts),
                device.address(rows),
                device.address(out),
                pieces,
                columns,
                0.0,
            )
            rows = out
        return rows

    @property
    def nbytes(self) -> int:
        return sum(int(starts.nbytes) for _, starts in self._levels)
