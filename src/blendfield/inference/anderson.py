"""Anderson mixing (type II) of the messages (mathematics §8).

The fixed-point iteration x -> T(x), T one full sweep, is sped up by combining the last few points:

    x_next = sum_j w_j T(x_j),     w = argmin |sum_j w_j f_j|^2 + ridge sum_j w_j^2 |f_j|^2,     sum_j w_j = 1,

where f_j = T(x_j) - x_j. The ridge is relative to each residual, so it needs no scale. The vectors stay in the backend;
only their inner products come up here.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np

from blendfield.backends.protocol import FloatArray, Problem
from blendfield.errors import OptionError


@dataclass(frozen=True)
class Anderson:
    """How messages are mixed.

    The history holds two copies of the messages per step remembered (and one more). For binary tables of pairs that is
    about 2 * memory times the tables, for many labels much less; `max_bytes` caps it: fewer steps are remembered, none
    if not even two fit.
    """

    memory: int = 5
    """steps remembered, at least 2"""
    regularisation: float = 1e-10
    """relative ridge of the normal equations"""
    max_bytes: int = 2 << 30
    """cap of the history's size in bytes"""

    def __post_init__(self) -> None:
        for name, smallest in (("memory", 2), ("max_bytes", 0)):
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool) or value < smallest:
                raise OptionError(f"Anderson: {name} must be an integer >= {smallest}; got {value!r}")
        ridge = self.regularisation
        if not isinstance(ridge, Real) or isinstance(ridge, bool) or not 0 <= ridge < 1:
            raise OptionError(f"Anderson: regularisation must be a number from 0 to below 1; got {ridge!r}")

    def slots(self, message_bytes: int, available: int | None = None) -> int:
        """Steps that can be remembered when one copy of the messages takes `message_bytes`; 0: no mixing."""
        budget = self.max_bytes if available is None else min(self.max_bytes, available)
        fitting = (budget // message_bytes - 1) // 2 if message_bytes else 0
        return self.memory if fitting >= self.memory else fitting if fitting >= 2 else 0


def mixing_weights(gram: FloatArray, regularisation: float) -> FloatArray | None:
    """The combination w [n] from the inner products of the residuals, float64 [n, n], by the formula above.

    None when it is undefined or trivial.
    """
    if len(gram) < 2:
        return None
    scale = np.sqrt(np.diag(gram))
    if not (np.isfinite(gram).all() and (scale > 0).all()):
        return None
    # With v_j = w_j |f_j| the matrix has a unit diagonal, whatever the sizes of the residuals.
    matrix = gram / np.outer(scale, scale)
    matrix[np.diag_indices_from(matrix)] += regularisation
    try:
        solution: FloatArray = np.linalg.solve(matrix, 1.0 / scale) / scale
    except np.linalg.LinAlgError:
        return None
    total = solution.sum()
    if not np.isfinite(solution).all() or total <= 0:
        return None
    return np.asarray(solution / total)


class History:
    """The last few sweeps: slots 0..m-1 of the problem's history, used in turn, and the inner products of residuals."""

    def __init__(self, problem: Problem, slots: int, regularisation: float, scratch: int = 0) -> None:
        """`scratch` slots more are allocated behind those used in turn, for the caller."""
        self.problem = problem
        self.slots = slots
        self.regularisation = regularisation
        self.gram: FloatArray = np.zeros((slots, slots))
        self.order: list[int] = []  # slots in use, the newest last
        self.total = slots + scratch
        problem.allocate_history(self.total)

    def clear(self) -> None:
        """Forget all steps."""
        self.order.clear()
        self.problem.clear_history()

    def push(self) -> float:
        """Remember the sweep just made (since the problem's `save_point`); returns the square of its residual."""
        slot = self.order.pop(0) if len(self.order) == self.slots else len(self.order)
        products = self.problem.push(slot)[: self.slots]
        self.order.append(slot)
        self.gram[slot, :] = products
        self.gram[:, slot] = products
        return float(products[slot])

    def turned(self) -> bool:
        """The residual remembered last points against the one before; also where it is the only one."""
        return len(self.order) < 2 or bool(self.gram[self.order[-1], self.order[-2]] < 0.0)

    def mix(self) -> bool:
        """Move the messages to the mixed point; False, with nothing done, when there is nothing to combine."""
        weights = self.weights()
        if weights is None:
            return False
        self.problem.mix(weights)
        return True

    def weights(self) -> FloatArray | None:
        """The combination w [slots + scratch] of the formula above; None when it is undefined or trivial."""
        used = np.array(self.order, dtype=np.int64)
        mixed = mixing_weights(self.gram[np.ix_(used, used)], self.regularisation)
        if mixed is None:
            return None
        weights = np.zeros(self.total)
        weights[used] = mixed
        return weights

    def restore_latest(self) -> None:
        """Take the messages back to those after the latest sweep remembered, and forget all steps."""
        if self.order:
            self.problem.restore(self.order[-1])
        self.clear()

    def forget_newest(self) -> None:
        """The step remembered last was no good."""
        self.order.pop()
