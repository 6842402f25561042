"""How fast is the CUDA backend, against the card's own copy rate, the CPU backend of the same machine and JAX?

    python benchmarks/cuda.py [sweeps iterations certified images sizes] [--rows grid-8 ...] [--json results/cuda.json]

sweeps      heavy phases and whole sweeps of random models: share of the copy rate, ratios to CPU and JAX
iterations  whole learning iterations (mixing, potentials, sweep, F, gradient, curvature, inner products) of the same
            models with features: share of the copy rate, ratio to CPU
images      the same for 100 images of 512x512 pixels and 8 labels
certified   seconds of `fit` to a certified relative gap of 1e-4, on both backends
sizes       from which size on the card is faster than the CPU: where backend="auto" takes it
numbers     the same learning problems on both: binary images as in benchmarks/learning.py, letters where the data are

Everything is checked against the cpu backend before it is timed. Kernels are timed by the card's own clock, whole
iterations by the host's, medians of several repetitions. Bytes are those that have to move: in a heavy phase every
table of the class once, the messages into it and the mu out of it; in a sweep besides the mu and the potentials of the
children into the light phase and the messages out of it; see `iteration_bytes` for the rest. Rates are shares of the
rate at which the same card copies 1 GiB in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from jax_sweep import flat, jax_sweep
from learning import samples as binary_images

# This file is called like a package of NVIDIA's, which CuPy imports.
sys.path = [folder for folder in sys.path if Path(folder).resolve() != Path(__file__).resolve().parent]

import blendfield as bf  # noqa: E402
from blendfield import backends  # noqa: E402
from blendfield.backends.protocol import Program  # noqa: E402
from blendfield.engines import Request  # noqa: E402
from blendfield.graph import RegionGraph  # noqa: E402
from blendfield.inference.program import build_models  # noqa: E402
from blendfield.learning.compile import compile_training_set  # noqa: E402
from blendfield.model import WeightLayout  # noqa: E402

MOST_PARENTS = 4e6
"""of a row: Python's share of the time is theirs"""
SLOTS = 8
"""steps of mixing history, the learner's default"""


def grid(labels: int, entries: float) -> RegionGraph:
    pairs = min(MOST_PARENTS, entries / labels**2)
    side = max(2, round((pairs / 2) ** 0.5))
    return bf.grid_graph((side, side), labels)


def triples(labels: int, entries: float) -> RegionGraph:
    """Triples (i, i + 1, i + width) of a grid of variables."""
    count = max(4.0, min(MOST_PARENTS / 2, entries / labels**3))
    width = max(2, round(count**0.5))
    index = np.arange((width + 1) * (width + 1)).reshape(width + 1, width + 1)
    regions = np.stack([index[:-1, :-1], index[:-1, 1:], index[1:, :-1]], axis=-1).reshape(-1, 3)
    used = np.unique(regions)
    return RegionGraph(np.full(len(used), labels), np.searchsorted(used, regions))


ROWS: dict[str, Callable[[float], RegionGraph]] = {
    **{f"grid-{n}": lambda entries, n=n: grid(n, entries) for n in (2, 8, 21, 64, 256)},
    **{f"triples-{n}": lambda entries, n=n: triples(n, entries) for n in (2, 8, 21, 64, 256)},
}


def program_of(graph: RegionGraph) -> Program:
    return build_models([graph], ["cover"], 1.0, True).program


def card_seconds(work: Callable[[], object], repeats: int = 15) -> float:
    """Median over repetitions, by events."""
    import cupy

    work()
    work()  # may be recorded now
    times = []
    for _ in range(repeats):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(begin, end) / 1e3)
    return float(np.median(times))


def host_seconds(work: Callable[[], object], repeats: int = 5, warm: int = 2) -> float:
    """Median."""
    for _ in range(warm):
        work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def copy_rate() -> float:
    """Bytes read and written per second by a copy on the card."""
    import cupy

    source = cupy.random.random(1 << 28, dtype=np.float32)
    target = cupy.empty_like(source)
    return 2 * source.nbytes / card_seconds(lambda: cupy.copyto(target, source))


# What has to move.


def heavy_bytes(program: Program, size: int) -> int:
    """Of all heavy phases of a sweep: tables, messages of the other slots, mu."""
    sizes = program.graph.table_sizes
    children_of = np.bincount(program.edge_parents, weights=sizes[program.edge_children], minlength=len(sizes))
    runs = np.bincount(program.schedule, minlength=int(program.region_class.max()) + 1)
    times = runs[program.region_class[program.edge_children]]
    moved = sizes[program.edge_parents] + children_of[program.edge_parents]
    return int((times * moved).sum()) * size


def sweep_bytes(program: Program, size: int) -> int:
    """Besides: mu and potentials of the children read, their messages written."""
    sizes = program.graph.table_sizes
    runs = np.bincount(program.schedule, minlength=int(program.region_class.max()) + 1)
    senders = np.flatnonzero(program.region_class >= 0)
    own = int((runs[program.region_class[senders]] * sizes[senders]).sum())
    sent = int((runs[program.region_class[program.edge_children]] * sizes[program.edge_children]).sum())
    return heavy_bytes(program, size) + (own + 2 * sent) * size


def iteration_bytes(program: Program, size: int) -> int:
    """Messages mixed from the history; tables written; a sweep; tables and messages read for F and the gradient; the
    residual, the image and the inner products of the history.
    """
    tables = int(program.graph.table_offsets[-1])
    messages = int(program.graph.table_sizes[program.edge_children].sum())
    mixing = (SLOTS + 1) * messages
    history = (2 + 2 + SLOTS - 1) * messages
    return (2 * tables + messages + mixing + history) * size + sweep_bytes(program, size)


# Sweeps.


def sweep_row(name: str, dtype: Any, entries: float, rate: float, cpu: bool, jax: bool) -> dict[str, Any]:
    program = program_of(ROWS[name](entries / (2 if dtype == "float64" else 1)))
    rng = np.random.default_rng()
    tables = rng.standard_normal(int(program.graph.table_offsets[-1]), dtype=np.float32).astype(dtype)
    start = time.perf_counter()
    problem: Any = backends.get("cuda").compile(program, tables, epsilon=1.0, dtype=dtype)
    compile_seconds = time.perf_counter() - start
    size = np.dtype(dtype).itemsize
    row: dict[str, Any] = {"row": name, "dtype": dtype, "entries": len(tables), "compile s": compile_seconds}
    value = problem.sweep_value()
    messages = problem.messages()

    def heavy() -> None:
        for c in program.schedule.tolist():
            problem._run_heavy(c)

    replay = problem.device.record(heavy)
    row["heavy"] = heavy_bytes(program, size) / card_seconds(replay) / rate
    problem.set_messages(np.zeros_like(messages))
    seconds = card_seconds(problem.sweep)
    row["sweep"] = sweep_bytes(program, size) / seconds / rate
    row["sweep ms"] = 1e3 * seconds
    if cpu:
        other = backends.get("cpu").compile(program, tables, epsilon=1.0, dtype=dtype)
        expected = other.sweep_value()
        assert abs(value - expected) <= (1e-9 if dtype == "float64" else 1e-5) * abs(expected), (name, value, expected)
        row["cpu / cuda"] = host_seconds(other.sweep, 3, 1) / seconds
        del other
    if jax:
        sweep, given, data = jax_sweep(program, tables, 1.0, dtype)
        found = sweep(given, data)
        difference = float(np.abs(flat(found) - messages).max())
        assert difference < (1e-9 if dtype == "float64" else 1e-3), difference

        def three() -> None:
            nonlocal found
            for _ in range(3):
                found = sweep(found, data)
            found[0].block_until_ready()

        row["jax / cuda"] = host_seconds(three, 5, 1) / 3 / seconds
    return row


# Learning.


def samples_of(graph: RegionGraph, count: int, rng: np.random.Generator) -> list[bf.Sample]:
    """Noisy labels to recover: a linear model of the pixel, shared weights for equal neighbours."""
    labels = int(graph.cardinalities[0])
    outer = np.arange(graph.num_given)
    singles = np.arange(graph.num_given, graph.num_regions)
    axes = len(graph.regions[0])
    equal = np.zeros((1, *[labels] * axes))
    equal[(0, *[np.arange(labels)] * axes)] = 1.0
    side = round(graph.num_variables**0.5)
    samples = []
    for _ in range(count):
        waves = rng.standard_normal(2) @ np.indices((side + 1, side + 1)).reshape(2, -1) * 8.0 / side
        truth = (np.floor(np.sin(waves[: graph.num_variables]) * labels) % labels).astype(np.int64)
        x = truth / labels + 0.3 * rng.standard_normal(len(truth))
        features = np.stack([np.ones_like(x), x, x * x], axis=1)
        blocks = [bf.TiedLinear("pixel", singles, features), bf.TableFeatures("equal", outer, equal)]
        samples.append(bf.Sample(graph, blocks, labels=truth))
    return samples


def engine_of(samples: list[bf.Sample], backend: str, dtype: str) -> Any:
    learner = bf.BlendedLearner(1.0, 1.0, counting_numbers="cover", backend=backend, dtype=dtype)
    layout = WeightLayout.of_samples(samples)
    engine: Any = compile_training_set(samples, layout, "cover", learner._options())
    engine.allocate(SLOTS)
    return engine


def iterate(engine: Any, number: int) -> Any:
    """One iteration as the learner makes it, with all slots of the history in use."""
    mixing = np.full(SLOTS, 1.0 / SLOTS) if number >= SLOTS else None
    weights = 0.1 * np.sin(np.arange(engine.num_weights) + number)
    return engine.iterate(Request(weights=weights, mixing=mixing, slot=number % SLOTS, curvature=True))


def iteration_seconds(engine: Any, repeats: int) -> tuple[float, Any]:
    """(seconds, what the first three iterations found)."""
    found = [iterate(engine, number) for number in range(SLOTS + 2)][:3]
    number = SLOTS + 2

    def work() -> None:
        nonlocal number
        iterate(engine, number)
        number += 1

    return host_seconds(work, repeats, 0), found


def agree(mine: list[Any], other: list[Any], dtype: str) -> None:
    allowed = 1e-8 if dtype == "float64" else 2e-4
    for a, b in zip(mine, other, strict=True):
        assert abs(a.value - b.value) <= allowed * abs(b.value), (a.value, b.value)
        assert np.abs(a.gradient - b.gradient).max() <= allowed * np.abs(b.gradient).max()
        assert np.abs(a.curvature - b.curvature).max() <= 10 * allowed * np.abs(b.curvature).max()


def iteration_row(name: str, dtype: str, entries: float, rate: float, cpu: bool) -> dict[str, Any]:
    graph = ROWS[name](entries / (2 if dtype == "float64" else 1))
    samples = samples_of(graph, 1, np.random.default_rng())
    engine = engine_of(samples, "cuda", dtype)
    seconds, found = iteration_seconds(engine, 9)
    program = engine.chunks[0].models.program
    moved = iteration_bytes(program, np.dtype(dtype).itemsize)
    row: dict[str, Any] = {"row": name, "dtype": dtype, "entries": int(graph.table_offsets[-1])}
    row |= {"iteration": moved / seconds / rate, "iteration ms": 1e3 * seconds}
    if cpu:
        engine = None
        other, expected = iteration_seconds(engine_of(samples, "cpu", dtype), 3)
        agree(found, expected, dtype)
        row["cpu / cuda"] = other / seconds
    return row


def images_row(count: int, cpu_count: int, side: int, labels: int, dtype: str, rate: float) -> dict[str, Any]:
    """`count` images on the card; `cpu_count` of them on the CPU, its time scaled to all."""
    start = time.perf_counter()
    samples = samples_of(bf.grid_graph((side, side), labels), count, np.random.default_rng(7))
    engine = engine_of(samples, "cuda", dtype)
    compile_seconds = time.perf_counter() - start
    seconds, found = iteration_seconds(engine, 5)
    moved = sum(iteration_bytes(chunk.models.program, np.dtype(dtype).itemsize) for chunk in engine.chunks)
    row: dict[str, Any] = {"row": f"{count} images {side}x{side}, {labels} labels", "dtype": dtype}
    row |= {"chunks": len(engine.chunks), "compile s": compile_seconds}
    row |= {"iteration": moved / seconds / rate, "iteration ms": 1e3 * seconds}
    print(row, flush=True)
    del engine
    other, expected = iteration_seconds(engine_of(samples[:cpu_count], "cpu", dtype), 3)
    row["cpu images"], row["cpu / cuda"] = cpu_count, other * count / cpu_count / seconds
    if cpu_count == count:
        agree(found, expected, dtype)
    return row


def certified_row(count: int, side: int, labels: int, dtype: str) -> dict[str, Any]:
    samples = samples_of(bf.grid_graph((side, side), labels), count, np.random.default_rng(3))
    row: dict[str, Any] = {"row": f"fit {count} images {side}x{side}, {labels} labels", "dtype": dtype}
    for backend in ("cuda", "cpu"):
        learner = bf.BlendedLearner(
            1.0, 1.0, counting_numbers="cover", backend=backend, dtype=dtype, tolerance=1e-4, max_iterations=600
        )
        start = time.perf_counter()
        learner.fit(samples)
        row |= {f"{backend} s": time.perf_counter() - start, f"{backend} iterations": len(learner.history_["primal"])}
        row[f"{backend} s after compiling"] = float(learner.history_["seconds"][-1])
        row |= {f"{backend} stop": learner.stop_reason_, f"{backend} primal": learner.primal_}
        row[f"{backend} gap"] = learner.gap_ / abs(learner.primal_)
        print(row, flush=True)
    row["cpu / cuda"] = row["cpu s"] / row["cuda s"]
    return row


def size_row(labels: int, entries: float) -> dict[str, Any]:
    """Sweeps one by one as `infer` makes them, and learning iterations, of small models."""
    graph = grid(labels, entries)
    program = program_of(graph)
    tables = np.random.default_rng().standard_normal(int(graph.table_offsets[-1]))
    seconds = {}
    samples = samples_of(graph, 1, np.random.default_rng())
    for backend in ("cuda", "cpu"):
        problem = backends.get(backend).compile(program, tables, epsilon=1.0)
        seconds[f"{backend} sweep"] = host_seconds(problem.sweep_value, 15, 3)
        seconds[f"{backend} iteration"] = iteration_seconds(engine_of(samples, backend, "float64"), 9)[0]
    row: dict[str, Any] = {"row": f"size {labels} labels", "entries": len(tables)}
    return row | {
        f"cpu / cuda {what}": seconds[f"cpu {what}"] / seconds[f"cuda {what}"] for what in ("sweep", "iteration")
    }


def letters(count: int) -> list[bf.Sample]:
    """Chains of handwritten letters, of the data set where it is, else pictures made from 26 random ones."""
    from blendfield.datasets.letters import load

    try:
        words = [(word.pixels.reshape(len(word.labels), -1).astype(float), word.labels) for word in load()[:count]]
    except bf.BlendfieldError:
        rng = np.random.default_rng(5)
        shapes = rng.random((26, 128))
        texts = [rng.integers(26, size=rng.integers(3, 12)) for _ in range(count)]
        words = [((shapes[text] > rng.random((len(text), 128))).astype(float), text) for text in texts]
    samples = []
    for pixels, text in words:
        graph = bf.chain_graph(len(text), 26)
        singles = np.flatnonzero(graph.region_orders == 1)
        pairs = np.flatnonzero(graph.region_orders == 2)
        blocks = [bf.TiedLinear("letter", singles, np.concatenate([pixels, np.ones((len(text), 1))], axis=1))]
        if len(pairs):
            blocks.append(bf.TiedLinear("pair", pairs, np.ones((len(pairs), 1))))
        samples.append(bf.Sample(graph, blocks, labels=text))
    return samples


def numbers_row(name: str, samples: list[bf.Sample], **options: Any) -> dict[str, Any]:
    """Two learners, one on each backend, to the same certified gap."""
    learners, seconds = [], []
    for backend in ("cuda", "cpu"):
        start = time.perf_counter()
        learners.append(bf.BlendedLearner(backend=backend, tolerance=1e-6, max_iterations=400, **options).fit(samples))
        seconds.append(time.perf_counter() - start)
    mine, other = learners
    labels = [np.concatenate(learner.predict(samples)) for learner in learners]
    largest = np.abs(other.weights_).max()
    return {
        "row": name,
        **options,
        "primal": mine.primal_,
        "relative difference of the primal": abs(mine.primal_ - other.primal_) / abs(other.primal_),
        "of the weights": float(np.abs(mine.weights_ - other.weights_).max() / largest),
        "of the dual": abs(mine.dual_ - other.dual_) / abs(other.dual_),
        "labels that differ": int((labels[0] != labels[1]).sum()),
        "labels": len(labels[0]),
        "iterations": [len(learner.history_["primal"]) for learner in learners],
        "seconds": [round(s, 2) for s in seconds],
    }


def numbers_work() -> list[Callable[[], dict[str, Any]]]:
    work: list[Callable[[], dict[str, Any]]] = []
    for weights in ("free", "shared"):
        for epsilon in (1.0, 0.1):
            for dtype in ("float64", "float32") if epsilon == 1.0 else ("float64",):
                given = {"epsilon": epsilon, "dtype": dtype}
                work.append(lambda w=weights, g=given: numbers_row(f"16x16 images, {w} weights", binary_images(w), **g))
    work.append(lambda: numbers_row("letters", letters(600), epsilon=1.0, counting_numbers="bethe"))
    return work


PARTS = ("sweeps", "iterations", "images", "certified", "sizes", "numbers")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=list(PARTS))
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--dtypes", nargs="*", default=["float32", "float64"])
    parser.add_argument("--entries", type=float, default=4e8, help="float32 table entries of a row; half in float64")
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--cpu-images", type=int, default=20, help="so many of them on the CPU, its time scaled")
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
    work: list[Callable[[], dict[str, Any]]] = []
    for part in options.parts:
        for dtype in options.dtypes:
            for row in options.rows:
                if part == "sweeps":
                    given = (row, dtype, options.entries, rate, not options.no_cpu, not options.no_jax)
                    work.append(lambda given=given: sweep_row(*given))
                if part == "iterations":
                    some = (row, dtype, options.entries, rate, not options.no_cpu)
                    work.append(lambda some=some: iteration_row(*some))
        if part == "images":
            work.append(lambda: images_row(options.images, options.cpu_images, 512, 8, "float32", rate))
        if part == "certified":
            work.append(lambda: certified_row(20, 128, 8, "float64"))
        if part == "numbers":
            work += numbers_work()
        if part == "sizes":
            for labels in (2, 8):
                for entries in (1e3, 1e4, 1e5, 1e6):
                    work.append(lambda labels=labels, entries=entries: size_row(labels, entries))
    rows = []
    for job in work:
        try:
            found = job()
        except Exception as error:  # the others are still worth having
            found = {"failed": f"{type(error).__name__}: {error}"[:500]}
        rows.append(found)
        print("  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in found.items()), flush=True)
        cupy.get_default_memory_pool().free_all_blocks()
        if options.json:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_text(json.dumps({"card": name, "copy bytes/s": rate, "rows": rows}, indent=1))
    if any("failed" in row for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
