"""Tables so large that several threads share one, and that nothing of their size is made beside them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import blendfield as bf
from blendfield import backends
from blendfield.testing import build_program

MODELS = {
    "pair": ([300, 290], [(0, 1)]),
    "pair, one short axis": ([3, 40_000], [(0, 1)]),
    "triple with pairs": ([70, 31, 40], [(0, 1, 2), (0, 1), (0, 2), (1, 2)]),
    "triple, equal axes": ([45, 45, 45], [(2, 0, 1)]),
    "two triples": ([60, 30, 41, 20], [(0, 1, 2), (1, 2, 3), (1, 2)]),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("epsilon", [1.0, 0.0])
def test_same_as_the_reference_on_any_number_of_threads(name, epsilon):
    graph = bf.RegionGraph(*MODELS[name])
    tables = np.random.default_rng(0).normal(size=int(graph.table_offsets[-1]))
    tables[::7] = -np.inf
    tables[graph.table_offsets[graph.num_given] :] = 0.0
    options = {"epsilon": epsilon, "max_iterations": 3, "acceleration": None}
    one, two, three = (bf.infer(graph, tables, threads=n, backend="cpu", **options) for n in (1, 2, 3))
    expected = bf.infer(graph, tables, backend="reference", **options)
    np.testing.assert_allclose(one.messages.values, expected.messages.values, rtol=0, atol=1e-10)
    assert abs(one.upper - expected.upper) <= 1e-10 * abs(expected.upper)
    for other in (two, three):
        np.testing.assert_array_equal(other.messages.values, one.messages.values)
        assert (other.upper, other.lower) == (one.upper, one.lower)


def test_float32():
    graph = bf.RegionGraph(*MODELS["pair"])
    tables = np.random.default_rng(0).normal(size=int(graph.table_offsets[-1]))
    single = bf.infer(graph, tables, dtype="float32", threads=2, counting_numbers="bethe")
    double = bf.infer(graph, tables, threads=1, counting_numbers="bethe")
    assert abs(single.upper - double.upper) <= 1e-5 * abs(double.upper)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("numbers", ["cover", "bethe", "half zero"])
@pytest.mark.parametrize(("epsilon", "smoothing", "forbidden"), [(0.7, None, 0), (0.7, 1.5, 3), (0.0, 0.5, 0)])
def test_values_beliefs_and_gaps(name, numbers, epsilon, smoothing, forbidden):
    graph = bf.RegionGraph(*MODELS[name])
    if numbers == "half zero":
        numbers = np.where(np.arange(graph.num_regions) < graph.num_given, 1.0, 0.0)
    program = build_program(graph, numbers)
    tables = 3 * np.random.default_rng(1).normal(size=int(graph.table_offsets[-1]))
    if forbidden:
        tables[:: 10 * forbidden] = -np.inf
        tables[graph.table_offsets[graph.num_given] :] = 0.0
    ours, theirs = (backends.get(b).compile(program, tables, epsilon=epsilon) for b in ("cpu", "reference"))
    for problem in (ours, theirs):
        problem.sweep()
    np.testing.assert_allclose(ours.value(), theirs.value(), rtol=1e-12)
    np.testing.assert_allclose(ours.beliefs(), theirs.beliefs(), rtol=1e-8, atol=1e-13)
    mine, given = (problem.certificate(smoothing, region_gaps=True, candidate=True) for problem in (ours, theirs))
    np.testing.assert_allclose(mine.region_gaps, given.region_gaps, rtol=1e-6, atol=1e-9)
    if np.isfinite(given.gap).all():
        np.testing.assert_allclose(mine.candidate, given.candidate, rtol=1e-6, atol=1e-12)


MEMORY = """
import sys, numpy as np, blendfield as bf
from pathlib import Path
from blendfield import backends
from blendfield.testing import build_program
def resident(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":"))
bf.infer(bf.grid_graph((4, 4), 3), np.zeros(16 * 3 + 24 * 9)).beliefs.flat
graph = bf.RegionGraph([2000, 2000], [(0, 1)])
tables = np.random.default_rng(0).normal(size=int(graph.table_offsets[-1]))
Path("/proc/self/clear_refs").write_text("5")
before = resident("VmRSS")
bf.infer(graph, tables, acceleration=None, counting_numbers="cover").beliefs.flat
estimate = backends.get("cpu").estimate_bytes(build_program(graph, "cover"))
print((resident("VmHWM") - before) / tables.nbytes, estimate / tables.nbytes)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peak memory is not told here")
def test_memory_of_a_lone_table():
    """The compiled table, and for beliefs and labels one array of its size more; 32 MB of tables."""
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    peak, estimate = map(float, done.stdout.split())
    assert peak < 2.6
    assert peak < estimate + 0.6
