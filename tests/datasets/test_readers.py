"""The sets that are not shipped; skipped where they are absent."""

import numpy as np
import pytest

import blendfield as bf
from blendfield import datasets
from blendfield.datasets import snakes


@pytest.fixture(autouse=True)
def _needs_data(request):
    name = request.node.name.split("_")[1]
    name = {"binary": "binary_images"}.get(name, name)
    if not datasets.is_present(datasets.info(name)):
        pytest.skip(f"data set {name} is not here (BLENDFIELD_DATA)")


def test_binary_images():
    original = datasets.load("binary_images", size=None)
    small = datasets.load("binary_images", size=64)
    assert len(original) == len(small) == datasets.info("binary_images").size
    assert {picture.image.shape for picture in original} == {(150, 150), (32, 32)}
    for large, little in zip(original, small, strict=True):
        assert little.image.shape == (64, 64)
        assert little.image.dtype == np.bool_
        assert little.image.mean() == pytest.approx(large.image.mean(), abs=0.02)


def test_letters():
    words = datasets.load("letters")
    assert len(words) == datasets.info("letters").size
    assert sum(len(word.labels) for word in words) == 52152
    assert {word.fold for word in words} == set(range(10))
    text = "".join(chr(ord("a") + label) for label in words[0].labels)
    assert text == "ommanding"  # the capital is missing upstream
    for word in words[:50]:
        assert word.pixels.shape == (len(word.labels), 16, 8)
        assert word.pixels.dtype == np.bool_


def test_snakes():
    """What the module says about colours and labels holds for every cell of every snake."""
    assert sum(len(datasets.load("snakes", split=split)) for split in ("train", "test")) == 300
    for split in ("train", "test"):
        for directions, labels in datasets.load("snakes", split=split):
            np.testing.assert_array_equal(directions == snakes.BACKGROUND, labels == 0)
            for k in range(1, 10):
                (here,), (there,) = np.argwhere(labels == k), np.argwhere(labels == k + 1)
                np.testing.assert_array_equal(here + snakes.STEPS[directions[tuple(here)]], there)
    with pytest.raises(bf.OptionError, match="split"):
        datasets.load("snakes", split="dev")


def test_snakes_features():
    directions = datasets.load("snakes")[0].directions
    features = snakes.window_features(directions)
    height, width = directions.shape
    assert features.shape == (height * width, 45)
    np.testing.assert_array_equal(features.sum(axis=1), 9)
    padded = np.pad(directions, 1)
    for row, column, down, right in ((0, 0, 0, 0), (2, 3, 2, 1), (height - 1, width - 1, 2, 2)):
        direction = padded[row + down, column + right]
        assert features[row * width + column, 5 * (3 * down + right) + direction] == 1


def test_conll2000():
    train, test = (datasets.load("conll2000", split=split) for split in ("train", "test"))
    assert (len(train), len(test)) == (8936, 2012)
    assert sum(len(sentence.words) for sentence in train) == 211727
    assert train[0].words[:3] == ["Confidence", "in", "the"]
    labels = [{chunk for sentence in split for chunk in sentence.chunks} for split in (train, test)]
    assert len(labels[1] - labels[0]) == 1
