"""Other libraries beside this one, on the same models, on one processor, in the same precision.

    make bench-peers [BENCH_ARGS='--only sweeps accuracy best']

    sweeps    seconds per sweep, in which every message is sent once
    accuracy  marginals against exact ones, and the time until they are as good as those of belief propagation get
    best      the best labelling: scores and seconds

The others live in an environment of their own (.venv-peers, see the Makefile) and get the models as files; what they
are asked there is in benchmarks/peer_runs.py. Neither compilation nor the building of the model counts. All rows are
printed, and go to results/peers.json.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import blendfield as bf
from blendfield.backends import get
from blendfield.inference.program import build_models
from blendfield.model.potentials import flatten_potentials

HERE = Path(__file__).parent
PYTHON = HERE.parent / ".venv-peers" / "bin" / "python"
SECONDS = 600
"""that one run of another library may take, its imports and preparations included"""
REPEATS = 25

Row = dict[str, Any]


def ask(library: str, model: Row, **options: Any) -> Row:
    """What benchmarks/peer_runs.py answers; {"failed": why} where it does not."""
    with tempfile.TemporaryDirectory() as folder:
        path, output = os.path.join(folder, "model.npz"), os.path.join(folder, "answer.npz")
        np.savez(path, **model)
        text = json.dumps({"output": output, "repeats": REPEATS, "damping": 0.0, "temperature": 1.0, **options})
        command = [str(PYTHON), str(HERE / "peer_runs.py"), library, path, text]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return {"failed": f"not done in {SECONDS} s"}
        if done.returncode:
            return {"failed": (done.stderr.strip().splitlines() or ["no reason"])[-1][:100]}
        answer: Row = json.loads(done.stdout.strip().splitlines()[-1])
        if os.path.exists(output):
            answer |= dict(np.load(output))
        return answer


def grid(side: int, labels: int, coupling: float, seed: int = 0) -> tuple[bf.RegionGraph, Row]:
    """A grid with normal scores: `coupling` times those of the pairs. The graph's regions are pairs, then singles."""
    rng = np.random.default_rng(seed)
    graph = bf.grid_graph((side, side), labels)
    tables = coupling * rng.standard_normal((graph.num_given, labels, labels))
    singles = rng.standard_normal((side * side, labels))
    return graph, {"pairs": np.array(graph.regions[: graph.num_given]), "pair_tables": tables, "singles": singles}


def potentials(graph: bf.RegionGraph, model: Row) -> list[Any]:
    pairs = np.arange(graph.num_given)
    return [(pairs, model["pair_tables"]), (np.arange(graph.num_given, graph.num_regions), model["singles"])]


def compiled(graph: bf.RegionGraph, tables: Any, dtype: str, epsilon: float = 1.0) -> Any:
    """Belief propagation as a compiled problem, whose sweeps can be counted and timed."""
    program = build_models([graph], ["bethe"], epsilon, True, warn_uncertified=False).program
    flat = flatten_potentials(graph, tables, dtype)
    return get("cpu").compile(program, flat, epsilon=epsilon, dtype=dtype, threads=1)


def seconds_per_sweep(problem: Any, step: int) -> float:
    problem.sweep(1)
    best = math.inf
    for _ in range(REPEATS):
        started = time.perf_counter()
        problem.sweep(step)
        best = min(best, (time.perf_counter() - started) / step)
    return best


SWEEPS = [(2, 200, 10), (8, 80, 10), (21, 40, 10), (64, 16, 10)]
"""labels, side of the grid, sweeps at a time"""
WANTED = {2: 10.0, 8: 10.0, 21: 3.0, 64: 3.0}


def sweeps() -> Iterator[Row]:
    print("sweeps: times faster than the other library, per sweep")
    for labels, side, step in SWEEPS:
        graph, model = grid(side, labels, 0.5)
        tables = potentials(graph, model)
        ours = {dtype: seconds_per_sweep(compiled(graph, tables, dtype), step) for dtype in ("float32", "float64")}
        runs = [("pgmax", "float32"), ("pgmax", "float64"), ("inferlo", "float64")]
        for library, dtype in runs:
            answer = ask(library, model, what="sweeps", step=step, dtype=dtype)
            yield sweep_row(f"{labels} labels, {side} x {side}", library, dtype, ours[dtype], answer, WANTED[labels])
    for labels, side in ((2, 12), (8, 8)):  # no more fits into the time that pgmpy takes
        graph, model = grid(side, labels, 0.5)
        ours_max = seconds_per_sweep(compiled(graph, potentials(graph, model), "float64", 0.0), 100)
        answer = ask("pgmpy", model, what="sweeps", step=2, repeats=5)
        name = f"{labels} labels, {side} x {side}, maximising"
        yield sweep_row(name, "pgmpy", "float64", ours_max, answer, WANTED[labels])


def sweep_row(name: str, library: str, dtype: str, ours: float, answer: Row, wanted: float) -> Row:
    row: Row = {"model": name, "library": library, "dtype": dtype, "ours, ms": 1e3 * ours}
    if "failed" in answer:
        return {**row, "failed": answer["failed"], "passed": None}
    ratio = answer["seconds"] / ours
    return {**row, "theirs, ms": 1e3 * answer["seconds"], "faster": ratio, "wanted": wanted, "passed": ratio >= wanted}


def marginals(graph: bf.RegionGraph, beliefs: Any) -> np.ndarray:
    """float64 [V, n]"""
    return np.array([np.asarray(beliefs[region], np.float64) for region in graph.single_regions.tolist()])


def course(graph: bf.RegionGraph, tables: Any, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """(marginals [steps, V, n], seconds [steps]) of plain sweeps of belief propagation, one after the other."""
    problem = compiled(graph, tables, "float64")
    labels = int(graph.cardinalities[0])
    singles = graph.table_offsets[graph.single_regions][:, None] + np.arange(labels)
    found, clock, elapsed = [], [], 0.0
    for _ in range(steps):
        started = time.perf_counter()
        problem.sweep(1)
        elapsed += time.perf_counter() - started
        found.append(problem.beliefs()[singles])
        clock.append(elapsed)
    return np.array(found), np.array(clock)


def first_within(errors: np.ndarray, seconds: np.ndarray, target: float) -> float:
    """Seconds until errors stay within the target; nan if they never do."""
    outside = np.flatnonzero(~(errors <= target))
    reached = 0 if not len(outside) else outside[-1] + 1
    return float(seconds[reached]) if reached < len(seconds) else math.nan


def accuracy() -> Iterator[Row]:
    print("accuracy: largest error of a marginal against exact inference; seconds until belief propagation is there")
    for labels, side, coupling in ((2, 12, 0.5), (2, 12, 1.0), (4, 8, 0.5), (4, 8, 1.0), (8, 6, 1.0)):
        graph, model = grid(side, labels, coupling, seed=1)
        tables = potentials(graph, model)
        truth = marginals(graph, bf.infer(graph, tables, method="exact").beliefs)
        ours: dict[str, float] = {}
        for method in ("belief-propagation", "mean-field", "norm-product"):
            numbers = "cover" if method == "norm-product" else "auto"
            options: Row = {"restarts": 5} if method == "mean-field" else {}
            result = bf.infer(graph, tables, method=method, counting_numbers=numbers, threads=1, **options)
            ours[method] = float(np.abs(marginals(graph, result.beliefs) - truth).max())
            if method == "mean-field":
                ours["bound"] = result.lower
        found, seconds = course(graph, tables, 200)
        errors = np.abs(found - truth).max(axis=(1, 2))
        target = 1.001 * ours["belief-propagation"] + 1e-6
        there = first_within(errors, seconds, target)
        name = f"{labels} labels, {side} x {side}, coupling {coupling:g}"
        yield {"model": name, "library": "blendfield", **ours, "seconds": there, "passed": True}
        for damping in (0.0, 0.5):
            answer = ask("pgmax", model, what="course", step=1, steps=200, dtype="float64", damping=damping)
            row: Row = {"model": name, "library": f"pgmax, damping {damping:g}"}
            yield accuracy_row(row, answer, truth, "belief-propagation", ours, target, there)
        for method in ("belief-propagation", "mean-field"):
            answer = ask("inferlo", model, what="course", method=method)
            row = {"model": name, "library": "inferlo"}
            yield accuracy_row(row, answer, truth, method, ours, target, there)
    yield from bayesian()


def accuracy_row(
    row: Row, answer: Row, truth: np.ndarray, method: str, ours: dict[str, float], target: float, there: float
) -> Row:
    if "failed" in answer:
        return {**row, "failed": answer["failed"], "passed": None}
    errors = np.abs(answer["marginals"] - truth).max(axis=(1, 2))
    row[method] = float(errors[-1])
    if method == "mean-field":  # its aim is the bound: a better one may well have worse marginals
        row["bound"] = answer["bound"]
        return {**row, "passed": ours["bound"] >= answer["bound"] - 1e-6 * abs(answer["bound"])}
    row["seconds"] = first_within(errors, answer["seconds"], target)
    row["times slower"] = row["seconds"] / there
    return {**row, "passed": ours[method] <= 1.001 * row[method] + 1e-6}


def bayesian() -> Iterator[Row]:
    """A directed grid with observed leaves: loopy belief propagation of pyAgrum, and its exact inference."""
    side, labels = 8, 3
    rng = np.random.default_rng(3)
    parents = np.full((side * side, 2), -1)
    tables = np.zeros((side * side, labels, labels, labels))
    regions, scores = [], []
    for i in range(side * side):
        row, column = divmod(i, side)
        above = [i - side] * (row > 0) + [i - 1] * (column > 0)
        parents[i, : len(above)] = above
        tables[i] = np.log(rng.dirichlet(np.full(labels, 0.5), size=(labels, labels)) + 1e-3)
        tables[i] -= np.log(np.exp(tables[i]).sum(axis=-1, keepdims=True))
        regions.append((*above, i))
        scores.append(tables[i][tuple(slice(None) if k < len(above) else 0 for k in range(2))])
    graph = bf.RegionGraph([labels] * side * side, regions, edges="variables")
    evidence = {i: int(rng.integers(labels)) for i in range(side * side - 1, side * side - side, -2)}
    name = f"directed {side} x {side}, {labels} labels"
    truth = marginals(graph, bf.infer(graph, scores, method="exact", evidence=evidence).beliefs)
    result = bf.infer(graph, scores, method="belief-propagation", evidence=evidence, threads=1)
    ours = {"belief-propagation": float(np.abs(marginals(graph, result.beliefs) - truth).max())}
    yield {
        "model": name,
        "library": "blendfield",
        **ours,
        "seconds": float(result.history["seconds"][-1]),
        "passed": True,
    }
    model = {"parents": parents, "tables": tables}
    for method in ("exact", "belief-propagation"):
        observed = list(evidence.items())
        answer = ask("pyagrum", model, what="course", method=method, evidence=observed, step=1, steps=1000)
        row: Row = {"model": name, "library": f"pyagrum, {method}"}
        if "failed" in answer:
            yield {**row, "failed": answer["failed"], "passed": None}
            continue
        error = float(np.abs(answer["marginals"][-1] - truth).max())
        agrees = error <= 1e-6 if method == "exact" else ours[method] <= 1.001 * error + 1e-6
        yield {**row, "belief-propagation": error, "seconds": float(answer["seconds"][-1]), "passed": agrees}


def best() -> Iterator[Row]:
    print("best: score of the best labelling found; pytoulbar2, which is exact, has 20 seconds")
    for labels, side, coupling in ((2, 16, 1.0), (4, 12, 1.0), (4, 30, 1.0), (8, 20, 0.5)):
        graph, model = grid(side, labels, coupling, seed=2)
        tables = potentials(graph, model)
        name = f"{labels} labels, {side} x {side}, coupling {coupling:g}"
        started = time.perf_counter()
        result = bf.infer(graph, tables, epsilon=0, restarts=20, time_limit=20.0, threads=1)
        row: Row = {"model": name, "library": "blendfield", "score": result.score, "upper": result.upper}
        row["seconds"] = time.perf_counter() - started
        rows = [row]
        answer = ask("pytoulbar2", model, digits=6, time_limit=20)
        rows.append(scored(graph, tables, name, "pytoulbar2", answer))
        answer = ask("pgmax", model, what="course", step=200, steps=1, dtype="float64", damping=0.5, temperature=0.0)
        if "failed" not in answer:
            answer["seconds"] = float(answer["seconds"][-1])
        rows.append(scored(graph, tables, name, "pgmax, max-product", answer))
        exact = max(other.get("score", -math.inf) for other in rows)
        for other in rows:
            if "score" in other:
                other["below the best"] = exact - other["score"]
        row["passed"] = row["below the best"] <= 1e-4 * abs(exact) and result.upper >= exact - 1e-6 * abs(exact)
        yield from rows


def scored(graph: bf.RegionGraph, tables: Any, name: str, library: str, answer: Row) -> Row:
    row: Row = {"model": name, "library": library, "passed": True}
    if answer.get("labels") is None:
        return {**row, "failed": answer.get("failed", "no labelling"), "passed": None}
    score = compiled(graph, tables, "float64").score(np.array(answer["labels"])).sum()
    return {**row, "score": float(score), "seconds": answer["seconds"]}


STUDIES = {"sweeps": sweeps, "accuracy": accuracy, "best": best}


def shown(row: Row) -> str:
    words = []
    for name, value in row.items():
        if name not in ("model", "library", "passed"):
            words.append(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}")
    verdict = {True: "", False: "  MISSED", None: "  not compared"}[row["passed"]]
    return f"  {row['model']:34}{row['library']:22}{', '.join(words)}{verdict}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=STUDIES, default=list(STUDIES))
    parser.add_argument("--output", default="results/peers.json")
    arguments = parser.parse_args()
    if not PYTHON.exists():
        parser.error("the other libraries are not installed: make bench-peers does that")
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # one processor for all of us
    path = Path(arguments.output)
    rows: dict[str, list[Row]] = json.loads(path.read_text()) if path.exists() else {}
    for name in arguments.only:
        rows[name] = []
        for row in STUDIES[name]():
            row["passed"] = None if row["passed"] is None else bool(row["passed"])
            rows[name].append(row)
            print(shown(row), flush=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=1))
    return int(any(row["passed"] is False for name in arguments.only for row in rows[name]))


if __name__ == "__main__":
    sys.exit(main())
