"""Grey images in records, as PNG bytes and as arrays."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import numpy.typing as npt

from blendfield.reports.record import GreyImage


def grey_image(values: npt.NDArray[np.generic], lowest: float = 0.0, highest: float = 1.0) -> GreyImage:
    """An image of the [height, width] values: `lowest` and below black, `highest` and above white."""
    scaled = (np.asarray(values, np.float64) - lowest) * (255 / (highest - lowest))
    return GreyImage([bytes(row).hex() for row in np.clip(np.rint(scaled), 0, 255).astype(np.uint8)])


def pixels_of(image: GreyImage) -> npt.NDArray[np.uint8]:
    """uint8 [height, width]."""
    return np.array([list(bytes.fromhex(row)) for row in image.pixels], np.uint8)


def png_bytes(pixels: npt.NDArray[np.uint8]) -> bytes:
    """The 8-bit grey PNG file of a uint8 [height, width] image."""
    height, width = pixels.shape
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)  # filter 0: as it is
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
