import math

import pytest

import blendfield as bf
from blendfield.cli.treewidth import eliminate


@pytest.mark.parametrize(
    ("graph", "width", "log2_largest"),
    [
        (bf.RegionGraph([], []), -1, 0.0),
        (bf.RegionGraph([4, 2], []), 0, 2.0),
        (bf.chain_graph(50, 2), 1, 2.0),
        (bf.tree_graph([-1, 0, 0, 1, 1, 2, 2], 4), 1, 4.0),
        (bf.RegionGraph([2] * 10, [(i, (i + 1) % 10) for i in range(10)]), 2, 3.0),
        (bf.RegionGraph([2] * 8, [(i, k) for i in range(8) for k in range(i)]), 7, 8.0),
        (bf.RegionGraph([2, 3, 5], [(2, 0, 1)]), 2, math.log2(30)),
    ],
)
def test_known_widths(graph, width, log2_largest):
    found = eliminate(graph)
    assert found.treewidth == width
    assert found.log2_largest == pytest.approx(log2_largest)


def test_grids():
    """The treewidth of a grid is its shorter side; greedy orders come close."""
    found = eliminate(bf.grid_graph((10, 30), 2))
    assert 10 <= found.treewidth <= 20


def test_all_tables_together():
    """Eliminating a chain of three from its ends: two tables of 9 entries, one of 3."""
    assert 2 ** eliminate(bf.chain_graph(3, 3)).log2_total == pytest.approx(21)


def test_gives_up_in_time():
    assert eliminate(bf.grid_graph((300, 300), 2), seconds=0.05) is None
