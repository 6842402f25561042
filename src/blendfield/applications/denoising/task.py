"""The task: noisy copies of binary pictures, split for training and testing in three ways.

A: the clean picture is the same in training and test, as in the paper; position-specific weights can store it.
B: trained on a few copies of each of the other pictures: tied weights are four numbers, and need no more.
C: every copy, for training and test, is flipped and shifted at random.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from blendfield.applications.denoising.configuration import DenoisingConfiguration
from blendfield.datasets import binary_images, pictures
from blendfield.datasets.images import image_files, read_grey
from blendfield.datasets.noise import BIMODAL, GAUSSIAN, Noise
from blendfield.datasets.pictures import Picture
from blendfield.errors import ImageError, OptionError

COPIES_OF_OTHERS = 4
"""of each other picture, to train with in protocol B"""
NOISES: dict[str, Noise] = {"gaussian": GAUSSIAN, "bimodal": BIMODAL}


@dataclass(frozen=True)
class NoisyImage:
    """seen float64 [height, width]; truth bool [height, width]."""

    seen: npt.NDArray[np.float64]
    truth: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Experiment:
    """One picture to be tested on, and what to train with."""

    picture: str
    protocol: str
    noise: str
    training: list[NoisyImage]
    testing: list[NoisyImage]


def base_pictures(configuration: DenoisingConfiguration) -> list[Picture]:
    """The clean pictures, [size, size] each: generated, of the data set, or the user's own."""
    size = configuration.size
    if configuration.images is None:
        found = pictures.load(size)
    elif configuration.images == "binary_images":
        found = binary_images.load(size)
    else:
        found = [Picture(path.stem, _binary(path, size)) for path in image_files(configuration.images)]
    if "B" in configuration.protocols and len(found) < 2:
        raise OptionError("protocol B: expected at least two pictures, one of which is held out; got one")
    return found


def _binary(path: object, size: int) -> npt.NDArray[np.bool_]:
    image = pictures.resized(read_grey(str(path)), (size, size)) > 0.5
    if image.all() or not image.any():
        raise ImageError(f"{path}: of one colour at {size} x {size} pixels; expected black and white")
    return image


def experiments(configuration: DenoisingConfiguration, noise: str, protocol: str) -> list[Experiment]:
    """One experiment per picture. The copies of a picture are the same in all protocols, but for the places of C."""
    clean = base_pictures(configuration)
    copies = [_copies(configuration, number, picture, noise, protocol) for number, picture in enumerate(clean)]
    found = []
    for number, picture in enumerate(clean):
        training = copies[number][0]
        if protocol == "B":
            training = [image for k in range(len(clean)) if k != number for image in copies[k][0][:COPIES_OF_OTHERS]]
        found.append(Experiment(picture.name, protocol, noise, training, copies[number][1]))
    return found


def _copies(
    configuration: DenoisingConfiguration, number: int, picture: Picture, noise: str, protocol: str
) -> tuple[list[NoisyImage], list[NoisyImage]]:
    """(for training, for testing): seeds depend on the picture's number, the noise and the user's seed alone."""
    kind = list(NOISES).index(noise)
    noise_generator = np.random.default_rng([configuration.seed, number, kind, 0])
    place_generator = np.random.default_rng([configuration.seed, number, kind, 1])
    images = []
    for _ in range(configuration.copies):
        truth = pictures.placed_at_random(picture.image, place_generator) if protocol == "C" else picture.image
        images.append(NoisyImage(NOISES[noise].sample(truth, noise_generator), truth))
    split = configuration.copies - configuration.testing
    return images[:split], images[split:]
