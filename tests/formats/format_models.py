"""Models to write and read again."""

import numpy as np
from hypothesis import strategies as st

import blendfield as bf
from blendfield.model.potentials import flatten_potentials

SMALL_UAI = """MARKOV
3
2 3 2
3
2 0 1
3 2 1 0
1 1

6
 1 2 3 4 5 6
12
0 1 2 3 4 5
6 7 8 9 10 11
3
0.5 0.25 0.125
"""


@st.composite
def models(draw, max_variables=4):
    """(graph, one table of scores per region): mixed label counts, unsorted tuples, forbidden labels, few regions."""
    num_variables = draw(st.integers(1, max_variables))
    cardinalities = draw(st.lists(st.integers(1, 3), min_size=num_variables, max_size=num_variables))
    scope = st.lists(st.integers(0, num_variables - 1), min_size=1, max_size=3, unique=True)
    regions = draw(st.lists(scope, max_size=5, unique_by=frozenset))
    graph = bf.RegionGraph(cardinalities, [tuple(region) for region in regions])
    score = st.one_of(st.floats(-30, 30), st.sampled_from([0.0, -np.inf, -1.0]))
    flat = draw(st.lists(score, min_size=int(graph.table_offsets[-1]), max_size=int(graph.table_offsets[-1])))
    offsets = graph.table_offsets
    tables = [np.array(flat[offsets[r] : offsets[r + 1]]).reshape(graph.shape(r)) for r in range(graph.num_regions)]
    return graph, tables


def flat(graph, potentials):
    return flatten_potentials(graph, potentials)


def same_model(graph, flat, again, flat_again, tolerance):
    """The same regions in the same order, and scores that differ by `tolerance` at most."""
    with np.errstate(invalid="ignore"):
        close = np.abs(flat - flat_again) <= tolerance * (1 + np.abs(flat))
    return (
        np.array_equal(graph.cardinalities, again.cardinalities)
        and graph.regions == again.regions
        and bool((close | (flat == flat_again)).all())
    )
