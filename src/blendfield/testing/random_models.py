"""Random small models, irregular like real ones: mixed label counts, unsorted tuples, isolated variables."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from blendfield.graph import RegionGraph

FloatArray = npt.NDArray[np.float64]
Region = tuple[int, ...]


def random_region_graph(
    rng: np.random.Generator,
    levels: int = 3,
    *,
    num_variables: int = 5,
    max_labels: int = 4,
    parts: int = 1,
    edges: str = "hasse",
) -> RegionGraph:
    """Regions of `levels`, `levels` - 1, ..., 2 variables, nested and overlapping; `parts` such graphs side by side.

    Now and then a variable has one label only, a single-variable region is given explicitly, or a variable is isolated.
    """
    cardinalities: list[int] = []
    regions: list[Region] = []
    for _ in range(parts):
        first = len(cardinalities)
        labels = rng.integers(2, max_labels + 1, num_variables)
        labels[rng.random(num_variables) < 0.05] = 1
        cardinalities += [int(n) for n in labels]
        scopes: set[frozenset[int]] = set()
        for order in range(levels, 1, -1):
            possible = [frozenset(s) for s in itertools.combinations(range(num_variables), order)]
            inside = [s for s in possible if any(s < larger for larger in scopes)]
            for _ in range(int(rng.integers(2, 5))):
                choice = inside if inside and rng.random() < 0.6 else possible
                scopes.add(choice[int(rng.integers(len(choice)))])
        if rng.random() < 0.3:
            scopes.add(frozenset([int(rng.integers(num_variables))]))
        regions += _shuffled(rng, [frozenset(first + i for i in scope) for scope in scopes])
        if rng.random() < 0.2:
            cardinalities.append(int(rng.integers(2, max_labels + 1)))
    return RegionGraph(cardinalities, regions, edges)


def random_forest(
    rng: np.random.Generator, *, num_variables: int = 8, max_labels: int = 4, max_order: int = 3
) -> RegionGraph:
    """Regions of 2 to `max_order` variables that meet in single variables and form no cycle; often several trees."""
    cardinalities = rng.integers(2, max_labels + 1, num_variables)
    scopes = []
    used = 1
    while used < num_variables:
        fresh = range(used, min(num_variables, used + int(rng.integers(1, max_order))))
        if len(fresh) == 1 and rng.random() < 0.15:
            used += 1  # the root of a new tree
            continue
        scopes.append(frozenset([int(rng.integers(used)), *fresh]))
        used = fresh.stop
    return RegionGraph(cardinalities.tolist(), _shuffled(rng, scopes))


def random_grid(rng: np.random.Generator, shape: tuple[int, int], *, max_labels: int = 3) -> RegionGraph:
    """Pairs of 4-neighbours; every variable has 2 or `max_labels` labels."""
    places = np.arange(shape[0] * shape[1]).reshape(shape)
    across, down = np.stack([places[:, :-1], places[:, 1:]], axis=-1), np.stack([places[:-1], places[1:]], axis=-1)
    pairs = np.concatenate([across.reshape(-1, 2), down.reshape(-1, 2)]).tolist()
    cardinalities = rng.choice([2, max_labels], places.size)
    return RegionGraph(cardinalities.tolist(), _shuffled(rng, [frozenset(pair) for pair in pairs]))


def random_junction_tree(
    rng: np.random.Generator, *, num_cliques: int = 4, max_order: int = 4, max_labels: int = 3
) -> RegionGraph:
    """Cliques of 3 to `max_order` variables, their separators (at least one of two variables) and single variables."""
    cliques = [frozenset(range(int(rng.integers(3, max_order + 1))))]
    separators: set[frozenset[int]] = set()
    num_variables = len(cliques[0])
    while len(cliques) < num_cliques or not separators:
        old = sorted(cliques[int(rng.integers(len(cliques)))])
        order = int(rng.integers(3, max_order + 1))
        size = int(rng.integers(1, min(len(old), order)))
        separator = frozenset(int(i) for i in rng.choice(old, size, replace=False))
        cliques.append(separator | frozenset(range(num_variables, num_variables + order - size)))
        num_variables += order - size
        if size > 1:
            separators.add(separator)
    cardinalities = rng.integers(2, max_labels + 1, num_variables)
    return RegionGraph(cardinalities.tolist(), _shuffled(rng, [*cliques, *separators]))


def random_labels(rng: np.random.Generator, graph: RegionGraph) -> npt.NDArray[np.int64]:
    """int64 [V], uniform."""
    return rng.integers(0, graph.cardinalities).astype(np.int64)


def random_tables(
    rng: np.random.Generator, graph: RegionGraph, *, forbidden: float = 0.0, scale: float = 1.0, integer: bool = False
) -> FloatArray:
    """float64 [tables layout], normal (or integers -2..2); a part `forbidden` of each region is -inf.

    One labelling, drawn first, stays allowed everywhere: the model is feasible. Single variables lose fewer labels.
    """
    size = int(graph.table_offsets[-1])
    tables = rng.integers(-2, 3, size).astype(np.float64) if integer else scale * rng.standard_normal(size)
    if forbidden > 0.0:
        planted = random_labels(rng, graph)
        for r, region in enumerate(graph.regions):
            start, stop = int(graph.table_offsets[r]), int(graph.table_offsets[r + 1])
            count = rng.binomial(stop - start, forbidden / 4) if len(region) == 1 else round(forbidden * (stop - start))
            kept = start + np.ravel_multi_index(tuple(planted[list(region)]), graph.shape(r))
            others = np.setdiff1d(np.arange(start, stop), kept)
            tables[rng.choice(others, min(int(count), len(others)), replace=False)] = -np.inf
    return tables


def _shuffled(rng: np.random.Generator, scopes: list[frozenset[int]]) -> list[Region]:
    """The scopes in random order, each a tuple in random order."""
    ordered = sorted(sorted(scope) for scope in scopes)
    regions = [tuple(int(i) for i in rng.permutation(scope)) for scope in ordered]
    return [regions[k] for k in rng.permutation(len(regions))]
