"""How fast is the engine, measured against a bare vectorised exp over as many numbers?

    make bench
    make bench BENCH_ARGS="--cases grid-8 lone-table --entries 1000000"

Every case runs in a process of its own. Timings are noisy, so the three things that are compared (exp, a sweep on one
thread, a sweep on several) are measured in turn, again and again, and the fastest of each counts.

A sweep is a plain full sweep: every colour class once, gather and scatter included. Its cost is stated per table entry
and message: a pairwise table of 8 x 8 entries with two children counts 128.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import blendfield as bf
from blendfield import _core, backends
from blendfield.backends import Program
from blendfield.inference.program import build_models

ENTRIES = 4_000_000
GRID_LABELS = [2, 3, 5, 8, 21, 32, 64]


@dataclass(frozen=True)
class Case:
    """One model, scaled to about `entries` table entries; `limit` is the ratio to exp that we want to stay below."""

    build: Callable[[int], bf.RegionGraph]
    counting_numbers: str = "cover"
    limit: float | None = None


def grid(labels: int) -> Callable[[int], bf.RegionGraph]:
    def build(entries: int) -> bf.RegionGraph:
        side = max(2, round((entries / (2 * labels**2 + labels)) ** 0.5))
        return bf.grid_graph((side, side), labels)

    return build


def triples(entries: int) -> bf.RegionGraph:
    """Triples of variables with 8 labels, each variable in about six of them."""
    count = max(1, entries // 8**3)
    rng = np.random.default_rng(1)
    variables = max(4, count // 2)
    regions = distinct_rows(np.sort(rng.integers(variables, size=(2 * count, 3)), axis=1))[:count]
    return bf.RegionGraph(np.full(variables, 8), regions)


def three_levels(entries: int) -> bf.RegionGraph:
    """The 2 x 2 squares of a grid with 5 labels, the pairs in which they meet, and the singles."""
    side = max(3, round((entries / 5**4) ** 0.5))
    index = np.arange(side * side).reshape(side, side)
    squares = np.stack([index[:-1, :-1], index[:-1, 1:], index[1:, :-1], index[1:, 1:]], axis=-1).reshape(-1, 4)
    across = np.stack([index[1:-1, :-1], index[1:-1, 1:]], axis=-1).reshape(-1, 2)
    down = np.stack([index[:-1, 1:-1], index[1:, 1:-1]], axis=-1).reshape(-1, 2)
    return bf.RegionGraph(np.full(side * side, 5), [squares, across, down])


def hubs(entries: int) -> bf.RegionGraph:
    """Superpixels with 21 labels: small blocks, and one network of roads that touches hundreds of them."""
    side = max(8, round((entries / (2 * 21**2)) ** 0.5))
    blocks = np.arange(1, side * side + 1).reshape(side, side).repeat(2, axis=0).repeat(2, axis=1)
    blocks[:: side // 2, :] = 0
    blocks[:, :: side // 2] = 0
    _, label_map = np.unique(blocks, return_inverse=True)
    return bf.superpixel_graph(label_map.reshape(blocks.shape), 21)


def mixed(entries: int) -> bf.RegionGraph:
    """Pairs and triples over variables with 2 to 12 labels: hundreds of shapes."""
    count = max(1, entries // 200)
    rng = np.random.default_rng(2)
    variables = max(8, count // 2)
    cardinalities = rng.integers(2, 13, size=variables)
    pairs = distinct_rows(np.sort(rng.integers(variables, size=(count, 2)), axis=1))
    triangles = distinct_rows(np.sort(rng.integers(variables, size=(count // 2, 3)), axis=1))
    return bf.RegionGraph(cardinalities, [pairs, triangles], edges="variables")


def lone_table(entries: int) -> bf.RegionGraph:
    """One region over two variables with some thousand labels each."""
    labels = max(2, round(entries**0.5))
    return bf.RegionGraph([labels, labels], [(0, 1)])


def distinct_rows(regions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Drop rows that repeat a variable or an earlier row; rows are sorted."""
    regions = regions[np.all(regions[:, 1:] != regions[:, :-1], axis=1)]
    _, first = np.unique(regions, axis=0, return_index=True)
    return regions[np.sort(first)]


def grid_limit(labels: int) -> float:
    return 8.0 if labels == 2 else 3.5 if 8 <= labels <= 32 else 5.0


CASES: dict[str, Case] = {
    **{f"grid-{labels}": Case(grid(labels), limit=grid_limit(labels)) for labels in GRID_LABELS},
    "triples": Case(triples),
    "three-levels": Case(three_levels),
    "hubs": Case(hubs),
    "mixed": Case(mixed),
    "lone-table": Case(lone_table),
}


# ---------------------------------------------------------------------------------------------- one case, one process


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def resident_bytes(field: str) -> int:
    """VmRSS (now) or VmHWM (peak) of this process; 0 where the system does not tell."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":")), 0)


def forget_peak() -> None:
    """Let the peak start again from what is resident now (Linux only)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def messages_times_entries(program: Program) -> int:
    """Table entries read in one full sweep: per message, the entries of the parent's table."""
    runs = np.bincount(program.schedule, minlength=int(program.region_class.max()) + 1)
    return int(
        (runs[program.region_class[program.edge_children]] * program.graph.table_sizes[program.edge_parents]).sum()
    )


def measure(name: str, dtype: str, entries: int, repeats: int, threads: int) -> dict[str, Any]:
    case = CASES[name]
    start = time.perf_counter()
    graph = case.build(entries)
    program = build_models([graph], [case.counting_numbers], 1.0, single=True).program
    graph_seconds = time.perf_counter() - start
    size = int(graph.table_offsets[-1])
    numbers = np.random.default_rng(0).standard_normal(size).astype(dtype)
    backend = backends.get("cpu")

    # Memory first: nothing has been allocated and given back yet that a later step could use again.
    before = resident_bytes("VmRSS")
    forget_peak()
    start = time.perf_counter()
    one = backend.compile(program, numbers, epsilon=1.0, dtype=dtype, threads=1)
    compile_seconds = time.perf_counter() - start
    one.sweep()
    peak = resident_bytes("VmHWM") - before
    many = backend.compile(program, numbers, epsilon=1.0, dtype=dtype, threads=threads)
    many.sweep()

    best = {"exp": np.inf, "one": np.inf, "many": np.inf, "certificate": np.inf}
    sweeps = max(1, round(0.05 / seconds(one.sweep)))
    passes = max(1, round(0.02 / seconds(lambda: _core.bare_exp_pass(numbers))))
    for repeat in range(repeats):
        best["exp"] = min(best["exp"], seconds(lambda: [_core.bare_exp_pass(numbers) for _ in range(passes)]) / passes)
        best["one"] = min(best["one"], seconds(lambda: one.sweep(sweeps)) / sweeps)
        best["many"] = min(best["many"], seconds(lambda: many.sweep(sweeps)) / sweeps)
        if repeat % 5 == 0:
            best["certificate"] = min(best["certificate"], seconds(one.certificate))

    sweep_ns = 1e9 * best["one"] / messages_times_entries(program)
    exp_ns = 1e9 * best["exp"] / size
    return {
        "case": name,
        "dtype": dtype,
        "regions": graph.num_regions,
        "edges": len(program.edge_parents),
        "entries": size,
        "graph_seconds": graph_seconds,
        "compile_seconds": compile_seconds,
        "sweep_seconds": best["one"],
        "ns_per_entry_and_message": sweep_ns,
        "exp_ns": exp_ns,
        "ratio_to_exp": sweep_ns / exp_ns,
        "limit": case.limit,
        "threads": threads,
        "speedup": best["one"] / best["many"],
        "certificate_in_sweeps": best["certificate"] / best["one"],
        "bytes_per_entry": one.memory_bytes / size,
        "memory_in_tables": one.memory_bytes / numbers.nbytes,
        "peak_rss_in_tables": peak / numbers.nbytes,
        "max_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


# ------------------------------------------------------------------------------------------------------ all the cases

HEADER = (
    "case          type     entries  graph  compile   sweep  ns/entry·message   exp  ratio  limit  {threads} threads"
    "  certificate  bytes/entry  peak beyond input"
)


def row(r: dict[str, Any]) -> str:
    limit = "" if r["limit"] is None else f"{r['limit']:.1f}{' ' if r['ratio_to_exp'] <= r['limit'] else '!'}"
    return (
        f"{r['case']:<13} {r['dtype']:<8} {r['entries']:>7} {r['graph_seconds']:>5.2f}s {r['compile_seconds']:>7.2f}s"
        f" {1e3 * r['sweep_seconds']:>5.1f}ms {r['ns_per_entry_and_message']:>17.2f} {r['exp_ns']:>5.2f}"
        f" {r['ratio_to_exp']:>6.2f} {limit:>6} {r['speedup']:>9.2f}x {r['certificate_in_sweeps']:>5.1f} sweeps"
        f" {r['bytes_per_entry']:>12.1f} {r['peak_rss_in_tables']:>11.2f} tables"
    )


def machine() -> dict[str, Any]:
    try:
        cpu = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name"))
        cpu = cpu.split(":", 1)[1].strip()
    except (OSError, StopIteration):
        cpu = platform.processor()
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),  # what else was running
        "python": platform.python_version(),
        "numpy": np.__version__,
        "instruction_set": getattr(_core, "instruction_set", lambda: "unknown")(),
    }


def grid_table(rows: list[dict[str, Any]]) -> str:
    """The table of the README: ratio to exp, by number of labels."""
    lines = []
    for dtype in ("float64", "float32"):
        ratio = {r["case"]: f"{r['ratio_to_exp']:.1f}" for r in rows if r["dtype"] == dtype}
        lines.append(f"| {dtype} | " + " | ".join(ratio.get(f"grid-{labels}", "") for labels in GRID_LABELS) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES), metavar="CASE")
    parser.add_argument("--dtypes", nargs="+", choices=["float64", "float32"], default=["float64", "float32"])
    parser.add_argument("--entries", type=int, default=ENTRIES, help="table entries per case (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=20, help="measurements, of which the best counts")
    parser.add_argument("--threads", type=int, default=2, help="compared with one thread")
    parser.add_argument("--output", type=Path, default=Path("results/inference.json"))
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)  # measure one case here, print JSON
    options = parser.parse_args()
    if options.one:
        numbers = options.entries, options.repeats, options.threads
        print(json.dumps(measure(options.cases[0], options.dtypes[0], *numbers)))
        return

    environment = machine()
    print(", ".join(f"{key} {value}" for key, value in environment.items()))
    print(HEADER.format(threads=options.threads))
    rows = []
    for name in options.cases:
        for dtype in options.dtypes:
            command = [sys.executable, __file__, "--one", "--cases", name, "--dtypes", dtype]
            command += [f"--entries={options.entries}", f"--repeats={options.repeats}", f"--threads={options.threads}"]
            rows.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))
            print(row(rows[-1]), flush=True)
    print(grid_table(rows))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps({"machine": environment, "results": rows}, indent=1) + "\n")
    print(f"written: {options.output}")


if __name__ == "__main__":
    main()
