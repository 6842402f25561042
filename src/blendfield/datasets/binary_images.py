"""Eight real binary pictures: stand-ins for the four of Kumar and Hebert, which cannot be obtained.

The objects are dark: True is the white around them.
"""

from __future__ import annotations

import numpy as np

from blendfield.datasets.catalogue import DataFile, DatasetInfo, find, read_arrays
from blendfield.datasets.pictures import Picture, resized
from blendfield.errors import OptionError

INFO = DatasetInfo(
    name="binary_images",
    title="eight real binary pictures (bottles, chair, flower, dog, piano, spider, tree, cross)",
    size=8,
    licence="MIT / none stated",
    citation="Binary pictures of public denoising exercises, 150 x 150 and 32 x 32; authors not stated",
    files=(
        DataFile("binary_images/binary_images.npz", "687f6b2362c63749bb6dc7ef25540c190ec6ff94ca3ab6dad2ead2ad2a266365"),
    ),
)
_NAMES = ("bottles", "chair", "flower", "dog", "piano", "spider", "tree")


def load(size: int | None = 64) -> list[Picture]:
    """The pictures with `size` pixels a side (mean over the area of a pixel, above one half); None: as they are."""
    if size is not None and size < 1:
        raise OptionError(f"size: expected at least 1 pixel a side, got {size}")
    large, cross = read_arrays(find(INFO), ("binaryImages_7x150x150", "ximg_32x32"))
    pictures = [*zip(_NAMES, large, strict=True), ("cross", cross)]
    if size is None:
        return [Picture(name, image.astype(np.bool_)) for name, image in pictures]
    return [Picture(name, resized(image, (size, size)) > 0.5) for name, image in pictures]
