"""Concave quadratic functions on a simplex, of few variables."""

from __future__ import annotations

import numpy as np

from blendfield.backends.protocol import FloatArray


def solve_simplex(
    products: FloatArray, heights: FloatArray, start: FloatArray, precision: float, most: int | None = None
) -> FloatArray:
    """argmax over the simplex of a.h - a.G.a / 2, float64 [m], from `start`: pairs of entries by turns.

    The pair is the steepest entry and that of the others which gains most; stops when max_j grad_j - a.grad, a bound of
    what is missing, is at most `precision`, or nothing moves, or after `most` pairs.
    """
    a = start.copy()
    gradient = heights - products @ a
    diagonal = np.diag(products)
    for _ in range(100 * len(a) ** 2 + 1000 if most is None else most):
        up = int(gradient.argmax())
        if gradient[up] - a @ gradient <= precision:
            break
        curvature = np.maximum(diagonal + diagonal[up] - 2.0 * products[up], 1e-300)
        slope = gradient[up] - gradient
        step = np.minimum(slope / curvature, a)
        step[up] = 0.0
        gain = step * (slope - 0.5 * curvature * step)
        down = int(gain.argmax())
        if not step[down] > 0:
            break
        moved = float(step[down])
        a[up] += moved
        a[down] -= moved
        gradient -= moved * (products[up] - products[down])
    return a
