"""What programs outside this repository may rely on: names, defaults, meanings."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import blendfield as bf
from blendfield.graph import counting_numbers

INFER = {
    "epsilon": 1.0,
    "counting_numbers": "ones",
    "method": "norm-product",
    "max_iterations": 1000,
    "tolerance": 1e-6,
    "evidence": None,
    "initial": None,
    "time_limit": None,
    "callback": None,
    "threads": None,
    "dtype": "float64",
    "backend": "auto",
    "acceleration": "anderson",
    "certificate_every": "auto",
}
RESULT = (
    "beliefs labels score upper lower gap certified converged stop_reason iterations messages history".split()  # noqa: SIM905
)


def test_infer():
    parameters = list(inspect.signature(bf.infer).parameters.values())
    assert [p.name for p in parameters[:2]] == ["graph", "potentials"]
    assert {p.name: p.default for p in parameters[2 : 2 + len(INFER)]} == INFER
    assert all(p.default is not inspect.Parameter.empty for p in parameters[2:])


def test_result():
    graph = bf.RegionGraph([2, 3, 4], [(2, 0), (1, 2)])
    result = bf.infer(graph, [np.ones((4, 2)), None])
    assert all(hasattr(result, name) for name in RESULT)
    assert {"iteration", "upper", "lower", "gap", "seconds"} <= set(result.history)
    assert len({len(entries) for entries in result.history.values()}) == 1
    assert result.labels.dtype == np.int64


def test_regions_edges_and_axes():
    graph = bf.RegionGraph([2, 3, 4, 2], [(2, 0), (2,), (1, 2)])
    assert list(graph.regions) == [(2, 0), (2,), (1, 2), (0,), (1,), (3,)]
    assert list(graph.children) == [(1, 3), (), (1, 4), (), (), ()]
    assert list(graph.parents) == [(), (0, 2), (), (0,), (2,), ()]
    short = bf.infer(graph, [np.arange(8.0).reshape(4, 2), None, None])
    long = bf.infer(graph, [np.arange(8.0).reshape(4, 2), *[None] * 5])
    assert short.upper == long.upper
    assert short.beliefs[0].shape == (4, 2)


@pytest.mark.parametrize("numbers", ["ones", np.ones])
def test_belief_propagation_has_its_own_numbers(numbers):
    """The default, "ones", leaves belief propagation its Bethe numbers; an array is taken as it is."""
    graph = bf.grid_graph((3, 3), 2)
    tables = np.random.default_rng(0).normal(size=int(graph.table_offsets[-1]))
    default = bf.infer(graph, tables, method="belief-propagation")
    assert np.isnan([default.lower, default.gap]).all()
    assert not default.certified
    np.testing.assert_array_equal(default.counting_numbers, counting_numbers(graph, "bethe"))
    given = numbers if isinstance(numbers, str) else numbers(graph.num_regions)
    result = bf.infer(graph, tables, method="belief-propagation", counting_numbers=given)
    assert (result.upper == default.upper) is isinstance(numbers, str)


def test_a_warning_points_at_the_caller():
    graph = bf.grid_graph((2, 2), 2)
    for numbers in ("bethe", [0.0] * 4 + [1.0] * 4):
        with pytest.warns(bf.BlendfieldWarning) as caught:
            bf.infer(graph, [None] * 4, counting_numbers=numbers)
        assert [warning.filename for warning in caught] == [__file__]
