"""A comparison that NaN cannot pass."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def assert_close(actual: npt.ArrayLike, expected: npt.ArrayLike, tolerance: float, what: str = "value") -> None:
    """Same shape, same infinities, no NaN; |actual - expected| <= tolerance * max(1, largest |expected|) everywhere.

    The scale is that of the whole array: small entries next to large ones carry the rounding of the large ones.
    """
    actual, expected = np.asarray(actual, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    if actual.shape != expected.shape:
        raise AssertionError(f"{what}: shape {actual.shape}, expected {expected.shape}")
    if np.isnan(actual).any() or np.isnan(expected).any():
        raise AssertionError(f"{what}: NaN in {'actual' if np.isnan(actual).any() else 'expected'}")
    finite = np.isfinite(expected)
    if not np.array_equal(np.where(finite, 0.0, expected), np.where(np.isfinite(actual), 0.0, actual)):
        raise AssertionError(f"{what}: infinities differ, {actual} against {expected}")
    if not finite.any():
        return
    difference = np.abs(actual[finite] - expected[finite])
    allowed = tolerance * max(1.0, float(np.abs(expected[finite]).max()))
    if not difference.max() <= allowed:
        raise AssertionError(f"{what}: differs by {difference.max():.3e}, allowed {allowed:.3e}")
