"""Grey pictures from the user's image files, read by Pillow."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import numpy.typing as npt

from blendfield.errors import ImageError, OptionError
from blendfield.extras import needed

SUFFIXES = (".png", ".bmp", ".gif", ".jpg", ".jpeg", ".pgm", ".pbm", ".ppm", ".tif", ".tiff", ".webp")
MOST_PIXELS = 1 << 24
_USABLE = ("1", "L", "P", "RGB")


def read_grey(path: str | os.PathLike[str]) -> npt.NDArray[np.float64]:
    """float64 [height, width], 0 black to 1 white: an opaque picture of 8 bits per channel, colours made grey.

    ImageError, one line that begins with the path, for everything else, and for pictures of one single value.
    """
    image_module = needed("PIL.Image", "images", "reading images")
    source = Path(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of size; it is checked here
            with image_module.open(source) as image:
                width, height = image.size
                if width * height > MOST_PIXELS:
                    raise ImageError(f"{source}: {width} x {height} pixels; expected at most {MOST_PIXELS:,}")
                if image.mode not in _USABLE or "transparency" in image.info:
                    raise ImageError(f"{source}: {_kind(image.mode)}; expected opaque grey or RGB, 8 bits per channel")
                values = np.asarray(image.convert("L"), np.float64) / 255
    except ImageError:
        raise
    except FileNotFoundError:
        raise ImageError(f"{source}: there is no such file") from None
    except IsADirectoryError:
        raise ImageError(f"{source}: a folder; expected an image") from None
    except PermissionError:
        raise ImageError(f"{source}: may not be read (permission denied)") from None
    except image_module.DecompressionBombError:
        raise ImageError(f"{source}: too large; expected at most {MOST_PIXELS:,} pixels") from None
    except Exception as fault:  # whatever a damaged file makes a decoder do
        if source.stat().st_size == 0:
            raise ImageError(f"{source}: the file is empty; expected an image") from None
        why = "not an image" if isinstance(fault, image_module.UnidentifiedImageError) else "damaged"
        raise ImageError(f"{source}: {why}; expected an image such as PNG") from None
    if values.size == 0:
        raise ImageError(f"{source}: no pixels; expected an image")
    if values.min() == values.max():
        raise ImageError(f"{source}: every pixel has the same colour; expected a picture of two colours or more")
    return values


def image_files(folder: str | os.PathLike[str]) -> list[Path]:
    """The image files of a folder (by their suffixes) in the order of their names; at least one."""
    place = Path(folder)
    try:
        found = sorted(path for path in place.iterdir() if path.suffix.lower() in SUFFIXES and path.is_file())
    except OSError as fault:
        raise OptionError(f"{place}: expected a folder of images ({fault.strerror or 'cannot be read'})") from None
    if not found:
        raise OptionError(f"{place}: expected a folder of images, but there is no file {', '.join(SUFFIXES[:4])} ...")
    return found


def _kind(mode: str) -> str:
    if mode in ("RGBA", "LA", "PA", "La", "RGBa", "P", "L", "RGB"):
        return f"has transparency ({mode})"
    if mode.startswith("I"):
        return "has 16 or more bits per pixel"
    return f"is of the kind {mode}"
