"""Many workers, one objective: is it the same objective, how much faster is it, and what does a lost worker cost?

    python benchmarks/scaling.py agree        # every answer against the local engine, 1 to 8 shards; the same optimum
    python benchmarks/scaling.py kills        # workers killed at ten moments, one stopped, one that is slow
    python benchmarks/scaling.py parts        # one graph in 2, 3 and 5 parts, exchange every 1, 5 and 20 sweeps
    python benchmarks/scaling.py speed        # strong and weak scaling, overhead over local, bytes; one thread each
    python benchmarks/scaling.py rounds       # what a round costs by itself, for 10^4 to 10^6 weights
    python benchmarks/scaling.py streaming    # a training set three times the memory limit of a worker
    python benchmarks/scaling.py model FILE…  # 10^6 images on 100 and 1000 machines, from the JSON of speed and rounds

Each prints a table and, with --output, writes JSON. A small Ray cluster on this machine is started for each.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import blendfield as bf
from blendfield.engines.cluster import Cluster, connect
from blendfield.engines.local import LocalEngine
from blendfield.engines.protocol import Request
from blendfield.engines.ray_engine import RayEngine
from blendfield.learning.blend import Blend, BlendOptions, BlendState
from blendfield.learning.compile import recipes_of
from blendfield.learning.recipe import ChunkRecipe
from blendfield.learning.regularisers import Regulariser
from blendfield.model.weights import WeightLayout

ISING = np.array([[1.0, -1.0], [-1.0, 1.0]])


def start_ray(processors: int) -> Any:
    """A cluster of this machine with so many processors, whether it has them or not."""
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    return connect(Cluster("local", processors, threads=1))


def images(weights: str, side: int, count: int) -> list[bf.Sample]:
    """Noisy pictures of a square; a weight per position ("free") or one for all ("tied")."""
    base = np.zeros((side, side), dtype=np.int64)
    base[side // 4 : 3 * side // 4, side // 5 : 3 * side // 5] = 1
    rng = np.random.default_rng(0)
    graph = bf.grid_graph((side, side), 2)
    pairs, singles = np.arange(graph.num_given), np.arange(graph.num_given, graph.num_regions)
    block = bf.FreeWeights if weights == "free" else bf.TableFeatures
    label_one = np.array([[0.0, 1.0], [0.0, 1.0]])
    samples = []
    for _ in range(count):
        x = base + 0.5 * rng.standard_normal((side, side))
        pixel = block("pixel", singles, label_one, np.stack([x.ravel(), np.ones(x.size)], axis=1))
        samples.append(bf.Sample(graph, [pixel, block("pair", pairs, ISING[None])], base.ravel()))
    return samples


def recipes(samples: Any, least: int, **options: Any) -> list[ChunkRecipe]:
    learner = bf.BlendedLearner(**options)
    layout = samples.layout if isinstance(samples, bf.Shards) else WeightLayout.of_samples(samples)
    return recipes_of(samples, layout, learner.counting_numbers, learner._options(), least)


def on_ray(samples: Any, workers: int, memory_limit: int | None = None, **options: Any) -> RayEngine:
    engine = RayEngine(Cluster("local", workers, threads=1, memory_limit=memory_limit, spare=True))
    engine.place(recipes(samples, engine.shares(), **options))
    return engine


# The same objective.


def agree(arguments: argparse.Namespace) -> dict[str, Any]:
    start_ray(max(arguments.shards))
    rows = []
    print(f"{'weights':8}{'eps':>6}{'shards':>8}{'value':>10}{'gradient':>10}{'certificate':>12}{'optimum':>10}")
    for kind in ("free", "tied"):
        samples = images(kind, 8, 24)
        for epsilon in (1.0, 0.1, 0.0):
            best = bf.BlendedLearner(epsilon, tolerance=1e-10, max_iterations=1500)
            if epsilon > 0:
                best.fit(samples)
            local = LocalEngine([recipe.build(1) for recipe in recipes(samples, 1, epsilon=epsilon)])
            expected = evaluations(local, epsilon)
            for workers in arguments.shards:
                remote = on_ray(samples, workers, epsilon=epsilon)
                found = evaluations(remote, epsilon)
                remote.close()
                worst = {name: max(map(difference, found[name], expected[name])) for name in expected}
                optimum = float("nan")
                if epsilon > 0:
                    options = {"engine": "ray", "engine_address": "local", "engine_workers": workers, "threads": 1}
                    there = bf.BlendedLearner(epsilon, tolerance=1e-10, max_iterations=1500, **options).fit(samples)
                    optimum = abs(there.primal_ - best.primal_) / abs(best.primal_)
                rows.append({"weights": kind, "epsilon": epsilon, "shards": workers, **worst, "optimum": optimum})
                figures = [worst.get(name, float("nan")) for name in ("value", "gradient", "certificate")]
                print(
                    f"{kind:8}{epsilon:6g}{workers:8}{figures[0]:10.1e}{figures[1]:10.1e}{figures[2]:12.1e}{optimum:10.1e}",
                    flush=True,
                )
    return {"rows": rows}


def evaluations(engine: Any, epsilon: float) -> dict[str, list[Any]]:
    """Ten sweeps on the way along a line of weights; at epsilon = 0 values only."""
    engine.allocate(3)
    direction = np.random.default_rng(1).standard_normal(engine.num_weights)
    values, gradients, certificates = [], [], []
    for step in range(10):
        weights = 0.05 * step * direction
        found = engine.iterate(Request(weights, slot=step % 3, curvature=True))
        values.append(found.value)
        gradients += [found.gradient, found.curvature, found.products]
    trial = engine.trial(weights, direction, np.array([0.1, 0.5, 1.0]), None)
    values += list(trial.value)
    if epsilon == 0:
        return {"value": values}
    certificate = engine.certificate(weights, epsilon, epsilon)
    certificates = [certificate.value, certificate.divergence, certificate.moments, certificate.spread]
    return {"value": values, "gradient": gradients, "certificate": certificates}


def difference(one: Any, other: Any) -> float:
    """Relative, of the largest entry; inf for NaN."""
    one, other = np.asarray(one), np.asarray(other)
    worst = float(np.max(np.abs(one - other), initial=0.0) / max(1e-300, float(np.max(np.abs(other), initial=0.0))))
    return worst if np.isfinite(worst) else float("inf")


# Faults.

MOMENTS = (
    ("allocate", 1),
    ("set_epsilon", 1),
    ("iterate", 2),
    ("iterate", 5),
    ("iterate", 11),
    ("iterate", 23),
    ("trial", 1),
    ("certificate", 2),
    ("messages", 1),
    ("messages", 2),
)
"""in which call, the how manieth of its kind"""
SETTLING = 1.5
"""seconds between placement and the run, so that no run pays for the start of processes: the spare one starts then"""


def kills(arguments: argparse.Namespace) -> dict[str, Any]:
    ray = start_ray(2)
    logging.basicConfig(level=logging.WARNING, format="    %(message)s", stream=sys.stdout)
    rows: list[dict[str, Any]] = []
    large = images("free", arguments.side, arguments.images), {"epsilon": 0.1}
    small = images("free", 24, 20), {"epsilon": 0.03}  # line searches are rare; here there is one
    for (samples, options), moments in (
        (large, [moment for moment in MOMENTS if moment[0] != "trial"]),
        (small, [moment for moment in MOMENTS if moment[0] == "trial"]),
    ):
        options = {**options, "engine_spare": not arguments.no_spare}
        runs = [sabotaged(ray, samples, options, None) for _ in range(3)]
        unharmed, seconds = runs[0][0], float(np.median([run[1] for run in runs]))
        iteration = float(np.median(np.diff(unharmed.history_["seconds"])))
        print(
            f"unharmed: {unharmed.n_iter_} iterations of {1e3 * iteration:.0f} ms, primal {unharmed.primal_:.12g}; "
            f"runs of {', '.join(f'{run[1]:.2f}' for run in runs)} s"
        )
        cases = [(*moment, "kill") for moment in moments]
        if samples is large[0]:
            cases.append(("iterate", 8, "stop"))
        for method, number, what in cases:
            timeout = max(3.0, 20 * iteration) if what == "stop" else 600.0
            learner, taken, away = sabotaged(ray, samples, options, (method, number, what, 0.3 * iteration), timeout)
            row = {
                "moment": f"{what} in {method} {number}",
                "seconds_away": away,
                "optimum": abs(learner.primal_ - unharmed.primal_) / unharmed.primal_,
                "converged": learner.converged_,
                "more_iterations": learner.n_iter_ - unharmed.n_iter_,
                "seconds_lost": taken - seconds,
                "iterations_lost": (taken - seconds) / iteration,
            }
            rows.append(row)
            print(
                f"{row['moment']:24} optimum {row['optimum']:.1e}, converged {row['converged']}, "
                f"{row['more_iterations']:+d} iterations, away {away:.2f} s; {row['seconds_lost']:.2f} s = "
                f"{row['iterations_lost']:.0f} iterations lost",
                flush=True,
            )
    return {"rows": rows}


def sabotaged(
    ray: Any, samples: Any, options: dict[str, Any], fault: Any, timeout: float = 600.0
) -> tuple[bf.BlendedLearner, float, float]:
    """(learner, seconds from the moment that all chunks are placed, seconds from the fault until they are again) of a
    run with checkpoints in which `fault` happens.
    """
    remote = {"engine": "ray", "engine_address": "local", "engine_workers": 2, "threads": 1, "engine_timeout": timeout}
    with tempfile.TemporaryDirectory() as folder, Saboteur(ray, fault) as saboteur:
        learner = bf.BlendedLearner(**options, **remote, tolerance=1e-8, max_iterations=3000, certificate_every=5).fit(
            samples, checkpoint=Path(folder) / "run", checkpoint_every=25
        )
        seconds = time.perf_counter() - saboteur.placed
    if fault is not None and not saboteur.done:
        raise SystemExit(f"{fault} never came")
    return learner, seconds, saboteur.replaced - saboteur.struck


class Saboteur:
    """Does something to a worker in the middle of a call: fault = (method, how manieth, "kill" or "stop", delay)."""

    def __init__(self, ray: Any, fault: tuple[str, int, str, float] | None) -> None:
        self.ray = ray
        self.fault = fault
        self.done = False
        self.placed = self.struck = self.replaced = 0.0
        self._seen: dict[str, int] = {}

    def __enter__(self) -> Saboteur:
        self._ask, self._place, self._replace = RayEngine._ask, RayEngine.place, RayEngine._replace
        ask, place, replace = self._ask, self._place, self._replace

        def watched(engine: RayEngine, method: str, *arguments: Any, **options: Any) -> Any:
            self._seen[method] = self._seen.get(method, 0) + 1
            if self.fault is not None and not self.done and (method, self._seen[method]) == self.fault[:2]:
                self.done = True
                worker = engine.workers[self._seen[method] % 2]
                process = self.ray.get(worker.actor.hello.remote())["process"]
                how = signal.SIGKILL if self.fault[2] == "kill" else signal.SIGSTOP
                threading.Timer(self.fault[3], self._strike, (process, how)).start()
            return ask(engine, method, *arguments, **options)

        def placed(engine: RayEngine, recipes: Any) -> None:
            place(engine, recipes)
            time.sleep(SETTLING)
            self.placed = time.perf_counter()

        def replaced(engine: RayEngine, failures: Any) -> str:
            said = replace(engine, failures)
            self.replaced = time.perf_counter()
            return said

        RayEngine._ask, RayEngine.place, RayEngine._replace = watched, placed, replaced  # type: ignore[method-assign]
        return self

    def _strike(self, process: int, how: signal.Signals) -> None:
        self.struck = time.perf_counter()
        os.kill(process, how)

    def __exit__(self, *_: Any) -> None:
        RayEngine._ask = self._ask  # type: ignore[method-assign]
        RayEngine.place, RayEngine._replace = self._place, self._replace  # type: ignore[method-assign]


# One graph in parts.


def parts(arguments: argparse.Namespace) -> dict[str, Any]:
    rows = []
    side = arguments.side
    graph = bf.grid_graph((side, side), 3)
    positions = np.stack(np.unravel_index(np.arange(graph.num_variables), (side, side)), axis=1)
    theta = np.random.default_rng(0).standard_normal(int(graph.table_offsets[-1]))
    print(f"{'eps':>5}{'parts':>6}{'T':>4}  {'mixing':9}{'optimum':>10}{'rise':>10}{'gap':>10}{'exchanges':>10}")
    for epsilon in (1.0, 0.1):
        whole = bf.infer(graph, theta, epsilon, "ones", tolerance=1e-12, max_iterations=5000)
        for count in (2, 3, 5):
            for every in (1, 5, 20):
                for mixing in ("anderson", None):
                    found = bf.infer_in_parts(
                        graph,
                        theta,
                        count,
                        epsilon,
                        "ones",
                        exchange_every=every,
                        positions=positions,
                        tolerance=1e-10,
                        max_iterations=5000,
                        acceleration=mixing,
                    )
                    row = {
                        "epsilon": epsilon,
                        "parts": count,
                        "exchange_every": every,
                        "mixing": mixing or "none",
                        "optimum": abs(found.upper - whole.upper) / whole.upper,
                        "rise": max(0.0, float(np.diff(found.history["primal"]).max()) / whole.upper),
                        "gap": found.gap / whole.upper,
                        "exchanges": found.iterations,
                    }
                    rows.append(row)
                    print(
                        f"{epsilon:5g}{count:6}{every:4}  {row['mixing']:9}{row['optimum']:10.1e}{row['rise']:10.1e}"
                        f"{row['gap']:10.1e}{row['exchanges']:10}",
                        flush=True,
                    )
            print(f"     {found.report}")
    return {"rows": rows}


# Speed.


class Stepper:
    """The blend on one engine, a step at a time."""

    def __init__(self, engine: Any) -> None:
        size = engine.num_weights
        free = np.full(size, np.inf)
        regulariser = Regulariser(np.ones(size), np.zeros(size), -free, free)
        self.engine = engine
        engine.set_epsilon(1.0)
        self._blend = Blend(engine, regulariser, BlendOptions(), BlendState(np.zeros(size)))
        self.seconds: list[float] = []
        self.steps = 0

    def step(self) -> None:
        started = time.perf_counter()
        self._blend.step()
        self.seconds.append(time.perf_counter() - started)
        self.steps += 1


def speed(arguments: argparse.Namespace) -> dict[str, Any]:
    """All engines at once, a step of each in turn, so that what else the machine does strikes all alike; the least
    time of each counts.
    """
    start_ray(2 + 2 * sum(arguments.workers))
    count, rows = arguments.images, []
    print(f"free weights, {arguments.side}x{arguments.side} images, one thread each; ratios to one worker")
    everything = images("free", arguments.side, count // 2 * max(arguments.workers))
    cases: dict[tuple[str, int], Stepper] = {}
    common: dict[str, Any] = {}
    local = LocalEngine([recipe.build(1, common) for recipe in recipes(everything[:count], 16, threads=1)])
    cases["local", 1] = Stepper(local)
    for workers in arguments.workers:
        cases["strong", workers] = Stepper(on_ray(everything[:count], workers))
        cases["weak", workers] = Stepper(on_ray(everything[: count // 2 * workers], workers))
    before = {case: processor_seconds(stepper.engine) for case, stepper in cases.items()}
    for _ in range(arguments.steps):
        for stepper in cases.values():
            stepper.step()
    least = {case: min(stepper.seconds[3:]) for case, stepper in cases.items()}
    iteration = least["strong", 1]
    print(f"one worker over local: {iteration / least['local', 1]:.3f} (iteration {1e3 * iteration:.0f} ms)")
    for (kind, workers), stepper in cases.items():
        if kind == "local":
            continue
        number = count if kind == "strong" else count // 2 * workers
        engine = stepper.engine
        row = {
            "kind": kind,
            "workers": workers,
            "images": number,
            "weights": engine.num_weights,
            "seconds": least[kind, workers],
            "local_seconds": least["local", 1],
            "processor_seconds": [
                (after - first) / stepper.steps
                for first, after in zip(before[kind, workers], processor_seconds(engine), strict=True)
            ],
            "bytes_asked": engine.bytes_asked / stepper.steps,
            "bytes_answered": engine.bytes_answered / stepper.steps,
        }
        rows.append(row)
        ratio = least[kind, 1] / row["seconds"]
        busy = ", ".join(f"{1e3 * used:.1f}" for used in row["processor_seconds"])
        what = "times faster" if kind == "strong" else "of the speed per image"
        note = ", more workers than processors" if workers > (os.cpu_count() or 1) else ""
        print(
            f"{kind:7} {workers} workers, {number} images: {1e3 * row['seconds']:.0f} ms, {ratio:.2f} {what}; "
            f"{row['bytes_asked'] / 1e6:.2f} MB out, {row['bytes_answered'] / 1e6:.2f} MB back per iteration; "
            f"processor time of each {busy} ms{note}",
            flush=True,
        )
        engine.close()
    return {"side": arguments.side, "rows": rows}


def processor_seconds(engine: Any) -> list[float]:
    """Of every worker so far: on a machine that others use as well it says more than the clock."""
    if isinstance(engine, LocalEngine):
        return []
    import ray

    return ray.get([worker.actor.__ray_call__.remote(lambda shard: time.process_time()) for worker in engine.workers])


def rounds(arguments: argparse.Namespace) -> dict[str, Any]:
    """Without work: chunks that answer at once, with gradient and curvature."""
    start_ray(4)
    rows = []
    for weights in (10**4, 10**5, 10**6):
        for workers in (1, 2, 4):
            seconds = round_seconds(weights, workers)
            rows.append({"weights": weights, "workers": workers, "seconds": seconds})
            print(f"{weights:>9} weights, {workers} workers: {1e3 * seconds:.1f} ms per round", flush=True)
    return {"rows": rows}


class Echo:
    """A chunk that answers at once, with as many numbers as there are weights."""

    all_exact = hidden = False
    scale = passes_per_sweep = 1.0

    def __init__(self, weights: int) -> None:
        self.num_weights = weights
        self.answer = bf.engines.Evaluation(0.0, np.ones(weights), np.ones(weights), np.zeros(8))

    def iterate(self, request: Request) -> bf.engines.Evaluation:
        return self.answer

    def fill_history(self) -> None:
        """Nothing is kept."""


class EchoRecipe:
    """Makes an `Echo`."""

    size = 1
    places = np.zeros(0, dtype=np.int64)

    def __init__(self, weights: int) -> None:
        self.weights = weights

    def build(self, threads: int | None, common: Any = None) -> Echo:
        return Echo(self.weights)

    def touched(self) -> Any:
        return np.ones(self.weights, dtype=bool)


def round_seconds(weights: int, workers: int) -> float:
    engine = RayEngine(Cluster("local", workers, threads=1))
    engine.place([EchoRecipe(weights) for _ in range(workers)])
    request = Request(np.zeros(weights), slot=0, curvature=True)
    taken = []
    for _ in range(20):
        started = time.perf_counter()
        engine.iterate(request)
        taken.append(time.perf_counter() - started)
    engine.close()
    return float(np.median(taken[5:]))


# Larger than memory.


def streaming(arguments: argparse.Namespace) -> dict[str, Any]:
    """Workers may hold no more private memory than they had when they were empty, and their limit."""
    ray = start_ray(2)
    options = {"epsilon": 1.0, "tolerance": 1e-4, "max_iterations": 300}
    with tempfile.TemporaryDirectory() as folder:
        samples = images("free", arguments.side, arguments.images)
        bf.write_shards(Path(folder) / "set", samples, entries=1 << 20)
        needed = bf.BlendedLearner(**options).memory_estimate(samples).total
        here = bf.BlendedLearner(**options, threads=1).fit(samples)
        del samples
        shards = bf.Shards(Path(folder) / "set")
        limit = needed // 3 // arguments.count
        held: list[int] = []
        place_all = RayEngine._place_all

        def limited(engine: RayEngine) -> Any:
            for worker in engine.workers:
                held.append(ray.get(worker.actor.__ray_call__.remote(set_limit, limit)))
            facts = place_all(engine)
            return facts

        peaks: list[int] = []
        close = RayEngine.close

        def measured(engine: RayEngine) -> None:
            for worker in engine.workers:
                peaks.append(ray.get(worker.actor.__ray_call__.remote(peak)))
            close(engine)

        RayEngine._place_all, RayEngine.close = limited, measured  # type: ignore[method-assign]
        remote = {"engine": "ray", "engine_address": "local", "engine_workers": arguments.count, "threads": 1}
        there = bf.BlendedLearner(**options, **remote, memory_limit=limit // 2).fit(shards)
        RayEngine._place_all, RayEngine.close = place_all, close  # type: ignore[method-assign]
    per = [np.diff(learner.history_["seconds"]) for learner in (here, there)]
    row = {
        "workers": arguments.count,
        "needed_bytes": needed,
        "limit_bytes_per_worker": limit,
        "times_the_limits": needed / (limit * arguments.count),
        "gap": there.gap_ / there.primal_,
        "converged": there.converged_,
        "optimum": abs(here.primal_ - there.primal_) / here.primal_,
        "iterations": (here.n_iter_, there.n_iter_),
        "slower": float(np.median(per[1]) / np.median(per[0])),
        "peak_bytes_above_empty": [after - before for after, before in zip(peaks, held, strict=True)],
    }
    print(
        f"{arguments.count} worker(s) with {limit / 1e6:.0f} MB each beyond what they have when empty (enforced by "
        f"RLIMIT_DATA), a set that takes {needed / 1e6:.0f} MB ({row['times_the_limits']:.1f} times all limits):\n"
        f"  converged {row['converged']}, relative gap {row['gap']:.1e}, optimum {row['optimum']:.1e} off\n"
        f"  {row['iterations'][1]} iterations (in memory {row['iterations'][0]}), {row['slower']:.1f} times as long"
    )
    shown = ", ".join(f"{size / 1e6:.0f} MB" for size in row["peak_bytes_above_empty"])
    print(f"  largest resident memory of each worker beyond empty: {shown}")
    return {"rows": [row]}


def set_limit(shard: Any, extra: int) -> int:
    """Of private memory: what there is now, and so much more. Returns the peak of resident memory so far."""
    import resource

    lines = Path("/proc/self/status").read_text().splitlines()
    private = 1024 * int(next(line for line in lines if line.startswith("VmData")).split()[1])
    resource.setrlimit(resource.RLIMIT_DATA, (private + extra, private + extra))
    return peak(shard)


def peak(shard: Any) -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# What it would be like.


def model(arguments: argparse.Namespace) -> dict[str, Any]:
    """seconds of an iteration = images / machines * a + (latency + bytes / bandwidth) + machines * b:

    a from `speed` (one thread); latency, the driver's time per worker and per byte, from `rounds`.
    """
    found: dict[str, Any] = {}
    for path in arguments.files:
        found.update(json.loads(Path(path).read_text()))
    strong = next(row for row in found["speed"]["rows"] if row["kind"] == "strong" and row["workers"] == 1)
    per_image = strong["processor_seconds"][0] / strong["images"]
    rows = found["rounds"]["rows"]
    design = np.array([[1.0, row["workers"], row["weights"] * row["workers"], row["weights"]] for row in rows])
    seconds = np.array([row["seconds"] for row in rows])
    from scipy.optimize import nnls

    scale = 1.0 / seconds  # relative errors: a large round must not drown the small ones
    fit, _ = nnls(design * scale[:, None], seconds * scale)
    fitted = design @ fit
    error = float(np.max(np.abs(fitted / seconds - 1.0)))
    fixed, per_worker, per_number, per_weight = fit
    print(
        f"fitted: {1e3 * per_image:.2f} ms per image and thread; a round {1e3 * fixed:.2f} ms + "
        f"{1e3 * per_worker:.2f} ms per worker + {1e9 * per_number:.2f} ns per weight and worker + "
        f"{1e9 * per_weight:.2f} ns per weight (worst error {100 * error:.0f} % of a measurement)"
    )
    out = []
    for weights in (10**4, 10**6):
        for machines in (100, 1000):
            for cores in (1, 32):
                compute = 1e6 / machines / cores * per_image
                serial = fixed + machines * per_worker
                vectors = machines * weights * per_number + weights * per_weight
                total = compute + serial + vectors
                shares = {
                    "sweeps on the machines": compute,
                    "calls by the driver": serial,
                    "vectors through the driver": vectors,
                }
                name = max(shares, key=lambda key: shares[key])
                efficiency = compute / total
                out.append(
                    {
                        "weights": weights,
                        "machines": machines,
                        "cores": cores,
                        "seconds": total,
                        **shares,
                        "bottleneck": name,
                        "efficiency": efficiency,
                    }
                )
                print(
                    f"{weights:.0e} weights, {machines} machines of {cores} cores: {total:.2f} s per iteration "
                    f"({compute:.2f} sweeps, {serial:.2f} calls, {vectors:.2f} vectors), {100 * efficiency:.0f} % "
                    f"of it work; bottleneck: {name}"
                )
    return {"fit": {"per_image": per_image, "round": list(fit), "worst_error": error}, "rows": out}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for study, side, count in (
        (agree, 8, 24),
        (kills, 48, 60),
        (parts, 12, 1),
        (speed, 64, 160),
        (rounds, 0, 0),
        (streaming, 48, 120),
        (model, 0, 0),
    ):
        command = commands.add_parser(study.__name__)
        command.set_defaults(study=study)
        command.add_argument("--side", type=int, default=side)
        command.add_argument("--images", type=int, default=count)
        command.add_argument("--output", type=Path)
        if study is agree:
            command.add_argument("--shards", type=int, nargs="+", default=[1, 2, 3, 5, 8])
        if study is speed:
            command.add_argument("--steps", type=int, default=25)
            command.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
        if study is kills:
            command.add_argument("--no-spare", action="store_true", help="no spare processes")
        if study is streaming:
            command.add_argument("--count", type=int, default=1, help="workers")
        if study is model:
            command.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    found = arguments.study(arguments)
    if arguments.output is not None:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps({arguments.command: found}, indent=1))


if __name__ == "__main__":
    main()
