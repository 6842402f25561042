"""The public function `infer`."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np

from blendfield import backends
from blendfield.backends.protocol import Backend, Problem, RealArray
from blendfield.errors import (
    BlendfieldError,
    BlendfieldWarning,
    CountingNumberError,
    GraphError,
    NotEnoughMemoryError,
    PotentialError,
    SupportError,
)
from blendfield.graph import RegionGraph
from blendfield.inference import memory
from blendfield.inference.anderson import Anderson, History
from blendfield.inference.bounds import Bounds
from blendfield.inference.continuation import Continuation, potential_scale
from blendfield.inference.evidence import check_evidence, clamp, single_regions
from blendfield.inference.norm_product import (
    SLACK,
    DampedSweeper,
    MixedSweeper,
    Monitor,
    PlainSweeper,
    Sweeper,
    annealing_temperatures,
    solve,
)
from blendfield.inference.options import Options, Progress, check_options
from blendfield.inference.program import Kind, Models, build_models
from blendfield.inference.result import Messages, Result, Solution, model_messages
from blendfield.model.potentials import flatten_potentials

T = TypeVar("T")


def infer(
    graph: RegionGraph | list[RegionGraph] | tuple[RegionGraph, ...],
    potentials: Any,
    epsilon: float = 1.0,
    counting_numbers: Any = "ones",
    method: str = "norm-product",
    max_iterations: int = 1000,
    tolerance: float = 1e-6,
    evidence: Any = None,
    initial: Any = None,
    time_limit: float | None = None,
    callback: Callable[[Progress], object] | None = None,
    threads: int | None = None,
    dtype: str = "float64",
    backend: str = "auto",
    acceleration: str | Anderson | None = "anderson",
    certificate_every: int | str = "auto",
) -> Any:
    """Beliefs, labels and certified bounds of one model or of many.

    Returns a `Result`, or a list of them for a list of graphs.

    Minimises F(lambda) = sum_r eps c_r logsumexp(hat_r / (eps c_r)) over the messages (the maximum at eps c_r = 0). For
    counting numbers >= 0 the reported interval [lower, upper] holds the optimum at any time.

    Parameters
    ----------
    graph
        A `RegionGraph` with V variables and R regions, or a list of them: all models are then compiled into one
        problem; potentials, and if they differ by model counting_numbers, evidence and initial, are lists of the same
        length. Messages of all models are mixed together, and all are swept until the last has converged.
    potentials
        Scores, larger is better; -inf forbids. One array per region (of those given or of graph.regions; None is
        zeros), each with its axes as the region was written; or a bulk pair (region indices int [n], tables [n, ...])
        or a list of such pairs; or one flat array [graph.table_offsets[-1]].
    epsilon
        Temperature: 1 sums, 0 maximises.
    counting_numbers
        "ones", "cover", "cover-outer", "bethe", "trw" or an array [R].
    method
        "norm-product". Forests with tree counting numbers ("bethe") are solved exactly by two passes.
    max_iterations, tolerance, time_limit
        Stop after so many full sweeps, at gap <= tolerance * max(1, |upper|), or after so many seconds.
    evidence
        {variable: label}: clamped.
    initial
        Messages or a Result to start from.
    callback
        Called at every certificate with a `Progress`; stops when it returns True.
    threads, dtype, backend
        Number of threads (None: the backend's choice), "float64" or "float32", "auto", "reference" or "cpu".
    acceleration
        "anderson", an `Anderson(...)` object, or None for plain sweeps at epsilon from the start. The history costs
        memory: see `Anderson`. Accelerated runs from zero begin with a few sweeps at higher temperatures when the
        potentials are large against epsilon.
    certificate_every
        Sweeps between certificates; "auto": after 1, 2, 4, 8 sweeps, then after a quarter more each time.
    """
    started = time.perf_counter()
    options = check_options(
        epsilon=epsilon,
        method=method,
        max_iterations=max_iterations,
        tolerance=tolerance,
        time_limit=time_limit,
        callback=callback,
        threads=threads,
        dtype=dtype,
        backend=backend,
        acceleration=acceleration,
        certificate_every=certificate_every,
    )
    engine = backends.get(options.backend)
    single = isinstance(graph, RegionGraph)
    graphs = _graphs(graph)
    count = len(graphs)
    per_model = [potentials] if single else _model_potentials(potentials, count)
    if not graphs:
        return []
    evidences = _spread(evidence, count, single, "evidence")
    observed = [_named(k, single, check_evidence, graphs[k], evidences[k]) for k in range(count)]
    initials = _spread(initial, count, single, "initial")
    starts = [_named(k, single, _starting_messages, graphs[k], initials[k]) for k in range(count)]

    item_bytes = np.dtype(options.dtype).itemsize
    memory.require(sum(int(g.table_offsets[-1]) for g in graphs) * item_bytes, "the potentials")
    models = build_models(graphs, _spread_numbers(counting_numbers, count, single), options.epsilon, single)
    estimate = engine.estimate_bytes(models.program, options.dtype)
    memory.require(estimate, "inference")
    try:
        tables = _tables(graphs, per_model, observed, options, single)
        problem = _compile(engine, models, tables, options)
        if (messages := _initial_messages(models, starts, options)) is not None:
            problem.set_messages(messages)
        slots = _history_slots(models, options, item_bytes)
        several = models.program.num_segments > 1
        hottest = potential_scale(tables, models.program.graph.table_offsets)
        warm = messages is not None
        annealing = _annealing(models, options, hottest) if not warm else []
        keep_messages = options.epsilon == 0 or bool(annealing) or (several and slots > 0)
        bounds = Bounds(models, problem, options.epsilon, options.tolerance, keep_messages)
        monitor = Monitor(options, bounds, started)
        sweeper = _sweeper(problem, monitor, options, slots)
    except MemoryError as error:
        if isinstance(error, NotEnoughMemoryError):
            raise
        raise NotEnoughMemoryError(f"allocation failed; estimated need {memory.in_words(estimate)}") from error
    del tables, per_model, potentials, messages  # the problem has its own copies
    if options.epsilon > 0:
        run = partial(solve, problem, bounds, monitor, sweeper, annealing)
        continuation = None
    else:
        continuation = Continuation(problem, bounds, monitor, sweeper, hottest)
        run = partial(continuation.solve, warm)
    reason = _run(run, problem, bounds, monitor, sweeper, continuation)
    solution = Solution(models, problem, options.epsilon, continuation.temperature if continuation else None)
    results = _results(models, bounds, monitor, options, solution, reason)
    return results[0] if single else results


def _annealing(models: Models, options: Options, hottest: float) -> list[float]:
    """Temperatures to start with; none for plain sweeps and where F does not measure progress."""
    monotone = (models.segment_kind <= Kind.EXACT).all()
    if options.epsilon == 0 or options.acceleration is None or not monotone or models.one_sweep.all():
        return []
    return annealing_temperatures(options.epsilon, hottest)


def _run(
    run: Callable[[], str],
    problem: Problem,
    bounds: Bounds,
    monitor: Monitor,
    sweeper: Sweeper,
    continuation: Continuation | None,
) -> str:
    """Iterate; then bounds and labels of the last state, whatever ended the iteration. Returns the reason to stop."""
    try:
        reason = run()
    except KeyboardInterrupt:
        reason = "interrupted"
        sweeper.recover()
    problem.set_epsilon(bounds.epsilon)
    if monitor.certified_at != monitor.iteration:
        if continuation is None:
            bounds.certify()
        else:
            continuation.certify()
    bounds.find_labels()
    monitor.record()
    bounds.restore_messages()
    return reason


def _history_slots(models: Models, options: Options, item_bytes: int) -> int:
    """Steps of mixing history that fit; 0: no mixing."""
    if options.acceleration is None:
        return 0
    program = models.program
    message_bytes = int(program.graph.table_sizes[program.edge_children].sum()) * item_bytes
    return options.acceleration.slots(message_bytes, memory.available_bytes())


def _graphs(graph: Any) -> list[RegionGraph]:
    if isinstance(graph, RegionGraph):
        return [graph]
    if isinstance(graph, (list, tuple)):
        for k, item in enumerate(graph):
            if not isinstance(item, RegionGraph):
                raise GraphError(f"model {k}: expected a RegionGraph; got {type(item).__name__}")
        return list(graph)
    raise GraphError(f"expected a RegionGraph or a list of them; got {type(graph).__name__}")


def _model_potentials(potentials: Any, count: int) -> list[Any]:
    if not isinstance(potentials, (list, tuple)) or len(potentials) != count:
        got = f"length {len(potentials)}" if isinstance(potentials, (list, tuple)) else type(potentials).__name__
        raise PotentialError(f"with a list of {count} graphs, potentials must be a list of length {count}; got {got}")
    return list(potentials)


def _spread(value: Any, count: int, single: bool, name: str) -> list[Any]:
    """One entry per model: of the list given, or the same for all."""
    if single:
        return [value]
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise PotentialError(f"{name}: a list must have one entry for each of the {count} models; got {len(value)}")
    return list(value)


def _spread_numbers(spec: Any, count: int, single: bool) -> list[Any]:
    """Counting numbers per model: a list of names and arrays, or one of either for all."""
    if single:
        return [spec]
    if isinstance(spec, (list, tuple)) and all(isinstance(item, (str, list, tuple, np.ndarray)) for item in spec):
        if len(spec) != count:
            raise CountingNumberError(
                f"a list of counting numbers must have one entry for each of the {count} models; got {len(spec)}"
            )
        return list(spec)
    return [spec] * count


def _named(model: int, single: bool, check: Callable[..., T], *arguments: Any) -> T:
    """check(*arguments); of many models, an error says which it is about."""
    try:
        return check(*arguments)
    except BlendfieldError as error:
        if single:
            raise
        raise type(error)(f"model {model}: {error}") from error


def _starting_messages(graph: RegionGraph, initial: Any) -> Messages | None:
    """`initial` of one model, checked."""
    messages = initial.messages if isinstance(initial, Result) else initial
    if messages is None:
        return None
    if not isinstance(messages, Messages):
        raise PotentialError(f"initial must be None, Messages or a Result; got {type(initial).__name__}")
    theirs = messages.graph
    if theirs is not graph and not (
        np.array_equal(theirs.cardinalities, graph.cardinalities)
        and np.array_equal(theirs.region_offsets, graph.region_offsets)
        and np.array_equal(theirs.region_variables, graph.region_variables)
    ):
        raise PotentialError("initial: the messages belong to a graph with other variables or regions")
    if not np.isfinite(messages.values).all():
        raise PotentialError("initial: messages must be finite")
    return messages


def _initial_messages(models: Models, starts: list[Messages | None], options: Options) -> RealArray | None:
    """All starting messages in the problem's layout; None if every model starts at zero."""
    if all(start is None for start in starts):
        return None
    program = models.program
    flat: RealArray = np.zeros(int(program.graph.table_sizes[program.edge_children].sum()), dtype=options.dtype)
    for k, start in enumerate(starts):
        if start is not None:
            model_messages(models, k, flat).copy_from(start)
    return flat


def _tables(
    graphs: list[RegionGraph], potentials: list[Any], evidence: list[dict[int, int]], options: Options, single: bool
) -> RealArray:
    """float [table layout of the union]: the potentials of all models, evidence clamped."""
    parts = []
    for k, (graph, given, observed) in enumerate(zip(graphs, potentials, evidence, strict=True)):
        flat = _named(k, single, flatten_potentials, graph, given, options.dtype)
        if observed:
            if isinstance(given, np.ndarray) and np.shares_memory(flat, given):
                flat = flat.copy()
            clamp(graph, flat, observed, single_regions(graph))
        parts.append(flat)
    if single:
        return parts[0]
    return cast(RealArray, np.concatenate(parts))


def _compile(engine: Backend, models: Models, tables: RealArray, options: Options) -> Problem:
    arguments: Any = {"epsilon": options.epsilon, "dtype": options.dtype, "threads": options.threads}
    try:
        return engine.compile(models.program, tables, **arguments)
    except SupportError:
        if len(models.graphs) == 1:
            raise
        offsets = models.program.graph.table_offsets
        for k, graph in enumerate(models.graphs):  # which model is it?
            start, stop = (int(r) for r in models.region_starts[k : k + 2])
            numbers = models.program.counting_numbers[start:stop]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", BlendfieldWarning)
                alone = build_models([graph], [numbers], options.epsilon, True)
            part = tables[int(offsets[start]) : int(offsets[stop])]
            _named(k, False, partial(engine.compile, **arguments), alone.program, part)
        raise


def _sweeper(problem: Problem, monitor: Monitor, options: Options, slots: int) -> Sweeper:
    if options.acceleration is None or slots == 0 or monitor.one_sweep:
        return PlainSweeper(problem)
    ridge = options.acceleration.regularisation
    if monitor.monotone:
        return MixedSweeper(problem, History(problem, slots, ridge), SLACK[options.dtype])
    return DampedSweeper(problem, History(problem, slots, ridge, scratch=DampedSweeper.SCRATCH))


def _results(
    models: Models, bounds: Bounds, monitor: Monitor, options: Options, solution: Solution, reason: str
) -> list[Result]:
    upper, lower, gap = bounds.summary()
    converged, certified = bounds.converged(), bounds.certified()
    score = models.per_model(bounds.score)
    history = {name: np.array(getattr(monitor, name)) for name in ("upper", "lower", "gap")}  # [certificates, N]
    iterations, seconds = np.array(monitor.iterations, dtype=np.int64), np.array(monitor.seconds)
    return [
        Result(
            labels=bounds.labels[models.variable_starts[k] : models.variable_starts[k + 1]].copy(),
            score=float(score[k]),
            upper=float(upper[k]),
            lower=float(lower[k]),
            gap=float(gap[k]),
            certified=bool(certified[k]),
            converged=bool(converged[k]),
            stop_reason="converged" if converged[k] else reason,
            iterations=monitor.iteration,
            history={
                "iteration": iterations.copy(),
                **{name: values[:, k].copy() for name, values in history.items()},
                "seconds": seconds.copy(),
            },
            epsilon=options.epsilon,
            counting_numbers=models.program.counting_numbers[models.region_starts[k] : models.region_starts[k + 1]],
            graph=graph,
            _solution=solution,
            _model=k,
        )
        for k, graph in enumerate(models.graphs)
    ]
