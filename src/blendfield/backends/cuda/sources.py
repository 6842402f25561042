"""The text of the kernels: the headers of `core/kernels` and `core/cuda`, and instances for the shapes at hand."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from blendfield import _core
from blendfield.backends.cuda.layout import Group

REAL = {"float64": "double", "float32": "float"}
TILE = 8
"""labels of one slot per thread, at most"""
ENOUGH_THREADS = 1 << 18
"""in a launch; with fewer, each does less"""


def folder() -> Path:
    """Where the headers are: beside the compiled core."""
    return Path(_core.__file__).parent / "device_code"


@cache
def headers(name: str) -> str:
    """A header and all that it includes as one text, every file once."""
    seen: set[str] = set()

    def inline(file: str) -> str:
        if file in seen:
            return ""
        seen.add(file)
        text = (folder() / file).read_text().replace("#pragma once\n", "")
        return re.sub(r'#include "([^"]+)"\n', lambda found: inline(found.group(1)), text)

    return inline(f"cuda/{name}.h")


def general(dtype: str, name: str = "problem") -> str:
    """The kernels for any shape: "problem" or "certify"; "sweep": what those for one shape are made of."""
    return f"#define BF_REAL {REAL[dtype]}\n{headers(name)}"


def heavy_kernel(name: str, group: Group, slot: int, tile: int, splits: int = 1) -> str:
    """mu for one slot of tables of one shape; `tile`: labels per thread; `splits`: teams per lane and tile of labels,
    merged by another kernel.
    """
    own = [a for a in range(len(group.extents)) if group.masks[slot] >> a & 1]
    other = [a for a in range(len(group.extents)) if not group.masks[slot] >> a & 1]
    extents = group.extents
    entry = [1] * len(extents)
    for axis in range(len(extents) - 2, -1, -1):
        entry[axis] = entry[axis + 1] * extents[axis + 1]
    labels = group.labels(slot)

    def place(strides: list[int]) -> str:
        inner = f"k * {strides[other[-1]]}" if other else "0"
        return f"{_sum('y', extents, own, strides)} + {_sum('outer', extents, other[:-1], strides)} + {inner}"

    entry_points = f"BF_ENTRY({name}) {{ heavy_static<Real, true, Shape_{name}>(*view, view->items[a]); }}\n"
    if group.width == 1:
        entry_points = f"""
BF_ENTRY({name}) {{
    heavy_team<Real, true, Shape_{name}>(*view, view->items[a], pointer<Collector<Real, true>>(b));
}}
BF_ENTRY(merge_{name}) {{
    heavy_merge<Real, true, Shape_{name}>(*view, view->items[a], pointer<const Collector<Real, true>>(b));
}}
"""
    slots = range(len(group.masks))
    cases = " : ".join([*(f"s == {s} ? {place(group.strides(s))}" for s in slots), "0"])
    sizes = " : ".join([*(f"s == {s} ? {group.labels(s)}" for s in slots), "0"])
    return f"""
struct Shape_{name} {{
    static constexpr int labels = {labels}, others = {group.entries // labels}, entries = {group.entries};
    static constexpr int inner = {extents[other[-1]] if other else 1};
    static constexpr int slots = {len(group.masks)}, slot = {slot}, tile = {tile}, splits = {splits};
    static constexpr bool own_last = {str(bool(own and own[-1] == len(extents) - 1)).lower()};
    static BF_DEVICE int entry(int y, int outer, int k) {{ return {place(entry)}; }}
    static BF_DEVICE int label(int s, int y, int outer, int k) {{ return {cases}; }}
    static BF_DEVICE int labels_of(int s) {{ return {sizes}; }}
}};
{entry_points}"""


def light_kernel(name: str, labels: int, degree: int) -> str:
    """lambda of children with so many labels and, where it is not 0, at most so many parents."""
    return (
        f"\nBF_ENTRY({name}) {{ light_static<Real, {labels}, {degree}>(*view, view->items[b], pointer<double>(a)); }}\n"
    )


def potentials_kernel(name: str, entries: int, terms: int, parts: int) -> str:
    """theta of tables with so many entries and at most so many terms; `parts`: threads per table."""
    return f"""
BF_ENTRY({name}) {{
    const Terms<Real>& f = *pointer<const Terms<Real>>(a);
    potentials_static<Real, {entries}, {terms}, {parts}>(*view, view->items[b], f, pointer<Real>(c), d != 0);
}}
"""


def evaluate_kernel(name: str, group: Group, terms: int, write: bool, dtype: str, splits: int) -> str:
    """Value, beliefs and sums of the terms of tables of one shape; `splits`: threads per lane, merged by another."""
    count, last = len(group.extents), group.extents[-1]
    slots = range(len(group.masks))
    strides = [group.strides(s) for s in slots]
    labels = [f"{_sum('row', group.extents, list(range(count - 1)), t)} + {'y' if t[-1] else '0'}" for t in strides]
    cases = " : ".join([*(f"s == {s} ? {labels[s]}" for s in slots), "0"])
    sizes = " : ".join([*(f"s == {s} ? {group.labels(s)}" for s in slots), "0"])
    rows = group.entries // last
    tile_rows, tile_last = evaluate_tile(rows, last, dtype)
    if write:
        tile_rows, tile_last = rows, last
    given = "*view, view->items[b], f,"
    work = f"evaluate_team<Real, Shape_{name}>({given} pointer<double>(d));"
    if group.width > 1:
        work = f"evaluate_static<Real, Shape_{name}>({given} pointer<Real>(c), pointer<double>(d));"
    return f"""
struct Shape_{name} {{
    static constexpr int rows = {rows}, last = {last}, slots = {len(group.masks)}, terms = {terms};
    static constexpr int splits = {splits};
    static constexpr int tile_rows = {tile_rows}, tile_last = {tile_last};
    static constexpr bool write = {str(write).lower()};
    static BF_DEVICE int label(int s, int row, int y) {{ return {cases}; }}
    static BF_DEVICE constexpr int labels_of(int s) {{ return {sizes}; }}
}};
BF_ENTRY({name}) {{
    const Terms<Real>& f = *pointer<const Terms<Real>>(a);
    {work}
}}
BF_ENTRY(merge_{name}) {{
    const Terms<Real>& f = *pointer<const Terms<Real>>(a);
    evaluate_merge<{group.width}, Real, Shape_{name}>(*view, view->items[b], f, pointer<const double>(d));
}}
"""


def tiles(group: Group, dtype: str) -> int:
    """How many an evaluation goes through."""
    last = group.extents[-1]
    rows, width = evaluate_tile(group.entries // last, last, dtype)
    return group.entries // last // rows * -(-last // width)


def evaluate_tile(rows: int, last: int, dtype: str) -> tuple[int, int]:
    """(rows, entries of each) that a thread keeps in registers: so many loads are under way at once."""
    most = 32 if dtype == "float32" else 16
    if last > most:
        return 1, most // 2
    return max(n for n in range(1, most // last + 1) if rows % n == 0), last


def tile_of(labels: int, lanes: int) -> int:
    """Labels worked on by one thread: all if they are few, else a divisor; fewer where lanes are few."""
    most = TILE if lanes * -(-labels // TILE) >= ENOUGH_THREADS else TILE // 2
    if labels <= most:
        return labels
    return next((n for n in range(most, most // 2, -1) if labels % n == 0), most // 2)


def _sum(number: str, extents: tuple[int, ...], axes: list[int], strides: list[int]) -> str:
    """C++: sum over axes of digit times stride, the digits being those of `number`, last axis fastest."""
    terms, below = [], 1
    for axis in reversed(axes):
        digit = number if below == 1 else f"{number} / {below}"
        if axis != axes[0]:
            digit = f"({digit}) % {extents[axis]}"
        if strides[axis]:
            terms.append(f"({digit}) * {strides[axis]}")
        below *= extents[axis]
    return "(" + (" + ".join(terms) or "0") + ")"
