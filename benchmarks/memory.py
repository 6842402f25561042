"""How much memory does one call of infer need beyond its input (graph and potentials), in units of the tables?

    python benchmarks/memory.py

Peak resident memory (Linux), plain sweeps without mixing history; each case in a process of its own. Then the time from
integer arrays to a compiled problem for a graph of a million regions.
"""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import blendfield as bf
from blendfield import backends
from blendfield.testing import build_program

CASES = ((2, "float64", 500), (2, "float32", 500), (3, "float64", 330), (8, "float64", 160), (8, "float32", 160))
CASES += ((21, "float64", 64), (21, "float32", 64), (64, "float64", 24))
LONE = ((2000, "float64", 0), (2000, "float32", 0))  # one table of labels x labels


def resident(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":"))


def measure(labels: int, dtype: str, side: int) -> None:
    options = {"dtype": dtype, "acceleration": None, "max_iterations": 12, "tolerance": 1e-12}
    small = bf.grid_graph((8, 8), labels)
    bf.infer(small, np.zeros(int(small.table_offsets[-1])), **options)  # load everything first
    graph = bf.grid_graph((side, side), labels) if side else bf.RegionGraph([labels, labels], [(0, 1)])
    tables = np.random.default_rng(0).standard_normal(int(graph.table_offsets[-1]), dtype=dtype)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what is free already must not hide what is needed
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    result = bf.infer(graph, tables, **options)
    run = resident("VmHWM") - before
    result.beliefs.flat  # noqa: B018 computed when first asked for
    with_beliefs = resident("VmHWM") - before
    case = f"grid {side}x{side}" if side else "lone table"
    print(
        f"{case}, {labels:>2} labels, {dtype}: {tables.nbytes / 1e6:>6.1f} MB of tables, peak beyond the "
        f"input {run / tables.nbytes:.2f} times that, {with_beliefs / tables.nbytes:.2f} with all beliefs",
        flush=True,
    )


def million() -> None:
    side = 580
    index = np.arange(side * side).reshape(side, side)
    across = np.stack([index[:, :-1], index[:, 1:]], axis=-1).reshape(-1, 2)
    down = np.stack([index[:-1], index[1:]], axis=-1).reshape(-1, 2)
    started = time.perf_counter()
    graph = bf.RegionGraph(np.full(side * side, 2), [across, down])
    made = time.perf_counter()
    program = build_program(graph, "ones")
    planned = time.perf_counter()
    backends.get("cpu").compile(program, np.zeros(int(graph.table_offsets[-1])), epsilon=1.0)
    compiled = time.perf_counter()
    print(
        f"{graph.num_regions} regions: graph {made - started:.2f} s, relinking, colours and components "
        f"{planned - made:.2f} s, compiled problem {compiled - planned:.2f} s"
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
    else:
        for case in CASES + LONE:
            subprocess.run([sys.executable, __file__, *map(str, case)], check=True)
        million()
