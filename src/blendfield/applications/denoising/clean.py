"""A learned model at work: image files in, clean PNG files out; and the training of a model to keep."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from blendfield.applications.cells import Cell, Result, Tell
from blendfield.applications.denoising.accuracy import inputs_of
from blendfield.applications.denoising.configuration import C_GRID, DenoisingConfiguration
from blendfield.applications.denoising.methods import PREDICTION, Setting, train
from blendfield.applications.denoising.model import sample
from blendfield.applications.denoising.task import experiments
from blendfield.datasets.images import read_grey
from blendfield.errors import FileFormatError, ImageError
from blendfield.files import written_atomically
from blendfield.learning import BlendedLearner
from blendfield.reports.images import png_bytes


def kept_model(folder: Path, noise: str) -> Path:
    """Where the model for pictures of any size is."""
    return folder / f"model-{noise}.safetensors"


def noisy_example(folder: Path, noise: str) -> Path:
    """Where an image is that the model can clean."""
    return folder / f"noisy-{noise}.png"


def model_cells(configuration: DenoisingConfiguration, folder: Path) -> list[Cell]:
    """Tied weights, learned from copies of all pictures, kept in a file: one model per noise, and an image to try."""

    def cell(noise: str) -> Cell:
        path = kept_model(folder, noise)

        def work(_: Mapping[str, Result], tell: Tell) -> Result:
            groups = [experiment.training for experiment in experiments(configuration, noise, "A")]
            images = [image for group in zip(*groups, strict=True) for image in group][: len(groups[0])]
            setting = Setting(configuration.C or C_GRID[1])
            learner = train("blend", configuration, setting, "tied", images, tell)
            folder.mkdir(parents=True, exist_ok=True)
            learner.save(path)
            seen = experiments(configuration, noise, "A")[0].testing[0].seen
            _write_png(noisy_example(folder, noise), np.rint(255 * np.clip(seen, 0, 1)))
            return {"model": path.name}

        return Cell(f"model-{noise}", inputs_of(configuration, noise=noise, C=configuration.C), work, cost=4.0)

    return [cell(noise) for noise in configuration.noises]


def load_model(path: str | os.PathLike[str]) -> BlendedLearner:
    """A model of denoising; FileFormatError for any other file."""
    if not Path(path).exists():
        raise FileFormatError(f"{path}: there is no such file; expected a model of blendfield denoise")
    learner = BlendedLearner.load(path)
    if set(learner.blocks_) != {"pixel", "pair"}:
        raise FileFormatError(f"{path}: expected a model of blendfield denoise, with weights for pixels and pairs")
    return learner


def clean(learner: BlendedLearner, seen: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """The picture bool [height, width] in a noisy image [height, width]."""
    model = "tied" if learner.blocks_["pixel"].ndim == 1 else "free"
    labels = learner.predict(sample(seen, model), **PREDICTION)
    found: npt.NDArray[np.bool_] = labels.reshape(seen.shape) == 1
    return found


def clean_files(
    model: str | os.PathLike[str], images: Sequence[str | os.PathLike[str]], output: str | os.PathLike[str] | None
) -> Iterator[Path]:
    """Writes NAME-clean.png for each image, into `output` or beside it; the paths, one by one.

    All images are read before the first is cleaned: what is wrong with one is said at once.
    """
    learner = load_model(model)
    pixels = learner.blocks_["pixel"]
    seen = [read_grey(path) for path in images]
    for path, image in zip(images, seen, strict=True):
        if pixels.ndim == 2 and len(pixels) != image.size:
            height, width = image.shape
            raise ImageError(
                f"{path}: {height} x {width} pixels; this model has weights of its own for each of {len(pixels)} pixels"
            )
    targets = [Path(output or Path(path).parent) / f"{Path(path).stem}-clean.png" for path in images]
    if output is not None:
        Path(output).mkdir(parents=True, exist_ok=True)
    for target, image in zip(targets, seen, strict=True):
        _write_png(target, np.where(clean(learner, image), 255, 0))
        yield target


def _write_png(path: Path, values: npt.NDArray[np.generic]) -> None:
    """Of values from 0 to 255, [height, width]."""
    with written_atomically(path) as file:
        file.write(png_bytes(values.astype(np.uint8)))
