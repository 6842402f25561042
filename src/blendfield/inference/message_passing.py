"""The methods that pass messages: norm-product and belief propagation.

Both are the same update (mathematics §3). With the counting numbers "bethe" it is belief propagation, on nested regions
the generalised one; what differs is how the temperature 0 is reached and when to stop.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from blendfield.backends.protocol import Problem, RealArray
from blendfield.errors import BlendfieldWarning, NotEnoughMemoryError, SupportError
from blendfield.graph import DisjointUnion
from blendfield.inference import memory
from blendfield.inference.anderson import History
from blendfield.inference.bounds import Bounds
from blendfield.inference.continuation import Continuation, Patience, potential_scale
from blendfield.inference.messages import Messages, model_messages
from blendfield.inference.norm_product import (
    SLACK,
    DampedSweeper,
    MixedSweeper,
    Monitor,
    PlainSweeper,
    Sweeper,
    annealing_temperatures,
    history_slots,
    solve,
)
from blendfield.inference.options import Options
from blendfield.inference.outcome import Outcome
from blendfield.inference.program import Kind, Models, build_models
from blendfield.inference.result import Result
from blendfield.inference.solution import ProblemSolution
from blendfield.inference.task import Task
from blendfield.inference.tightening import Tightening

SWEEPING = 0.5
"""share of the time limit for sweeps, where better labels are to be searched for afterwards"""
TIGHTENING = 0.7
"""and with larger regions before that: the share that has gone when both are done"""


def norm_product(task: Task) -> Outcome:
    """Block descent on F; at epsilon = 0 by continuation from warmer temperatures."""
    return _pass_messages(task, "ones", propagation=False)


def belief_propagation(task: Task) -> Outcome:
    """Sweeps at the temperature asked for from the start, until messages no longer move: sum- or max-product."""
    return _pass_messages(task, "bethe", propagation=True)


def _pass_messages(task: Task, own_numbers: str, propagation: bool) -> Outcome:
    options = task.options
    default = ("auto", "ones")
    numbers = [own_numbers if isinstance(given, str) and given in default else given for given in task.counting_numbers]
    models = build_models(task.graphs, numbers, options.epsilon, task.single, warn_uncertified=not propagation)
    estimate = task.backend.estimate_bytes(models.program, options.dtype)
    task.require_memory(task.flat_bytes() + estimate, "inference")
    try:
        tables = task.take_tables()
        problem = _compile(task, models, tables)
        if (messages := _initial_messages(models, task.initial, options)) is not None:
            problem.set_messages(messages)
        warm = messages is not None
        hottest = potential_scale(tables, models.program.graph.table_offsets)
        tighten = partial(Tightening, models, tables, task.backend) if options.tighten else None
        del tables, messages  # the problem has its own copies
        return solve_compiled(
            models, problem, options, hottest, task.started, propagation=propagation, warm=warm, tighten=tighten
        )
    except MemoryError as error:
        if isinstance(error, NotEnoughMemoryError):
            raise
        raise NotEnoughMemoryError(f"allocation failed; estimated need {memory.in_words(estimate)}") from error


def solve_compiled(
    models: Models,
    problem: Problem,
    options: Options,
    hottest: float,
    started: float,
    *,
    propagation: bool = False,
    warm: bool = False,
    tighten: Callable[[Bounds, Monitor], Tightening] | None = None,
) -> Outcome:
    """Pass messages in a compiled problem, from those it has, until done.

    `hottest`: a temperature of the size of the potentials. `warm`: the messages are worth something. `started`: when
    the time that counts began (time.perf_counter()). `tighten`: makes the rounds with larger regions, if there are any.
    """
    continued = options.epsilon == 0 and not propagation
    slots = history_slots(models, options)
    several = models.program.num_segments > 1
    annealing = [] if warm or propagation else _annealing(models, options, hottest)
    keep_messages = continued or bool(annealing) or (several and slots > 0)
    settling = None
    if propagation:
        settling = options.epsilon if options.epsilon > 0 else hottest
    bounds = Bounds(models, problem, options.epsilon, options.tolerance, keep_messages, settling)
    monitor = Monitor(options, bounds, started)
    sweeper = _sweeper(problem, monitor, options, slots)
    continuation = Continuation(problem, bounds, monitor, sweeper, hottest) if continued else None
    if continuation is None:
        run = partial(solve, problem, bounds, monitor, sweeper, annealing)
    else:
        run = partial(continuation.solve, warm)
    tightening = tighten(bounds, monitor) if tighten else None
    if continuation and (tightening or options.restarts):
        monitor.share_of_time = SWEEPING
        continuation.patience = Patience() if tightening else None
    try:
        reason = run()
        if continuation and (options.restarts or tightening) and reason != "callback":
            reason = _go_on(continuation, tightening, reason)
    except KeyboardInterrupt:
        reason = "interrupted"
        sweeper.recover()
    _finish(problem, bounds, monitor, continuation)
    smoothing = continuation.temperature if continuation else bounds.smoothing
    solution = ProblemSolution(models, problem, options.epsilon, smoothing, bounds.labels, bounds.score, options.dtype)
    return _outcome(models, bounds, monitor, solution, reason)


def _go_on(continuation: Continuation, tightening: Tightening | None, reason: str) -> str:
    """Larger regions, and a search for better labels, after the sweeps have ended; the reason to stop."""
    monitor, restarts = continuation.monitor, continuation.monitor.options.restarts
    if monitor.certified_at != monitor.iteration:
        continuation.certify()
    if tightening:
        monitor.share_of_time = TIGHTENING if restarts else 1.0
        continuation.patience = None
        reason = tightening.run(reason)
    if restarts and reason != "callback":
        reason = continuation.search.restart(restarts, reason)
    if reason == "time_limit" and not monitor.late():  # not all have needed their share
        monitor.share_of_time = 1.0
        reason = continuation.solve(warm=False)
    return reason


def _finish(problem: Problem, bounds: Bounds, monitor: Monitor, continuation: Continuation | None) -> None:
    """Bounds and labels of the last state, whatever ended the iteration."""
    problem.set_epsilon(bounds.epsilon)
    if monitor.certified_at != monitor.iteration:
        if continuation is None:
            bounds.certify()
        else:
            continuation.certify()
    bounds.find_labels()
    monitor.record()
    bounds.restore_messages()


def _annealing(models: Models, options: Options, hottest: float) -> list[float]:
    """Temperatures to start with; none for plain sweeps and where F does not measure progress."""
    monotone = (models.segment_kind <= Kind.EXACT).all()
    if options.epsilon == 0 or options.acceleration is None or not monotone or models.one_sweep.all():
        return []
    return annealing_temperatures(options.epsilon, hottest)


def _initial_messages(models: Models, initial: list[Messages | Result | None], options: Options) -> RealArray | None:
    """All starting messages in the problem's layout; None if every model starts at zero."""
    if all(start is None for start in initial):
        return None
    flat: RealArray = np.zeros(models.num_messages, dtype=options.dtype)
    for k, start in enumerate(initial):
        if start is not None:
            messages = start.messages if isinstance(start, Result) else start
            model_messages(models, k, flat).copy_from(messages)
    return flat


def _compile(task: Task, models: Models, tables: RealArray) -> Problem:
    options = task.options
    arguments: Any = {"epsilon": options.epsilon, "dtype": options.dtype, "threads": options.threads}
    try:
        return task.backend.compile(models.program, tables, **arguments)
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
            task.named(k, partial(task.backend.compile, **arguments), alone.program, part)
        raise


def _sweeper(problem: Problem, monitor: Monitor, options: Options, slots: int) -> Sweeper:
    if monitor.one_sweep or (slots == 0 and options.damping is None):
        return PlainSweeper(problem)
    ridge = options.acceleration.regularisation if options.acceleration else 0.0
    if monitor.monotone and options.damping is None:
        return MixedSweeper(problem, History(problem, slots, ridge), SLACK[options.dtype])
    history = History(problem, max(slots, 1), ridge, scratch=DampedSweeper.SCRATCH)
    return DampedSweeper(problem, history, options.damping)


def _outcome(models: Models, bounds: Bounds, monitor: Monitor, solution: ProblemSolution, reason: str) -> Outcome:
    upper, lower, gap = bounds.summary()
    return Outcome(
        union=DisjointUnion(models.program.graph, models.region_starts, models.variable_starts),
        labels=bounds.labels,
        score=models.per_model(bounds.score),
        upper=upper,
        lower=lower,
        gap=gap,
        certified=bounds.certified(),
        converged=bounds.converged(),
        reason=reason,
        iterations=monitor.iteration,
        history=monitor.history(),
        counting_numbers=models.program.counting_numbers,
        solution=solution,
    )
