import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import blendfield as bf
from blendfield.datasets import load, pictures


@pytest.mark.parametrize("size", [10, 31, 64, (48, 96), 150])
def test_three_to_five_tenths_are_foreground(size):
    loaded = pictures.load(size)
    assert [picture.name for picture in loaded] == list(pictures.NAMES)
    for picture in loaded:
        assert picture.image.shape == (size if isinstance(size, tuple) else (size, size))
        assert picture.image.dtype == np.bool_
        assert 0.3 <= picture.image.mean() <= 0.5, picture.name


def test_the_same_picture_at_every_size():
    """Shrinking the large picture gives the small one, but for pixels on the edge of the foreground."""
    for large, small in zip(pictures.load(256), pictures.load(64), strict=True):
        shrunk = pictures.resized(large.image, (64, 64)) > 0.5
        assert np.mean(shrunk != small.image) < 0.02, large.name


def test_loads_by_name():
    again = load("pictures", size=16)
    for one, two in zip(pictures.load(16), again, strict=True):
        assert one.name == two.name
        np.testing.assert_array_equal(one.image, two.image)


def test_too_small():
    with pytest.raises(bf.BlendfieldError, match="at least 4 pixels"):
        pictures.load(3)


def test_random_places_are_flips_and_shifts():
    image = pictures.load((12, 16))[2].image
    generator = np.random.default_rng(0)
    flipped = [image[::a, ::b] for a in (1, -1) for b in (1, -1)]
    seen = set()
    for _ in range(30):
        placed = pictures.placed_at_random(image, generator)
        ways = [
            (flip, row, column)
            for flip, candidate in enumerate(flipped)
            for row in range(12)
            for column in range(16)
            if np.array_equal(np.roll(candidate, (row, column), axis=(0, 1)), placed)
        ]
        assert ways
        seen.add(ways[0])
    assert len(seen) > 20


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), st.integers(0, 99))
def test_resizing_keeps_the_mean(height, width, new_height, new_width, seed):
    image = np.random.default_rng(seed).random((height, width))
    new = pictures.resized(image, (new_height, new_width))
    assert new.shape == (new_height, new_width)
    np.testing.assert_allclose(new.mean(), image.mean(), rtol=1e-12)
    np.testing.assert_allclose(pictures.resized(np.ones((height, width)), new.shape), 1, rtol=1e-12)


def test_resizing_to_a_divisor_is_the_mean_of_blocks():
    image = np.random.default_rng(0).random((12, 8))
    np.testing.assert_allclose(pictures.resized(image, (4, 4)), image.reshape(4, 3, 4, 2).mean(axis=(1, 3)))
