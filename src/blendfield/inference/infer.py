"""The public function `infer`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, overload

from blendfield.graph import RegionGraph
from blendfield.inference.anderson import Anderson
from blendfield.inference.exact import exact
from blendfield.inference.mean_field import mean_field
from blendfield.inference.message_passing import belief_propagation, norm_product
from blendfield.inference.options import Progress, check_options
from blendfield.inference.outcome import Outcome, results_of
from blendfield.inference.result import Result
from blendfield.inference.task import Task

DRIVERS: dict[str, Callable[[Task], Outcome]] = {
    "norm-product": norm_product,
    "belief-propagation": belief_propagation,
    "mean-field": mean_field,
    "exact": exact,
}


@overload
def infer(
    graph: RegionGraph,
    potentials: Any,
    epsilon: float = ...,
    counting_numbers: Any = ...,
    method: str = ...,
    max_iterations: int = ...,
    tolerance: float = ...,
    evidence: Any = ...,
    initial: Any = ...,
    time_limit: float | None = ...,
    callback: Callable[[Progress], object] | None = ...,
    threads: int | None = ...,
    dtype: str = ...,
    backend: str = ...,
    acceleration: str | Anderson | None = ...,
    certificate_every: int | str = ...,
    damping: float | None = ...,
    restarts: int = ...,
    tighten: int = ...,
    memory_limit: int | None = ...,
) -> Result: ...
@overload
def infer(
    graph: list[RegionGraph] | tuple[RegionGraph, ...],
    potentials: Any,
    epsilon: float = ...,
    counting_numbers: Any = ...,
    method: str = ...,
    max_iterations: int = ...,
    tolerance: float = ...,
    evidence: Any = ...,
    initial: Any = ...,
    time_limit: float | None = ...,
    callback: Callable[[Progress], object] | None = ...,
    threads: int | None = ...,
    dtype: str = ...,
    backend: str = ...,
    acceleration: str | Anderson | None = ...,
    certificate_every: int | str = ...,
    damping: float | None = ...,
    restarts: int = ...,
    tighten: int = ...,
    memory_limit: int | None = ...,
) -> list[Result]: ...
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
    damping: float | None = None,
    restarts: int = 0,
    tighten: int = 0,
    memory_limit: int | None = None,
) -> Result | list[Result]:
    """Beliefs, labels and certified bounds of one model or of many.

    Returns a `Result`, or a list of them for a list of graphs.

    Minimises F(lambda) = sum_r eps c_r logsumexp(hat_r / (eps c_r)) over the messages (the maximum at eps c_r = 0). For
    counting numbers >= 0 the reported interval [lower, upper] holds the optimum at any time. Other methods than
    norm-product report what they know in the same fields.

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
        "ones", "cover", "cover-outer", "bethe", "trw" or an array [R]; "auto": those of the method, "ones" for
        norm-product, "bethe" for belief propagation, which takes the default "ones" for its own, too (an array of ones
        is taken as it is). Mean field and exact inference need none and ignore them.
    method
        "norm-product": certified bounds. Forests with tree counting numbers ("bethe") are solved exactly by two passes.
        "belief-propagation": sum-product (max-product at epsilon = 0), on nested regions generalised; upper is the
        Bethe value, a bound only on forests; nothing is certified elsewhere.
        "mean-field": coordinate ascent over products of distributions; lower is certified, upper is infinite.
        "exact": the log-partition function (the best score at epsilon = 0) and its marginals, if they fit in memory.
    max_iterations, tolerance, time_limit
        Stop after so many full sweeps, at gap <= tolerance * max(1, |upper|), or after so many seconds. Belief
        propagation and mean field converge when a sweep moves messages or distributions by no more than tolerance.
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
    damping
        Belief propagation: the share of the old messages that stays at every sweep, from 0 to below 1; None: as much
        as is found to be needed.
    restarts
        How often to look for better labels again from elsewhere, within the time limit; mean field starts as often
        from random distributions.
    tighten
        Norm-product at epsilon = 0: how often to tighten the bound with larger regions, each time with about four times
        as many table entries as before, within the time limit and the memory there is. `lower` and `upper` are then
        bounds of the best score: that of `labels`, and what no labelling exceeds.
    memory_limit
        Bytes that may be used, besides what is available anyway; more is a NotEnoughMemoryError with the estimate.
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
        damping=damping,
        restarts=restarts,
        tighten=tighten,
        memory_limit=memory_limit,
    )
    task = Task(graph, potentials, counting_numbers, evidence, initial, options, started)
    del potentials  # what a method has compiled it need not keep
    if not task.graphs:
        return []
    results = results_of(task.graphs, options.epsilon, DRIVERS[options.method](task))
    return results[0] if task.single else results
