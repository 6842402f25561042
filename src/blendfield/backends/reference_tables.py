"""Tables of the reference backend: how a child's table lies in its parent's, soft maxima, and the support."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield.backends.protocol import FloatArray
from blendfield.errors import SupportError

BoolArray = npt.NDArray[np.bool_]


class Link:
    """A relinked edge: how the child's table [child's axes] lies in the parent's table [parent's axes]."""

    def __init__(
        self, index: int, parent: int, child: int, regions: list[tuple[int, ...]], shape: tuple[int, ...]
    ) -> None:
        self.index, self.parent, self.child = index, parent, child
        inner, outer = regions[child], regions[parent]
        shared = [variable for variable in outer if variable in inner]
        self._other_axes = tuple(axis for axis, variable in enumerate(outer) if variable not in inner)
        self._to_parent = [inner.index(variable) for variable in shared]
        self._to_child = [shared.index(variable) for variable in inner]
        self._shape = tuple(size if variable in inner else 1 for variable, size in zip(outer, shape, strict=True))

    def up(self, table: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The child's table, ready to broadcast over the parent's."""
        return table.transpose(self._to_parent).reshape(self._shape)

    def down(self, table: npt.NDArray[Any], reduce: Callable[..., Any] = np.sum) -> npt.NDArray[Any]:
        """The parent's table reduced over the variables the child does not have."""
        return np.asarray(reduce(table, axis=self._other_axes)).transpose(self._to_child)


def soft_max(
    values: FloatArray, epsilon: float, counting_number: float, axis: tuple[int, ...] | None = None
) -> FloatArray:
    """eps c logsumexp(values / (eps c)); at eps c = 0 the maximum, or the minimum for c < 0. Entries of -inf are left
    out.
    """
    scale = epsilon * counting_number
    if scale == 0.0:
        if counting_number < 0.0:
            return np.asarray(np.where(np.isneginf(values), np.inf, values).min(axis=axis))
        return np.asarray(values.max(axis=axis))
    scaled = np.where(np.isneginf(values), -np.inf, values / scale)
    top = scaled.max(axis=axis, keepdims=True)
    top = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        logarithm = np.log(np.exp(scaled - top).sum(axis=axis, keepdims=True)) + top
    return np.asarray(scale * np.squeeze(logarithm, axis=axis))


def arc_consistent_support(potentials: list[FloatArray], links: list[Link]) -> list[BoolArray]:
    """Generalised arc consistency: a joint label stays while every child supports its restriction and every parent
    extends it.

    Returns boolean tables by region.
    """
    support = [~np.isneginf(table) for table in potentials]
    _refuse_empty(support, "is -inf")
    changed = not all(table.all() for table in support)
    while changed:
        changed = False
        for link in links:
            parent, child = support[link.parent], support[link.child]
            new_child = child & link.down(parent, np.any)
            new_parent = parent & link.up(new_child)
            changed |= bool((new_child != child).any() or (new_parent != parent).any())
            support[link.child], support[link.parent] = new_child, new_parent
        _refuse_empty(support, "is -inf or contradicts the neighbours' forbidden labels")
    return support


def _refuse_empty(support: list[BoolArray], why: str) -> None:
    for r, table in enumerate(support):
        if not table.any():
            raise SupportError(
                f"all labels of region {r} are forbidden: every entry {why}; expected at least one finite potential"
            )
