"""Join graphs: the same scores over larger regions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import blendfield as bf
from blendfield.graph import join_graph
from blendfield.testing import enumerate_exact, random_forest, random_region_graph, random_tables


def scores(graph, flat):
    """Of every labelling, one axis per variable."""
    total = np.zeros(graph.cardinalities)
    for r, region in enumerate(graph.regions):
        table = flat[graph.table_offsets[r] : graph.table_offsets[r + 1]].reshape(graph.shape(r))
        shape = [graph.cardinalities[i] if i in region else 1 for i in range(graph.num_variables)]
        total = total + table.transpose(np.argsort(region)).reshape(shape)
    return total


@settings(deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), most_entries=st.sampled_from([0, 8, 40, 1e9]), forest=st.booleans())
def test_the_same_scores_in_tables_of_the_size_allowed(seed, most_entries, forest):
    rng = np.random.default_rng(seed)
    graph = random_forest(rng) if forest else random_region_graph(rng)
    flat = np.concatenate([table.ravel() for table in random_tables(rng, graph, forbidden=0.2 * (seed % 2))])
    joined = join_graph(graph, most_entries)
    np.testing.assert_allclose(scores(joined.graph, joined.tables(flat)), scores(graph, flat), rtol=1e-12, atol=1e-12)
    assert joined.graph.table_sizes.max() <= max(most_entries, graph.table_sizes.max())
    assert joined.exact or most_entries < 1e9
    again = join_graph(graph, most_entries)
    assert again.graph.regions == joined.graph.regions


@pytest.mark.parametrize("seed", range(10))
def test_nothing_kept_apart_is_exact(seed):
    rng = np.random.default_rng(seed)
    graph = random_region_graph(rng)
    tables = random_tables(rng, graph)
    joined = join_graph(graph, 1e9)
    assert joined.exact
    flat = joined.tables(np.concatenate([table.ravel() for table in tables]))
    for epsilon in (0, 1):
        result = bf.infer(joined.graph, flat, epsilon=epsilon, counting_numbers="bethe")
        assert result.certified
        assert result.upper == pytest.approx(enumerate_exact(graph, tables, epsilon).value, abs=1e-9)


def test_no_region_of_more_variables_than_there_may_be():
    """Variables with one label cost nothing, so the size of a table does not hold regions back."""
    graph = bf.RegionGraph([1] * 40, [(i, 39) for i in range(39)])
    joined = join_graph(graph, 10)
    assert max(map(len, joined.graph.regions)) <= 32
    assert bf.RegionGraph([], []).num_regions == join_graph(bf.RegionGraph([], []), 4).graph.num_regions == 0
