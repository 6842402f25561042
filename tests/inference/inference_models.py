"""Small models for the tests."""

import itertools

import numpy as np

import blendfield as bf

INF = np.inf


def grid(side=3, labels=2, seed=0, scale=1.0):
    """(graph, list of tables): a square grid, pairs first, then single variables."""
    rng = np.random.default_rng(seed)
    index = np.arange(side * side).reshape(side, side)
    across = np.stack([index[:, :-1].ravel(), index[:, 1:].ravel()], axis=1)
    down = np.stack([index[:-1].ravel(), index[1:].ravel()], axis=1)
    graph = bf.RegionGraph([labels] * side**2, [tuple(edge) for edge in np.concatenate([across, down]).tolist()])
    return graph, [scale * rng.standard_normal(graph.shape(r)) for r in range(graph.num_regions)]


def complete(num_variables=5, labels=2, seed=0, scale=1.0):
    """(graph, list of tables): all pairs, strongly frustrated."""
    rng = np.random.default_rng(seed)
    graph = bf.RegionGraph([labels] * num_variables, list(itertools.combinations(range(num_variables), 2)))
    tables = [scale * rng.standard_normal(graph.shape(r)) for r in range(graph.num_given)]
    return graph, tables


def chain(length=4, labels=3, seed=0):
    """(graph, list of tables)"""
    rng = np.random.default_rng(seed)
    graph = bf.RegionGraph([labels] * length, [(i, i + 1) for i in range(length - 1)])
    return graph, [rng.standard_normal(graph.shape(r)) for r in range(graph.num_regions)]


def check_sound(result):
    """What every result promises."""
    history = result.history
    assert list(history) == ["iteration", "upper", "lower", "gap", "seconds"]
    assert len({len(values) for values in history.values()}) == 1
    assert (np.diff(history["iteration"]) > 0).all()
    assert not result.gap < 0
    if result.certified:
        assert result.lower <= result.upper
        assert result.gap == max(result.upper - result.lower, 0.0)
        assert history["upper"][-1] == result.upper
        assert history["lower"][-1] == result.lower
    assert result.labels.dtype == np.int64
    for table in result.beliefs:
        assert np.isfinite(table).all()
        assert (table >= 0).all()
        np.testing.assert_allclose(table.sum(), 1.0, rtol=1e-5)


def frustrated(seed, shape=(5, 5), labels=3):
    """A grid with pair tables without sign: local search alone gets stuck."""
    rng = np.random.default_rng(seed)
    graph = bf.grid_graph(shape, labels)
    return graph, [2.0 * rng.standard_normal(graph.shape(r)) for r in range(graph.num_regions)]
