"""The compiled core of blendfield."""

from typing import Annotated, overload

import numpy
from numpy.typing import NDArray


def parse_rows(rows: object | None, subject: str, longest: int) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int32], dict(shape=(None,))]]:
    """Rows of integers as (offsets int64 [n+1], values int32 [offsets[n]])."""

def parse_integers(items: object | None, subject: str) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]:
    """A sequence of integers as int32 [n]."""

def check_regions(region_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], region_variables: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], num_variables: int, subject: str = 'region', may_be_empty: bool = False) -> None:
    """
    Raises ValueError for the first empty region, unknown or repeated variable.
    """

def first_with_same_variables(region_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], region_variables: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]:
    """First region with the same set of variables, int32 [R]."""

def hasse_edges(region_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], region_variables: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], num_variables: int) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.int32], dict(shape=(None,))]]:
    """(parents, children) of the Hasse diagram."""

def variable_edges(region_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], region_variables: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], num_variables: int) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.int32], dict(shape=(None,))]]:
    """(parents, children) to single variables."""

def checked_edges(region_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], region_variables: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_parents: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_children: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.int32], dict(shape=(None,))]]:
    """
    The edges sorted by (parent, child); raises ValueError for the first that is no strict inclusion.
    """

def moebius_numbers(region_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_parents: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_children: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
    """1 - the sum over all ancestors, float64 [R]."""

def spanning_tree_uses(num_nodes: int, starts: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], ends: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], at_least: int, seed: int) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,))], int]:
    """(number of uses of each link int32 [L], number of trees)."""

def relink(region_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], counting_numbers: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_parents: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_children: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.int32], dict(shape=(None,))]]:
    """(parents, children) after passing over inner parents with c <= 0."""

def colour_classes(num_regions: int, edge_parents: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_children: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]:
    """Class of each sender, int32 [R]."""

def forest_classes(num_regions: int, edge_parents: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_children: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))] | None:
    """Upward classes int32 [R], None when there is a cycle."""

def components(num_regions: int, edge_parents: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_children: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,))], int]:
    """(component of each region int32 [R], count)."""

class Problem64:
    """A compiled problem; see blendfield.backends.protocol.Problem."""

    def __init__(self, cardinalities: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], region_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], region_variables: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], table_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_parents: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_children: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], counting_numbers: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], region_class: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], schedule: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], segment: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], num_segments: int, tables: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], epsilon: float, threads: int) -> None: ...

    @property
    def epsilon(self) -> float: ...

    def set_epsilon(self, value: float) -> None: ...

    def sweep(self, count: int = 1) -> None: ...

    def sweep_value(self) -> float: ...

    def value(self, epsilon: float | None = None) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    def beliefs(self, epsilon: float | None = None) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    def messages(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    def set_messages(self, flat: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    def set_potentials(self, tables: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> int: ...

    def value_and_beliefs(self, out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None = None) -> tuple: ...

    def trial(self, direction: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], steps: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple: ...

    def certificate(self, smoothing: float, region_gaps: bool, candidate: bool) -> tuple: ...

    def score(self, labels: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    def belief_labels(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    def decode(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    def local_search(self, labels: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], max_passes: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    def block_search(self, labels: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], rounds: int, seed: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    def allocate_history(self, slots: int) -> None: ...

    def clear_history(self) -> None: ...

    def save_point(self) -> None: ...

    def push(self, slot: int) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    def mix(self, weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    def restore(self, slot: int) -> None: ...

    @property
    def memory_bytes(self) -> int: ...

class Problem32:
    """A compiled problem; see blendfield.backends.protocol.Problem."""

    def __init__(self, cardinalities: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], region_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], region_variables: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], table_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_parents: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_children: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], counting_numbers: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], region_class: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], schedule: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], segment: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], num_segments: int, tables: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], epsilon: float, threads: int) -> None: ...

    @property
    def epsilon(self) -> float: ...

    def set_epsilon(self, value: float) -> None: ...

    def sweep(self, count: int = 1) -> None: ...

    def sweep_value(self) -> float: ...

    def value(self, epsilon: float | None = None) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    def beliefs(self, epsilon: float | None = None) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...

    def messages(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...

    def set_messages(self, flat: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    def set_potentials(self, tables: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> int: ...

    def value_and_beliefs(self, out: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')] | None = None) -> tuple: ...

    def trial(self, direction: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], steps: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple: ...

    def certificate(self, smoothing: float, region_gaps: bool, candidate: bool) -> tuple: ...

    def score(self, labels: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    def belief_labels(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    def decode(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    def local_search(self, labels: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], max_passes: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    def block_search(self, labels: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], rounds: int, seed: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    def allocate_history(self, slots: int) -> None: ...

    def clear_history(self) -> None: ...

    def save_point(self) -> None: ...

    def push(self, slot: int) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    def mix(self, weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    def restore(self, slot: int) -> None: ...

    @property
    def memory_bytes(self) -> int: ...

def default_threads() -> int:
    """Threads used when none are asked for."""

def instruction_set() -> str:
    """Name of the instruction set chosen for this CPU."""

@overload
def bare_exp_pass(x: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> float:
    """Sum of exp over an array: the yardstick of the benchmarks."""

@overload
def bare_exp_pass(x: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> float: ...

def features_product(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, indices: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, data: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], dense: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], threads: int = 0) -> None:
    """
    out [N, W] = X [N, F] dense [F, W], X in compressed rows or whole, W a multiple of 8.
    """

def features_transposed_product(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, indices: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, data: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], squared: bool, dense: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], threads: int = 0) -> None:
    """
    out [F, W] = X^T dense [N, W], X [N, F] (or its squares) in compressed rows or whole, W a multiple of 8.
    """

@overload
def terms_apply(flat: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], w: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], weight: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], coefficient: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, table: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, tables: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], threads: int = 0) -> None: ...

@overload
def terms_apply(flat: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], w: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], weight: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], coefficient: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, table: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, tables: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], threads: int = 0) -> None:
    """
    flat[start + y] += w[weight] coefficient tables[table, y], term by term; start must rise.
    """

@overload
def terms_moments(gradient: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], d: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], weight: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], coefficient: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, table: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, tables: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], threads: int = 0) -> None: ...

@overload
def terms_moments(gradient: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], d: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], weight: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], coefficient: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, table: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, tables: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], threads: int = 0) -> None:
    """
    gradient[weight] += coefficient sum_y d[start + y] tables[table, y], term by term.
    """

@overload
def terms_statistics(sums: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], beliefs: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], scale: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], region: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], weight: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], coefficient: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, table: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, tables: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], threads: int = 0) -> None: ...

@overload
def terms_statistics(sums: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], beliefs: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], scale: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], region: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], weight: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], coefficient: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, table: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, tables: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], threads: int = 0) -> None:
    """
    sums[0, weight] += coefficient <b, table>, sums[1, weight] += scale[region] coefficient^2 Var_b(table), with table = tables[table], b = beliefs[start ...], term by term.
    """

@overload
def free_apply(flat: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], w: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], base: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], coefficient: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, entries: int, threads: int = 0) -> None: ...

@overload
def free_apply(flat: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], w: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], base: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], coefficient: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, entries: int, threads: int = 0) -> None:
    """
    flat[start + y] += w[base + y] coefficient, term by term; start must rise.
    """

@overload
def free_moments(gradient: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], d: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], base: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], coefficient: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, entries: int, threads: int = 0) -> None: ...

@overload
def free_moments(gradient: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], d: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], base: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], coefficient: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, entries: int, threads: int = 0) -> None:
    """gradient[base + y] += coefficient d[start + y], term by term."""

@overload
def free_statistics(sums: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], beliefs: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], scale: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], region: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], base: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], coefficient: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, entries: int, threads: int = 0) -> None: ...

@overload
def free_statistics(sums: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], beliefs: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], scale: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], region: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], base: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], coefficient: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, entries: int, threads: int = 0) -> None:
    """
    sums[0, base + y] += coefficient b, sums[1, base + y] += scale[region] coefficient^2 b (1 - b), b = beliefs[start + y], term by term.
    """

@overload
def rows_gather(flat: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], entries: int, threads: int = 0) -> Annotated[NDArray[numpy.float64], dict(shape=(None, None))]: ...

@overload
def rows_gather(flat: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], entries: int, threads: int = 0) -> Annotated[NDArray[numpy.float64], dict(shape=(None, None))]:
    """rows[j, y] = flat[start[j] + y], float64 [n, entries]."""

@overload
def rows_scatter_add(flat: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], rows: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], threads: int = 0) -> None: ...

@overload
def rows_scatter_add(flat: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], rows: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], threads: int = 0) -> None:
    """flat[start[j] + y] += rows[j, y]; start must rise."""

class MeanField64:
    """Mean field; see blendfield.backends.mean_field."""

    def __init__(self, cardinalities: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], region_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], region_variables: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], table_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], tables: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], epsilon: float, classes: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], models: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], num_models: int, threads: int) -> None: ...

    def set(self, distributions: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    def distributions(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    def sweep(self, active: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    def value(self) -> tuple: ...

    def beliefs(self, out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

class MeanField32:
    """Mean field; see blendfield.backends.mean_field."""

    def __init__(self, cardinalities: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], region_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], region_variables: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], table_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], tables: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], epsilon: float, classes: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], models: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], num_models: int, threads: int) -> None: ...

    def set(self, distributions: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    def distributions(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    def sweep(self, active: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    def value(self) -> tuple: ...

    def beliefs(self, out: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

class Elimination:
    """Exact inference; see blendfield.backends.elimination."""

    def __init__(self, cardinalities: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], region_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], region_variables: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], table_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], tables: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], models: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], num_models: int, epsilon: float, threads: int) -> None: ...

    @property
    def fits(self) -> bool: ...

    @property
    def bytes(self) -> float: ...

    @property
    def width(self) -> int: ...

    @property
    def largest(self) -> float: ...

    @property
    def entries(self) -> float: ...

    @property
    def infeasible(self) -> int: ...

    def load(self) -> None: ...

    def up(self, work: float) -> bool: ...

    def down(self, work: float) -> bool: ...

    def values(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    def labels(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    @overload
    def beliefs(self, out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    @overload
    def beliefs(self, out: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

def join_regions(cardinalities: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], region_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], region_variables: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], table_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], most_entries: float) -> tuple:
    """
    (region_offsets, region_variables, holder [R], exact) of the join graph; see core/inference/join.h.
    """

def join_tables(cardinalities: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], region_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], region_variables: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], table_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], tables: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], joined_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], joined_variables: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], joined_table_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], holder: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
    """The tables of the join graph, one after the other."""
