"""How fast is the CUDA backend, measured against the card's own copy rate, 16 CPU cores and JAX?

    python benchmarks/cuda.py [--rows grid-8 ...] [--parts sweep learning certify] [--json results/cuda.json]

Everything is built and checked against the cpu backend before it is timed, on random tables. Times are those of the
card's own clock (events), medians of several repetitions. "bytes" are those that must move in the best of worlds: for a
heavy phase every table of the class once, the messages into it and out of it; for a sweep besides the children's
potentials and what they send. Rates are shares of the rate at which the same card copies 2 GiB.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import blendfield as bf
from blendfield import backends
from blendfield.backends.protocol import Program
from blendfield.graph import RegionGraph
from blendfield.inference.program import build_models

GRID_LABELS = [2, 8, 21, 64, 256]
TRIPLE_LABELS = [2, 8, 21]


def grid(labels: int, entries: float) -> RegionGraph:
    side = max(2, round((entries / (2 * labels**2)) ** 0.5))
    return bf.grid_graph((side, side), labels)


def triples(labels: int, entries: float) -> RegionGraph:
    """Triples (i, i + 1, i + width) of a grid of variables."""
    count = max(4, round(entries / labels**3))
    width = max(2, round(count**0.5))
    index = np.arange((width + 1) * (width + 1)).reshape(width + 1, width + 1)
    regions = np.stack([index[:-1, :-1], index[:-1, 1:], index[1:, :-1]], axis=-1).reshape(-1, 3)
    used = np.unique(regions)
    return RegionGraph(np.full(len(used), labels), np.searchsorted(used, regions))


ROWS: dict[str, Callable[[float], RegionGraph]] = {
    **{f"grid-{n}": lambda entries, n=n: grid(n, entries) for n in GRID_LABELS},
    **{f"triples-{n}": lambda entries, n=n: triples(n, entries) for n in TRIPLE_LABELS},
}


def program_of(graph: RegionGraph) -> Program:
    return build_models([graph], ["cover"], 1.0, True).program


def card_seconds(work: Callable[[], object], repeats: int = 15) -> float:
    """Median over repetitions, by events."""
    import cupy

    work()
    times = []
    for _ in range(repeats):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(begin, end) / 1e3)
    return float(np.median(times))


def host_seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """The fastest."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def copy_rate() -> float:
    """Bytes read and written per second by a copy on the card."""
    import cupy

    source = cupy.random.random(1 << 28, dtype=np.float32)
    target = cupy.empty_like(source)
    return 2 * source.nbytes / card_seconds(lambda: cupy.copyto(target, source))


def heavy_bytes(program: Program, size: int) -> int:
    """Of all heavy phases of a sweep: tables, messages of the other slots, mu."""
    sizes = program.graph.table_sizes
    children_of = np.bincount(program.edge_parents, weights=sizes[program.edge_children], minlength=len(sizes))
    runs = np.bincount(program.schedule, minlength=int(program.region_class.max()) + 1)
    times = runs[program.region_class[program.edge_children]]
    moved = sizes[program.edge_parents] + children_of[program.edge_parents]
    return int((times * moved).sum()) * size


def sweep_bytes(program: Program, size: int) -> int:
    """Tables and messages of the other slots read, potentials of the children read, their messages written."""
    sizes = program.graph.table_sizes
    runs = np.bincount(program.schedule, minlength=int(program.region_class.max()) + 1)
    senders = np.flatnonzero(program.region_class >= 0)
    light = int((runs[program.region_class[senders]] * sizes[senders]).sum())
    return heavy_bytes(program, size) + light * size


def sweep_row(name: str, dtype: Any, entries: float, rate: float, cpu: bool, jax: bool) -> dict[str, Any]:
    program = program_of(ROWS[name](entries / (2 if dtype == "float64" else 1)))
    rng = np.random.default_rng(0)
    tables = rng.standard_normal(int(program.graph.table_offsets[-1]), dtype=np.float32).astype(dtype)
    start = time.perf_counter()
    problem: Any = backends.get("cuda").compile(program, tables, epsilon=1.0, dtype=dtype)
    compile_seconds = time.perf_counter() - start
    size = np.dtype(dtype).itemsize
    row: dict[str, Any] = {"row": name, "dtype": dtype, "entries": len(tables), "compile s": compile_seconds}
    value = problem.sweep_value()

    def heavy() -> None:
        for c in program.schedule.tolist():
            problem._run_heavy(c)

    row["heavy"] = heavy_bytes(program, size) / card_seconds(heavy) / rate
    problem.set_messages(np.zeros_like(problem.messages()))
    seconds = card_seconds(problem.sweep)
    row["sweep"] = sweep_bytes(program, size) / seconds / rate
    row["sweep ms"] = 1e3 * seconds
    row["value"] = len(tables) * size / card_seconds(lambda: problem._launch_values()) / rate
    if cpu:
        other = backends.get("cpu").compile(program, tables, epsilon=1.0, dtype=dtype)
        expected = other.sweep_value()
        assert abs(value - expected) <= (1e-9 if dtype == "float64" else 1e-5) * abs(expected), (name, value, expected)
        row["cpu / cuda"] = host_seconds(other.sweep) / seconds
    if jax and name.startswith("grid"):
        row["jax / cuda"] = jax_seconds(program, tables, dtype) / seconds
    return row


def jax_seconds(program: Program, tables: Any, dtype: str) -> float:
    """The same sweep of a grid, as one writes it in JAX: whole arrays, log-sum-exp, colours by a mask."""
    import jax
    import jax.numpy as jnp
    from jax.scipy.special import logsumexp

    jax.config.update("jax_enable_x64", True)
    graph = program.graph
    n = int(graph.cardinalities[0])
    count = graph.num_variables
    side = round(count**0.5)
    pairs = graph.num_given
    across = side * (side - 1)
    flat = jnp.asarray(tables)
    right = flat[: across * n * n].reshape(side, side - 1, n, n)
    down = flat[across * n * n : pairs * n * n].reshape(side - 1, side, n, n)
    theta = flat[pairs * n * n :].reshape(side, side, n)
    numbers = program.counting_numbers
    c_right = jnp.asarray(numbers[:across].reshape(side, side - 1, 1), dtype)
    c_down = jnp.asarray(numbers[across:pairs].reshape(side - 1, side, 1), dtype)
    c_own = jnp.asarray(numbers[pairs:].reshape(side, side, 1), dtype)
    classes = jnp.asarray(program.region_class[pairs:].reshape(side, side, 1))

    def padded(x: Any, before: int, after: int, axis: int) -> Any:
        widths = [(0, 0)] * 3
        widths[axis] = (before, after)
        return jnp.pad(x, widths)

    def one_class(messages: Any, c: int) -> Any:
        a, b, p, q = messages  # to `right` from its left and right pixel, to `down` from its upper and lower
        mu_a = c_right * logsumexp((right + b[:, :, None, :]) / c_right[..., None], axis=3)
        mu_b = c_right * logsumexp((right + a[:, :, :, None]) / c_right[..., None], axis=2)
        mu_p = c_down * logsumexp((down + q[:, :, None, :]) / c_down[..., None], axis=3)
        mu_q = c_down * logsumexp((down + p[:, :, :, None]) / c_down[..., None], axis=2)
        parts = [(mu_a, c_right, 0, 1, 1), (mu_b, c_right, 1, 0, 1), (mu_p, c_down, 0, 1, 0), (mu_q, c_down, 1, 0, 0)]
        total = theta + sum(padded(mu, low, high, axis) for mu, _, low, high, axis in parts)
        weight = c_own + sum(padded(k, low, high, axis) for _, k, low, high, axis in parts)
        own = total / weight
        mask = classes == c

        def send(old: Any, mu: Any, k: Any, low: int, high: int, axis: int) -> Any:
            here = [slice(None)] * 3
            here[axis] = slice(low, own.shape[axis] - high)
            new = k * own[tuple(here)] - mu
            new = new - new.mean(axis=2, keepdims=True)
            return jnp.where(mask[tuple(here)], new, old)

        return tuple(
            send(old, mu, k, high, low, axis) for old, (mu, k, low, high, axis) in zip(messages, parts, strict=True)
        )

    @jax.jit
    def sweep(messages: Any) -> Any:
        for c in program.schedule.tolist():
            messages = one_class(messages, c)
        return messages

    start = tuple(jnp.zeros((*shape, n), dtype) for shape in [(side, side - 1)] * 2 + [(side - 1, side)] * 2)
    messages = sweep(start)
    mine: Any = backends.get("cuda").compile(program, tables, epsilon=1.0, dtype=dtype)  # type: ignore[arg-type]
    mine.sweep()
    flat_messages = jnp.concatenate(
        [
            jnp.stack([messages[0], messages[1]], axis=2).reshape(-1),
            jnp.stack([messages[2], messages[3]], axis=2).reshape(-1),
        ]
    )
    difference = float(np.abs(np.asarray(flat_messages) - mine.messages()).max())
    assert difference < (1e-9 if dtype == "float64" else 1e-3), difference
    del mine
    times = []
    for _ in range(7):
        begin = time.perf_counter()
        for _ in range(3):
            messages = sweep(messages)
        jax.block_until_ready(messages)
        times.append((time.perf_counter() - begin) / 3)
    return float(np.median(times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--dtypes", nargs="*", default=["float32", "float64"])
    parser.add_argument("--entries", type=float, default=4e8, help="float32 table entries of a row")
    parser.add_argument("--no-cpu", action="store_true")
    parser.add_argument("--no-jax", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import cupy

    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    rate = copy_rate()
    print(
        f"{name}; {os.cpu_count()} CPU cores; Python {platform.python_version()}; copies {rate / 1e12:.2f} TB/s",
        flush=True,
    )
    rows = []
    for dtype in options.dtypes:
        for row in options.rows:
            found = sweep_row(row, dtype, options.entries, rate, not options.no_cpu, not options.no_jax)
            rows.append(found)
            print("  ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{v}" for k, v in found.items()), flush=True)
            cupy.get_default_memory_pool().free_all_blocks()
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"card": name, "copy bytes/s": rate, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
