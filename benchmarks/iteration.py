"""What does one iteration of learning cost, in time and in memory, and how does it grow with the number of images?

    python benchmarks/iteration.py [--side 64] [--counts 50 100 200 400]

Binary grids, a weight per pixel and feature and one per pair (16,256 at 64x64), eps = 1, float64. An iteration: new
potentials from the weights, one sweep, value, gradient and curvature, one mixed step; no certificate. Its time is in
units of one bare vectorised exp pass over as many numbers as there are table entries, measured in between, both on one
thread and in processor time. Memory is what the process grows by beyond the samples, in units of the tables (float64);
"history" is that of the mixing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import blendfield as bf
from blendfield import _core
from blendfield.engines.protocol import Request
from blendfield.learning.compile import compile_training_set
from learning import samples

ITERATIONS, SKIPPED = 14, 4
ENTRIES = 1 << 20


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def peak() -> int:
    """The most it ever had."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def bare_pass(numbers: np.ndarray) -> float:
    """Seconds per number."""
    start = time.process_time()
    for _ in range(8):
        _core.bare_exp_pass(numbers)
    return (time.process_time() - start) / (8 * len(numbers))


def iterations(data: list[bf.Sample], numbers: np.ndarray, entries: int, acceleration: str | None) -> list[float]:
    """Times of iterations, each over that of the exp pass right after it: what else the machine does slows both."""
    ratios: list[float] = []
    last = [np.nan]

    def timed(progress: bf.TrainingProgress) -> None:
        span = time.process_time() - last[0]
        ratios.append(span / bare_pass(numbers) / entries)
        last[0] = time.process_time()

    options: dict[str, Any] = {"tolerance": 0.0, "max_iterations": ITERATIONS, "certificate_every": 10**6}
    bf.BlendedLearner(1.0, threads=1, callback=timed, acceleration=acceleration, **options).fit(data)
    return ratios[SKIPPED:-1]  # the last one has a certificate


def measure(side: int, count: int) -> dict[str, Any]:
    """One row of the table; run in a process of its own."""
    data = samples("free", side, count)
    entries = sum(int(sample.graph.table_offsets[-1]) for sample in data)
    numbers = np.random.default_rng(0).standard_normal(ENTRIES)
    before = resident()
    learner = bf.BlendedLearner(1.0, threads=1)
    listed, layout = learner._samples_and_layout(data)
    start = time.process_time()
    engine = compile_training_set(listed, layout, "ones", learner._options())
    compiled = time.process_time() - start
    engine.iterate(Request(weights=np.zeros(layout.size), curvature=True))
    without_history = peak() - before
    del engine

    mixed = iterations(data, numbers, entries, "anderson")
    with_history = peak() - before
    return {
        "images": count,
        "weights": layout.size,
        "entries": entries,
        "compile": compiled / bare_pass(numbers) / entries,
        "iteration": statistics.median(mixed),
        "best iteration": min(mixed),
        "without mixing": statistics.median(iterations(data, numbers, entries, None)),
        "memory": without_history / (8 * entries),
        "memory with history": with_history / (8 * entries),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=64)
    parser.add_argument("--counts", type=int, nargs="+", default=[50, 100, 200, 400])
    parser.add_argument("--output", type=Path, default=Path("results/iteration.json"))
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(measure(options.side, options.one)))
        return
    rows: list[dict[str, Any]] = []
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    columns = (
        "images",
        "weights",
        "compile",
        "iteration",
        "best iteration",
        "without mixing",
        "memory",
        "memory with history",
    )
    print("".join(f"{name:>21}" for name in (*columns, "time per image")))
    for count in options.counts:
        command = [sys.executable, __file__, f"--side={options.side}", f"--one={count}"]
        row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)
        rows.append(row)
        linear = row["iteration"] / rows[0]["iteration"]  # per table entry
        shown = [f"{row[name]:>21.3g}" if isinstance(row[name], float) else f"{row[name]:>21}" for name in columns]
        print("".join(shown) + f"{linear:>21.2f}", flush=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
