"""How far neighbouring beliefs are from agreeing: marginal_r(b_p) and b_r, edge by edge, as sparse matrices."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from blendfield.backends.protocol import Program

LongArray = npt.NDArray[np.int64]


class Consistency:
    """Matrices from tables [N] to messages [M]: `parent` gives marginal_r(b_p), `child` b_r."""

    def __init__(self, program: Program) -> None:
        from scipy.sparse import csr_array

        graph = program.graph
        parents, children = program.edge_parents.astype(np.int64), program.edge_children.astype(np.int64)
        sizes = graph.table_sizes[children]
        starts = np.cumsum(sizes) - sizes
        total, entries = int(sizes.sum()), int(graph.table_offsets[-1])
        columns = np.repeat(graph.table_offsets[children] - starts, sizes) + np.arange(total)
        ones = np.ones(total)
        self.child = csr_array((ones, columns, np.arange(total + 1)), shape=(total, entries))
        rows, columns = _marginal_entries(program, parents, children, starts)
        self.parent = csr_array((np.ones(len(rows)), (rows, columns)), shape=(total, entries))
        c = program.counting_numbers
        self.parent_counting = np.repeat(c[parents], sizes)
        self.child_counting = np.repeat(c[children], sizes)


def _marginal_entries(
    program: Program, parents: LongArray, children: LongArray, starts: LongArray
) -> tuple[LongArray, LongArray]:
    """(message entry, table entry of the parent) for every entry of every edge's parent, edges of one kind at once."""
    graph = program.graph
    orders = graph.region_orders
    most = int(orders.max(initial=1))
    # Shape of the parent, and the stride of each of its axes in the child's table.
    shape = np.ones((len(parents), most), dtype=np.int64)
    stride = np.zeros((len(parents), most), dtype=np.int64)
    for axis in range(most):
        has = np.flatnonzero(orders[parents] > axis)
        variable = graph.region_variables[graph.region_offsets[parents[has]] + axis]
        shape[has, axis] = graph.cardinalities[variable]
        product = np.ones(len(has), dtype=np.int64)
        for back in range(most - 1, -1, -1):
            inside = np.flatnonzero(orders[children[has]] > back)
            other = graph.region_variables[graph.region_offsets[children[has[inside]]] + back]
            same = inside[other == variable[inside]]
            stride[has[same], axis] = product[same]
            product[inside] *= graph.cardinalities[other]
    kinds, kind = np.unique(np.concatenate([shape, stride], axis=1), axis=0, return_inverse=True)
    rows, columns = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for number, both in enumerate(kinds):
        edges = np.flatnonzero(kind.reshape(-1) == number)
        label = np.tensordot(both[most:], np.indices(both[:most]), axes=1).reshape(-1)
        rows.append((starts[edges, None] + label).reshape(-1))
        columns.append((graph.table_offsets[parents[edges], None] + np.arange(label.size)).reshape(-1))
    return np.concatenate(rows), np.concatenate(columns)
