"""Four binary pictures, generated: the same picture at every size, three to five tenths of it foreground.

They are defined on the unit square and sampled at the centres of the pixels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from blendfield.datasets.catalogue import DatasetInfo
from blendfield.errors import OptionError

BoolImage = npt.NDArray[np.bool_]
FloatImage = npt.NDArray[np.float64]

INFO = DatasetInfo(
    name="pictures",
    title="four generated binary pictures: disc and bar, rings, letters, blobs",
    size=4,
    licence="MIT (part of blendfield)",
    citation="blendfield (CITATION.cff)",
)
SMALLEST = 4


class Picture(NamedTuple):
    """name; image bool [height, width], True is foreground."""

    name: str
    image: BoolImage


def load(size: int | tuple[int, int] = 64) -> list[Picture]:
    """The four pictures with `size` pixels a side, or (height, width)."""
    height, width = (size, size) if isinstance(size, int) else size
    if min(height, width) < SMALLEST:
        raise OptionError(f"size: expected at least {SMALLEST} pixels a side, got {height} x {width}")
    y, x = np.meshgrid((np.arange(height) + 0.5) / height, (np.arange(width) + 0.5) / width, indexing="ij")
    return [Picture(name, draw(y, x)) for name, draw in _PAINTERS.items()]


def placed_at_random(image: BoolImage, generator: np.random.Generator) -> BoolImage:
    """The picture flipped (each axis with probability 1/2) and shifted by any number of pixels, around the edges.

    Every shift is equally likely, so the foreground probability of a pixel is the same everywhere.
    """
    flips = [slice(None, None, 1 - 2 * int(flip)) for flip in generator.integers(2, size=2)]
    shifts = [int(generator.integers(length)) for length in image.shape]
    return np.roll(image[tuple(flips)], shifts, axis=(0, 1))


def resized(image: npt.NDArray[np.generic], shape: tuple[int, int]) -> FloatImage:
    """Mean of the [height, width] image over the area of every new pixel, float64 [shape]."""
    rows, columns = (_area_weights(old, new) for old, new in zip(image.shape, shape, strict=True))
    return np.asarray(rows @ image.astype(np.float64) @ columns.T, np.float64)


def _area_weights(old: int, new: int) -> FloatImage:
    """[new, old]: the share of every old pixel in a new one; rows sum to one."""
    edges = np.arange(new + 1) * (old / new)
    overlap = np.minimum(edges[1:, None], np.arange(1, old + 1)) - np.maximum(edges[:-1, None], np.arange(old))
    return np.asarray(np.maximum(overlap, 0) * (new / old), np.float64)


def _disc_and_bar(y: FloatImage, x: FloatImage) -> BoolImage:
    disc = np.hypot(y - 0.42, x - 0.38) < 0.29
    bar = (abs(x - 0.82) < 0.08) & (abs(y - 0.5) < 0.42)
    return np.asarray(disc | bar)


def _rings(y: FloatImage, x: FloatImage) -> BoolImage:
    radius = np.hypot(y - 0.5, x - 0.5)
    return (radius < 0.09) | ((radius > 0.19) & (radius < 0.29)) | ((radius > 0.37) & (radius < 0.46))


_STROKES = (  # (y, x) of both ends: the letters K and Z
    ((0.12, 0.12), (0.88, 0.12)),
    ((0.12, 0.42), (0.50, 0.14)),
    ((0.50, 0.14), (0.88, 0.42)),
    ((0.12, 0.58), (0.12, 0.88)),
    ((0.12, 0.88), (0.88, 0.58)),
    ((0.88, 0.58), (0.88, 0.88)),
)
_HALF_STROKE = 0.062


def _letters(y: FloatImage, x: FloatImage) -> BoolImage:
    return np.asarray(np.min([_distance(y, x, *stroke) for stroke in _STROKES], axis=0) < _HALF_STROKE)


def _distance(y: FloatImage, x: FloatImage, start: tuple[float, float], end: tuple[float, float]) -> FloatImage:
    """From every point to the segment between start and end."""
    along = (end[0] - start[0], end[1] - start[1])
    share = ((y - start[0]) * along[0] + (x - start[1]) * along[1]) / (along[0] ** 2 + along[1] ** 2)
    share = np.clip(share, 0, 1)
    return np.asarray(np.hypot(y - start[0] - share * along[0], x - start[1] - share * along[1]), np.float64)


_WAVES = 40
_WAVE_SEED = 11


def _blobs(y: FloatImage, x: FloatImage) -> BoolImage:
    """Smooth noise (waves of random direction and phase, whatever the size) above its 0.6 quantile."""
    generator = np.random.default_rng(_WAVE_SEED)
    frequency = generator.normal(0, 2.2, (_WAVES, 2))
    phase = generator.uniform(0, 1, _WAVES)
    noise = np.zeros_like(y)
    for (along_y, along_x), shift in zip(frequency, phase, strict=True):
        noise += np.cos(2 * np.pi * (along_y * y + along_x * x + shift))
    return np.asarray(noise > np.quantile(noise, 0.6))


_PAINTERS: dict[str, Callable[[FloatImage, FloatImage], BoolImage]] = {
    "disc and bar": _disc_and_bar,
    "rings": _rings,
    "letters": _letters,
    "blobs": _blobs,
}
NAMES = tuple(_PAINTERS)
