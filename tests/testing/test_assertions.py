import numpy as np
import pytest

from blendfield.testing import assert_close


def test_close_values_pass() -> None:
    assert_close([1.0, -np.inf, np.inf], [1.0 + 1e-12, -np.inf, np.inf], 1e-9)
    assert_close([100.0, 1e-9], [100.0, 0.0], 1e-9)  # relative to the largest entry
    assert_close(-np.inf, -np.inf, 0.0)
    assert_close([], [], 0.0)


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (np.nan, np.nan),
        ([np.nan, 1.0], [0.0, 1.0]),
        ([0.0, 1.0], [np.nan, 1.0]),
        (np.inf, -np.inf),
        (-np.inf, 0.0),
        (0.0, -np.inf),
        ([1.0, 2.0], [1.0, 2.1]),
        ([1.0], [1.0, 1.0]),
        ([[1.0]], [1.0]),
    ],
)
def test_all_else_fails(actual: object, expected: object) -> None:
    with pytest.raises(AssertionError, match="the thing"):
        assert_close(actual, expected, 1e-6, "the thing")
