"""The model: an Ising grid whose weights are free (one set per pixel and pair) or tied (one for all)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from blendfield.applications.denoising.task import NoisyImage
from blendfield.graph import RegionGraph, grid_graph
from blendfield.model import FreeWeights, Sample, TableFeatures

FOREGROUND = np.array([0.0, 1.0])
ISING = np.array([[1.0, -1.0], [-1.0, 1.0]])


def samples(images: Sequence[NoisyImage], model: str, loss: bool = True) -> list[Sample]:
    """Labelled samples; variable row * width + column is the pixel, label 1 is foreground."""
    return [sample(image.seen, model, image.truth, loss) for image in images]


def sample(
    seen: npt.NDArray[np.float64], model: str, truth: npt.NDArray[np.bool_] | None = None, loss: bool = True
) -> Sample:
    """One image [height, width] as a sample, unlabelled without `truth`.

    Score of foreground at pixel i: a_i + b_i x_i. Score of a pair ij of neighbours, the same labels against
    different ones: e_ij [1, -1; -1, 1] with free weights; (e + f |x_i - x_j|) [1, -1; -1, 1] with tied ones.
    Blocks: "pixel" (a, b) and "pair" (e, f), [n, 2] and [n, 1] free, [2] and [2] tied.
    """
    graph, pairs = _grid(*seen.shape)
    x = seen.ravel()
    pixel_regions, pair_regions = np.arange(graph.num_given, graph.num_regions), np.arange(graph.num_given)
    pixel_values = np.stack([np.ones_like(x), x], axis=1)
    if model == "free":
        features: list[FreeWeights | TableFeatures] = [
            FreeWeights("pixel", pixel_regions, [FOREGROUND, FOREGROUND], pixel_values),
            FreeWeights("pair", pair_regions, [ISING]),
        ]
    else:
        contrast = np.abs(x[pairs[:, 0]] - x[pairs[:, 1]])
        pair_values = np.stack([np.ones_like(contrast), contrast], axis=1)
        features = [
            TableFeatures("pixel", pixel_regions, [FOREGROUND, FOREGROUND], pixel_values),
            TableFeatures("pair", pair_regions, [ISING, ISING], pair_values),
        ]
    labels = None if truth is None else truth.ravel().astype(np.int64)
    return Sample(graph, features, labels, loss="hamming" if loss else None)


@lru_cache(maxsize=8)
def _grid(height: int, width: int) -> tuple[RegionGraph, npt.NDArray[np.int32]]:
    """(graph, both pixels of every pair [pairs, 2]); all images of a size share one."""
    graph = grid_graph((height, width), 2)
    pairs = graph.region_variables[: 2 * graph.num_given].reshape(-1, 2)
    return graph, pairs
