"""The smallest models, the widest and the largest table."""

import time

import numpy as np
import pytest

import blendfield as bf
from blendfield.inference import memory
from blendfield.inference.options import METHODS

NOTHING = bf.RegionGraph([], []), []
ONE_LABEL = bf.RegionGraph([1], []), []
ONE_VARIABLE = bf.RegionGraph([3], [(0,)]), [[0.0, 1.0, -np.inf]]
NO_REGIONS = bf.RegionGraph([2, 3], []), []


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("epsilon", [1.0, 0.5, 0.0])
def test_smallest_models(method, epsilon):
    for (graph, potentials), value, labels in (
        (NOTHING, 0.0, []),
        (ONE_LABEL, 0.0, [0]),
        (ONE_VARIABLE, epsilon * np.log(np.exp(1 / epsilon) + 1) if epsilon else 1.0, [1]),
        (NO_REGIONS, epsilon * np.log(6), [0, 0]),
    ):
        result = bf.infer(graph, potentials, epsilon=epsilon, method=method, tolerance=1e-9)
        assert result.lower == pytest.approx(value, abs=1e-8) or np.isnan(result.lower)
        assert result.upper == pytest.approx(value, abs=1e-8) or result.upper == np.inf
        assert result.labels.tolist() == labels
        assert result.converged


def test_nested_regions_over_many_variables_with_one_label(backend):
    """The certificate looks at subsets of a child's axes: of 31 axes with one label there must not be 2^31."""
    graph = bf.RegionGraph([3, 3] + [1] * 30, [tuple(range(32)), tuple(range(31)), (0, 2)])
    result = bf.infer(graph, [None] * 3, backend=backend)
    assert result.upper == pytest.approx(7 * np.log(3) / 1, rel=1e-9)
    assert result.gap <= 1e-9


@pytest.mark.parametrize("method", METHODS)
def test_a_million_isolated_variables(method):
    graph = bf.RegionGraph(np.full(1_000_000, 2), [])
    started = time.perf_counter()
    result = bf.infer(graph, [], method=method)
    assert result.lower == pytest.approx(1e6 * np.log(2)) or np.isnan(result.lower)
    assert len(result.labels) == 1_000_000
    assert time.perf_counter() - started < 30


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_table_of_two_to_the_28_is_refused_with_its_size(monkeypatch, method, dtype):
    monkeypatch.setattr(memory, "available_bytes", lambda: 2**29)
    graph = bf.RegionGraph([2] * 28, [tuple(range(28))])
    with pytest.raises(bf.NotEnoughMemoryError, match="the largest table, of region 0, has 268435456 entries"):
        bf.infer(graph, [None], method=method, dtype=dtype)
