"""One library on one model, run in the environment of the peers by benchmarks/peers.py, which says what is asked for.

    python peer_runs.py LIBRARY MODEL.npz '{"what": "sweeps", ...}'

MODEL.npz: labels, pairs int [E, 2], pair_tables float64 [E, n, n], singles float64 [V, n], all scores; for Bayesian
networks parents int [V, 2] (-1: none) and tables float64 [V, n, n, n] (parents first). Answers are JSON on the last
line; marginals go to the file named in the options. One processor, which the caller has chosen.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["NUMBA_NUM_THREADS"] = "1"

import numpy as np

Options = dict[str, Any]


def best_of(run: Any, repeats: int) -> float:
    """Seconds of the quickest of several runs."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def pgmax(model: Any, options: Options) -> Options:
    import jax

    if options["dtype"] == "float64":
        jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    from pgmax import fgraph, fgroup, infer, vgroup

    started = time.perf_counter()
    dtype = np.dtype(options["dtype"])
    count, labels = model["singles"].shape
    variables = vgroup.NDVarArray(num_states=labels, shape=(count,))
    graph = fgraph.FactorGraph(variable_groups=variables)
    pairs = [[variables[int(i)], variables[int(j)]] for i, j in model["pairs"]]
    tables = model["pair_tables"].astype(dtype)
    graph.add_factors(fgroup.PairwiseFactorGroup(variables_for_factors=pairs, log_potential_matrix=tables))
    inferer = infer.build_inferer(graph.bp_state, backend="bp")
    state = inferer.init(evidence_updates={variables: jnp.asarray(model["singles"], dtype=dtype)})
    assert state.log_potentials.dtype == dtype, state.log_potentials.dtype
    built = time.perf_counter() - started
    step = options["step"]
    temperature, damping = float(options["temperature"]), float(options["damping"])
    run = jax.jit(lambda arrays: inferer.run(arrays, num_iters=step, damping=damping, temperature=temperature))
    started = time.perf_counter()
    jax.block_until_ready(run(state))
    answer = {"built": built, "compiled": time.perf_counter() - started}
    if options["what"] == "sweeps":
        return {**answer, "seconds": best_of(lambda: jax.block_until_ready(run(state)), options["repeats"]) / step}
    found, clock, elapsed = [], [], 0.0
    for _ in range(options["steps"]):
        started = time.perf_counter()
        state = jax.block_until_ready(run(state))
        elapsed += time.perf_counter() - started
        beliefs = inferer.get_beliefs(state)[variables]
        found.append(np.asarray(infer.get_marginals({0: beliefs})[0], dtype=np.float64))
        clock.append(elapsed)
    np.savez(options["output"], marginals=np.array(found), seconds=np.array(clock))
    return {**answer, "labels": np.asarray(beliefs).argmax(axis=1).tolist()}


def inferlo(model: Any, options: Options) -> Options:
    from inferlo import PairWiseFiniteModel

    count, labels = model["singles"].shape
    graph = PairWiseFiniteModel(count, labels)
    graph.set_field(model["singles"])
    for (i, j), table in zip(model["pairs"].tolist(), model["pair_tables"], strict=True):
        graph.add_interaction(i, j, table)
    method_names = {"belief-propagation": "message_passing", "mean-field": "mean_field"}
    if options["what"] == "sweeps":
        # The prepared arrays and the compiled loop: what a call does besides sweeps does not count.
        from inferlo.pairwise.inference import message_passing as code

        edges = graph.get_edges_connected()
        directed = np.concatenate([edges, np.flip(edges, axis=1)])
        directed.view("i4,i4").sort(order=["f1"], axis=0)
        tables = graph.get_interactions_for_edges(directed)
        step = options["step"]
        code._message_passing(directed, tables, graph.field, 1)
        run = lambda: code._message_passing(directed, tables, graph.field, step)  # noqa: E731
        return {"seconds": best_of(run, options["repeats"]) / step}
    # As many sweeps as it makes of itself: its messages are not normalised, and drown in rounding when there are more.
    graph.infer(algorithm=method_names[options["method"]])  # compiles
    started = time.perf_counter()
    result = graph.infer(algorithm=method_names[options["method"]])
    elapsed = time.perf_counter() - started
    np.savez(options["output"], marginals=result.marg_prob[None], seconds=np.array([elapsed]))
    return {"bound": float(result.log_pf)}


def pgmpy(model: Any, options: Options) -> Options:
    from pgmpy.factors.discrete import DiscreteFactor
    from pgmpy.inference import Mplp
    from pgmpy.models import MarkovNetwork

    count, labels = model["singles"].shape
    network = MarkovNetwork()
    network.add_nodes_from(range(count))
    network.add_edges_from([(i, j) for i, j in model["pairs"].tolist()])
    # Its potentials are scores, not their exponentials.
    for (i, j), table in zip(model["pairs"].tolist(), model["pair_tables"], strict=True):
        network.add_factors(DiscreteFactor([i, j], [labels, labels], table))
    for i in range(count):
        network.add_factors(DiscreteFactor([i], [labels], model["singles"][i]))
    solver = Mplp(network)

    # Its own loop fails where it decodes labels (version 1.0.0), so that only the messages are timed.
    def sweeps() -> None:
        for _ in range(options["step"]):
            for factor in network.get_factors():
                if len(factor.scope()) > 1:
                    solver._update_message(solver.cluster_set[frozenset(factor.scope())])

    return {"seconds": best_of(sweeps, options["repeats"]) / options["step"]}


def pyagrum(model: Any, options: Options) -> Options:
    import pyagrum as gum

    network = gum.BayesNet()
    parents, tables = model["parents"], model["tables"]
    labels = tables.shape[1]
    for i in range(len(parents)):
        network.add(gum.RangeVariable(f"x{i}", "", 0, labels - 1))
    for i, above in enumerate(parents.tolist()):
        known = [p for p in above if p >= 0]
        for p in known:
            network.addArc(f"x{p}", f"x{i}")
        table = tables[i][tuple(slice(None) if p >= 0 else 0 for p in above)]
        # Axes of a CPT array: the names, reversed.
        names = list(network.cpt(f"x{i}").names)[::-1]
        order = [[*(f"x{p}" for p in known), f"x{i}"].index(name) for name in names]
        network.cpt(f"x{i}")[:] = np.ascontiguousarray(np.transpose(np.exp(table), order))
    exact = options["method"] == "exact"
    solver = gum.ShaferShenoyInference(network) if exact else gum.LoopyBeliefPropagation(network)
    if exact:  # the other has no threads
        solver.setNumberOfThreads(1)
    if options["evidence"]:
        solver.setEvidence({f"x{i}": value for i, value in options["evidence"]})
    if not exact:
        solver.setEpsilon(1e-9)
        solver.setMaxIter(options["step"] * options["steps"])
    started = time.perf_counter()
    solver.makeInference()
    found = [solver.posterior(f"x{i}").toarray() for i in range(len(parents))]
    elapsed = time.perf_counter() - started
    np.savez(options["output"], marginals=np.array(found)[None], seconds=np.array([elapsed]))
    return {"sweeps": None if exact else solver.nbrIterations(), "seconds": elapsed}


def pytoulbar2(model: Any, options: Options) -> Options:
    import pytoulbar2 as tb2

    count, labels = model["singles"].shape
    digits = options["digits"]
    tables = [*model["pair_tables"], *model["singles"]]
    least = sum(-table.max() for table in tables)
    network = tb2.CFN(float(np.ceil(-2.0 * least + 1.0)), resolution=digits)
    for i in range(count):
        network.AddVariable(f"x{i}", list(range(labels)))
    for i in range(count):
        network.AddFunction([i], (model["singles"][i].max() - model["singles"][i]).tolist())
    for (i, j), table in zip(model["pairs"].tolist(), model["pair_tables"], strict=True):
        network.AddFunction([i, j], (table.max() - table).ravel().tolist())
    started = time.perf_counter()
    answer = network.Solve(timeLimit=options["time_limit"])
    elapsed = time.perf_counter() - started
    return {"seconds": elapsed, "labels": [int(value) for value in answer[0]] if answer else None}


LIBRARIES = {"pgmax": pgmax, "inferlo": inferlo, "pgmpy": pgmpy, "pyagrum": pyagrum, "pytoulbar2": pytoulbar2}

if __name__ == "__main__":
    library, path, text = sys.argv[1:]
    answer = LIBRARIES[library](np.load(path), json.loads(text))
    print("\n" + json.dumps(answer))
