"""Random models are what they are called, and show the irregularities they promise."""

import numpy as np

from blendfield.graph import RegionGraph
from blendfield.graph.relinking import relink
from blendfield.graph.schedule import forest_classes
from blendfield.testing import (
    build_program,
    enumerate_exact,
    random_forest,
    random_grid,
    random_junction_tree,
    random_labels,
    random_region_graph,
    random_tables,
)


def depth(graph: RegionGraph) -> int:
    """Number of levels: the longest chain of nested regions."""
    level = [1] * graph.num_regions
    for r in sorted(range(graph.num_regions), key=lambda r: len(graph.regions[r])):
        level[r] = 1 + max((level[c] for c in graph.children[r]), default=0)
    return max(level)


def test_region_graphs() -> None:
    graphs = [random_region_graph(np.random.default_rng(seed)) for seed in range(60)]
    assert {depth(graph) for graph in graphs} == {3}
    assert any(list(region) != sorted(region) for region in graphs[0].regions)
    assert any(len(set(graph.cardinalities.tolist())) > 2 for graph in graphs)
    assert any(1 in graph.cardinalities for graph in graphs)
    single = [r for graph in graphs for r, p in enumerate(graph.parents) if not p and len(graph.regions[r]) == 1]
    assert single  # isolated variables
    assert any(len(region) == 1 for graph in graphs for region in list(graph.regions)[: graph.num_given])
    assert depth(random_region_graph(np.random.default_rng(0), 2)) == 2
    parts = random_region_graph(np.random.default_rng(0), 3, parts=3)
    assert build_program(parts).num_segments >= 3


def test_grids() -> None:
    graph = random_grid(np.random.default_rng(0), (3, 4))
    assert (graph.num_variables, graph.num_given, depth(graph)) == (12, 3 * 3 + 2 * 4, 2)
    assert build_program(graph).num_segments == 1
    assert set(graph.cardinalities.tolist()) == {2, 3}


def test_forests() -> None:
    segments = set()
    for seed in range(30):
        graph = random_forest(np.random.default_rng(seed))
        assert forest_classes(graph, *relink(graph, np.ones(graph.num_regions))) is not None
        segments.add(build_program(graph, "bethe", two_pass=True).num_segments)
    assert len(segments) > 1


def test_junction_trees() -> None:
    for seed in range(30):
        graph = random_junction_tree(np.random.default_rng(seed))
        assert depth(graph) >= 3
        numbers = build_program(graph, "bethe").counting_numbers
        for i in range(graph.num_variables):
            assert sum(numbers[r] for r, region in enumerate(graph.regions) if i in region) == 1.0


def test_tables() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        graph = random_region_graph(rng)
        tables = random_tables(rng, graph, forbidden=0.4)
        assert np.isfinite(enumerate_exact(graph, tables, 1.0).value)
        pairs = np.repeat([len(region) > 1 for region in graph.regions], graph.table_sizes)
        assert 0.3 < np.isneginf(tables[pairs]).mean() < 0.45
        whole = random_tables(rng, graph, integer=True)
        assert np.array_equal(whole, np.round(whole))
        labels = random_labels(rng, graph)
        assert ((labels >= 0) & (labels < graph.cardinalities)).all()


def test_the_same_seed_gives_the_same_model() -> None:
    one, other = (random_region_graph(np.random.default_rng(7)) for _ in range(2))
    assert one.regions == other.regions
    assert np.array_equal(one.cardinalities, other.cardinalities)
