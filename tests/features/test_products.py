"""Features times dense matrices."""

import numpy as np
import pytest
from scipy.sparse import random_array

from blendfield import _core
from blendfield.model.feature_rows import FeatureRows


@pytest.mark.parametrize("labels", [1, 2, 7, 8, 22, 26, 33, 70])
@pytest.mark.parametrize("rows", [0, 1, 3000])
def test_as_numpy_has_it(labels, rows):
    rng = np.random.default_rng(labels)
    sparse = random_array((rows, 50), density=0.1, format="csr", rng=rng)
    there, back = rng.standard_normal((50, labels)), rng.standard_normal((labels, rows)).T
    for matrix in (sparse, sparse.toarray(), rng.standard_normal((rows, 3))):
        whole = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
        features, own = FeatureRows(matrix), there[: whole.shape[1]]
        found = features.times(own, 1)
        np.testing.assert_allclose(found, whole @ own, atol=1e-12)
        np.testing.assert_array_equal(found, features.times(own, 2))
        for squared in (False, True):
            found = features.transposed_times(back, 1, squared)
            np.testing.assert_allclose(found, (whole**2 if squared else whole).T @ back, atol=1e-10)
            np.testing.assert_array_equal(found, features.transposed_times(back, 2, squared))


def test_what_does_not_fit_is_refused():
    indptr, indices, data = np.array([0, 1, 2]), np.array([0, 3], np.int32), np.ones(2)
    dense, out = np.ones((4, 8)), np.zeros((2, 8))
    _core.features_product(indptr, indices, data, dense, out)
    np.testing.assert_array_equal(out, 1.0)
    for changed in (
        {"indices": np.array([0, 4], np.int32)},
        {"indices": np.array([-1, 0], np.int32)},
        {"indptr": np.array([0, 2, 1])},
        {"indptr": np.array([1, 1, 2])},
        {"indptr": np.array([0, 1, 3])},
        {"indptr": np.zeros(0, np.int64)},
        {"indptr": None},
        {"indptr": None, "indices": None},
        {"data": np.ones(3)},
        {"dense": np.ones((4, 7)), "out": np.zeros((2, 7))},
        {"dense": np.ones((4, 16))},
        {"out": np.zeros((3, 8))},
    ):
        own = {"indptr": indptr, "indices": indices, "data": data, "dense": dense, "out": out, **changed}
        rows = own["indptr"], own["indices"], own["data"]
        with pytest.raises(ValueError, match=r"expected (features in rows|dense matrices)"):
            _core.features_product(*rows, own["dense"], own["out"])
        with pytest.raises(ValueError, match=r"expected (features in rows|dense matrices)"):
            _core.features_transposed_product(*rows, False, own["out"], own["dense"])
