"""Threads, processes and the interpreter around a running inference."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import blendfield as bf


def hard_grid(side=40):
    graph = bf.grid_graph((side, side), 5)
    return graph, 3 * np.random.default_rng(0).normal(size=int(graph.table_offsets[-1]))


def solve(connection, graph, tables):
    connection.send(bf.infer(graph, tables, threads=2, max_iterations=5).upper)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_threads_work_after_fork():
    """The child of a process whose worker threads run already makes its own."""
    graph, tables = hard_grid()
    before = bf.infer(graph, tables, threads=2, max_iterations=5).upper
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=solve, args=(theirs, graph, tables))
    child.start()
    assert ours.poll(60)
    assert ours.recv() == before
    child.join(60)
    assert child.exitcode == 0
    assert bf.infer(graph, tables, threads=2, max_iterations=5).upper == before


def test_threads_from_the_environment():
    code = "import blendfield as bf; from blendfield import _core; print(_core.default_threads())"
    for number in ("1", "3"):
        environment = {**os.environ, "BLENDFIELD_THREADS": number}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.split() == [number]


def test_other_threads_run_meanwhile():
    """The interpreter lock is released: a counter in another thread goes on during one long call into the core."""
    graph, tables = hard_grid(100)
    problem = bf.backends.get("cpu").compile(
        bf.inference.program.build_models([graph], ["ones"], 1.0, True).program, tables, epsilon=1.0, threads=1
    )
    ticks, stop = [], threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    started = time.perf_counter()
    problem.sweep(100)
    ended = time.perf_counter()
    stop.set()
    thread.join()
    assert sum(started < at < ended for at in ticks) >= 5


def test_calls_from_several_threads():
    graph, tables = hard_grid(20)
    expected = bf.infer(graph, tables, max_iterations=10).upper
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(bf.infer(graph, tables, max_iterations=10, threads=2).upper))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4
