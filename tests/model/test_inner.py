"""Inner products without BLAS."""

import numpy as np

from blendfield.model.inner import inner, inner_products


def test_inner_products():
    rng = np.random.default_rng(0)
    rows, others = rng.normal(size=(3, 20_000)), rng.normal(size=(2, 20_000))
    expected = [[sum((a * b).tolist()) for b in others] for a in rows]
    np.testing.assert_allclose(inner_products(rows, others), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(inner(rows[0], others[1]), expected[0][1], rtol=1e-9, atol=1e-9)
    assert isinstance(inner(rows[0], others[0]), float)
