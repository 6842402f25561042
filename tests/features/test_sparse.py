"""Sparse features times dense matrices."""

import numpy as np
import pytest
from scipy.sparse import random_array

from blendfield import _core
from blendfield.model.sparse import SparseRows


@pytest.mark.parametrize("labels", [1, 2, 7, 8, 22, 26, 33, 70])
@pytest.mark.parametrize("rows", [0, 1, 7000])
def test_as_scipy_has_it(labels, rows):
    rng = np.random.default_rng(labels)
    matrix = random_array((rows, 50), density=0.1, format="csr", rng=rng)
    dense = rng.standard_normal((labels, 50))
    one, two = SparseRows(matrix, 1), SparseRows(matrix, 2)
    found = one.times(dense)
    np.testing.assert_allclose(found, matrix @ dense.T, atol=1e-13)
    np.testing.assert_array_equal(found, two.times(dense))
    back = rng.standard_normal((labels, rows))
    for squared, other in ((False, matrix), (True, matrix.power(2))):
        found = one.transposed_times(back, squared)
        np.testing.assert_allclose(found, other.T @ back.T, atol=1e-12)
        np.testing.assert_array_equal(found, two.transposed_times(back, squared))


def test_what_does_not_fit_is_refused():
    indptr, indices, data = np.array([0, 1, 2]), np.array([0, 3], np.int32), np.ones(2)
    dense, out = np.ones((4, 8)), np.zeros((2, 8))
    _core.sparse_product(indptr, indices, data, dense, out)
    np.testing.assert_array_equal(out, 1.0)
    for changed in (
        {"indices": np.array([0, 4], np.int32)},
        {"indices": np.array([-1, 0], np.int32)},
        {"indptr": np.array([0, 2, 1])},
        {"indptr": np.array([1, 1, 2])},
        {"indptr": np.array([0, 1, 3])},
        {"indptr": np.zeros(0, np.int64)},
        {"data": np.ones(3)},
        {"dense": np.ones((4, 7)), "out": np.zeros((2, 7))},
        {"out": np.zeros((3, 8))},
    ):
        arguments = {"indptr": indptr, "indices": indices, "data": data, "dense": dense, "out": out, **changed}
        with pytest.raises(ValueError, match="expected rows within the matrix"):
            _core.sparse_product(*arguments.values())
        swapped = {**arguments, "dense": arguments["out"], "out": arguments["dense"]}
        with pytest.raises(ValueError, match="expected rows within the matrix"):
            _core.sparse_transposed_product(*swapped.values())
