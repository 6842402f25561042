"""The best mixture of certificates."""

import numpy as np
import pytest
from scipy.optimize import minimize

from blendfield.learning.dual import RECENT, DualPoint
from blendfield.learning.regularisers import Regulariser
from blendfield.learning.simplex import solve_simplex


def regulariser(strength, sparsity=0.0):
    size = len(strength)
    return Regulariser(strength, np.full(size, sparsity), np.full(size, -np.inf), np.full(size, np.inf))


@pytest.mark.parametrize("sparsity", [0.0, 0.1])
def test_the_value_is_that_of_the_mixture_and_never_falls(sparsity):
    rng = np.random.default_rng(0)
    own = regulariser(rng.uniform(0.5, 2.0, 6), sparsity)
    point = DualPoint(own, 6)
    values = []
    for number in range(3 * RECENT):
        point.add(float(rng.uniform(0, 3)), rng.standard_normal(6))
        values.append(point.value)
        assert point.value == pytest.approx(point.height - own.conjugate(-point.moments), rel=1e-12)
        if number == RECENT:
            point.forget()
    assert (np.diff(values) >= 0).all()


def test_few_certificates_are_mixed_as_well_as_can_be():
    rng = np.random.default_rng(1)
    own = regulariser(rng.uniform(0.5, 2.0, 6))
    heights, moments = rng.uniform(0, 3, 4), rng.standard_normal((4, 6))
    point = DualPoint(own, 6)
    for height, z in zip(heights, moments, strict=True):
        point.add(float(height), z)

    def negative(a):
        return -(a @ heights - own.conjugate(-(a @ moments)))

    bounds, whole = [(0, 1)] * 4, {"type": "ineq", "fun": lambda a: 1 - a.sum()}
    best = minimize(negative, np.full(4, 0.2), bounds=bounds, constraints=whole, options={"ftol": 1e-14}).fun
    assert point.value == pytest.approx(-best, rel=1e-9)


def test_certificates_that_say_nothing_change_nothing():
    point = DualPoint(regulariser(np.ones(2)), 2)
    point.add(1.0, np.array([0.1, 0.0]))
    before = point.value
    for height, z in ((np.inf, np.zeros(2)), (np.nan, np.zeros(2)), (1.0, np.array([np.nan, 0.0])), (-5.0, np.ones(2))):
        point.add(height, z)
        assert point.value == before


def test_the_simplex_problem_stops_where_it_is_told():
    rng = np.random.default_rng(2)
    z = rng.standard_normal((8, 20))
    products, heights, start = z @ z.T, rng.uniform(0, 5, 8), np.eye(8)[0]

    def value(a):
        return a @ heights - 0.5 * a @ products @ a

    few, many = solve_simplex(products, heights, start, 0.0, 2), solve_simplex(products, heights, start, 1e-12)
    gradient = heights - products @ many
    assert gradient.max() - many @ gradient <= 1e-12
    assert value(start) < value(few) < value(many)
    assert few.sum() == pytest.approx(1)
