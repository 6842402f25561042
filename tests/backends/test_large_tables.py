"""Tables so large that several threads share one."""

from __future__ import annotations

import numpy as np
import pytest

import blendfield as bf

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
