"""Predictors without a model of neighbours, and the error that all are measured by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from blendfield.applications.denoising.task import NOISES, Experiment

BoolImages = list[npt.NDArray[np.bool_]]


def error_percent(predicted: Sequence[npt.NDArray[np.generic]], truth: Sequence[npt.NDArray[np.generic]]) -> float:
    """Wrong pixels in percent, mean over the images."""
    pairs = zip(predicted, truth, strict=True)
    return float(100 * np.mean([np.mean(found.astype(bool) != wanted.astype(bool)) for found, wanted in pairs]))


def threshold(experiment: Experiment) -> BoolImages:
    """Foreground above the one threshold that makes the fewest errors in training."""
    seen = np.concatenate([image.seen.ravel() for image in experiment.training])
    truth = np.concatenate([image.truth.ravel() for image in experiment.training])
    order = np.argsort(seen)
    # Errors when the first k values are background: foreground among them, background among the rest.
    foreground = np.concatenate([[0], np.cumsum(truth[order])])
    background = np.arange(len(order) + 1) - foreground
    errors = foreground + (background[-1] - background)
    best = int(np.argmin(errors))
    if best == 0:
        border = -np.inf
    elif best == len(order):
        border = np.inf
    else:
        border = float(seen[order[best - 1 : best + 1]].mean())
    return [image.seen > border for image in experiment.testing]


def per_pixel_bayes(experiment: Experiment) -> BoolImages:
    """The likelier label of each pixel under the true noise and the share of foreground in training."""
    share = np.mean([image.truth.mean() for image in experiment.training])
    prior = np.log([1 - share, share])
    noise = NOISES[experiment.noise]
    return [np.argmax(noise.log_likelihood(image.seen) + prior, axis=-1) == 1 for image in experiment.testing]


def majority(experiment: Experiment) -> BoolImages:
    """The label that this pixel mostly had in training, whatever is seen."""
    share = np.mean([image.truth for image in experiment.training], axis=0)
    return [share > 0.5 for _ in experiment.testing]
