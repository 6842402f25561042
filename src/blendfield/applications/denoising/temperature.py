"""The small studies on 10 x 10 pixels: temperatures in training and prediction, exact likelihood, shared weights.

Ten noisy images of one picture to train with and ten to test on; every pixel is flipped with probability 0.2. The
model has no biases: with them the free weights of a pixel would store its label, and nothing would be left to see.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield.applications.cells import Cell, Result, Tell, finite
from blendfield.applications.denoising.configuration import DenoisingConfiguration
from blendfield.applications.denoising.methods import finished
from blendfield.applications.denoising.model import ISING, samples
from blendfield.applications.denoising.task import NoisyImage
from blendfield.datasets import pictures
from blendfield.datasets.noise import FlipNoise
from blendfield.graph import grid_graph
from blendfield.learning import BlendedLearner, GradientTrainer
from blendfield.model import FreeWeights, Sample, TableFeatures

SIZE = 10
COPIES = 10
PICTURE = "disc and bar"
NOISE = FlipNoise(0.2)
TEMPERATURES = (1.0, 0.5, 0.01, 0.0)
EXACT_TEMPERATURES = (1.0, 0.5)
COUNTING_NUMBERS = ("cover", "ones")
TOLERANCE = 5e-6
MAX_ITERATIONS = 3000
SIGN = np.array([-1.0, 1.0])
MODELS = {
    "free": "a weight per pixel and pair",
    "tied": "one weight for all pixels, one for all pairs",
    "free-bias": "free, and a bias per pixel",
    "tied-bias": "tied, with bias and contrast",
}


def small_images(seed: int) -> tuple[list[NoisyImage], list[NoisyImage]]:
    """(for training, for testing)."""
    picture = next(picture for picture in pictures.load(SIZE) if picture.name == PICTURE)
    generator = np.random.default_rng([seed, SIZE])
    images = [NoisyImage(NOISE.sample(picture.image, generator), picture.image) for _ in range(2 * COPIES)]
    return images[:COPIES], images[COPIES:]


def small_samples(images: list[NoisyImage], model: str, loss: bool = True) -> list[Sample]:
    """Samples of one of MODELS. Without bias: score w_i y_i x_i at pixels and e_ij y_i y_j at pairs, all signs +-1."""
    if model.endswith("-bias"):
        return samples(images, model.removesuffix("-bias"), loss)
    kind = FreeWeights if model == "free" else TableFeatures
    graph = grid_graph((SIZE, SIZE), 2)
    singles, pairs = np.arange(graph.num_given, graph.num_regions), np.arange(graph.num_given)

    def sample(image: NoisyImage) -> Sample:
        signs: npt.NDArray[np.float64] = 2 * image.seen.reshape(-1, 1) - 1
        features = [kind("pixel", singles, [SIGN], signs), kind("pair", pairs, [ISING])]
        return Sample(graph, features, image.truth.ravel().astype(np.int64), "hamming" if loss else None)

    return [sample(image) for image in images]


def temperature_cells(configuration: DenoisingConfiguration) -> list[Cell]:
    """Trained at every temperature, predicted at every temperature; then by exact likelihood."""
    cells = []
    for numbers in COUNTING_NUMBERS:
        for epsilon in TEMPERATURES:
            cells.append(_cell(configuration, blend_name(numbers, epsilon), "free", epsilon, numbers))
    for epsilon in EXACT_TEMPERATURES:
        cells.append(_cell(configuration, exact_name(epsilon), "free", epsilon, None))
    return cells


def sharing_cells(configuration: DenoisingConfiguration) -> list[Cell]:
    """Free weights against tied ones on the same images, without biases and with them."""
    numbers = configuration.counting_numbers
    return [_cell(configuration, f"sharing-{model}", model, 1.0, numbers) for model in MODELS]


def blend_name(counting_numbers: str, epsilon: float) -> str:
    """Of the cell."""
    return f"temperature-{counting_numbers}-{epsilon:g}"


def exact_name(epsilon: float) -> str:
    """Of the cell."""
    return f"temperature-exact-{epsilon:g}"


def _cell(
    configuration: DenoisingConfiguration, name: str, model: str, epsilon: float, counting_numbers: str | None
) -> Cell:
    """`counting_numbers` None: exact likelihood, exact prediction."""

    def work(_: Mapping[str, Result], tell: Tell) -> Result:
        training, testing = small_images(configuration.seed)
        learner: Any = _learner(configuration, epsilon, counting_numbers, tell)
        finished(learner.fit(small_samples(training, model, configuration.loss and counting_numbers is not None)))
        history = {key: finite(values) for key, values in learner.history_.items()}
        found = {
            f"{hot:g}": [_wrong(learner, model, images, hot, counting_numbers) for images in (testing, training)]
            for hot in TEMPERATURES
        }
        primal = history.get("primal") or history["objective"]
        dual = getattr(learner, "dual_", None)
        return {
            "weights": len(learner.weights_),
            "wrong": {hot: wrong[0] for hot, wrong in found.items()},
            "wrong_in_training": {hot: wrong[1] for hot, wrong in found.items()},
            "primal": primal[-1],
            "dual": dual,
            "relative_gap": None if dual is None else learner.gap_ / max(1.0, abs(learner.primal_)),
            "iterations": learner.n_iter_,
            "training_seconds": history["seconds"][-1],
            "stopped": learner.stop_reason_,
            "history": history,
        }

    inputs = {"seed": configuration.seed, "loss": configuration.loss, "C": configuration.C or 1.0}
    return Cell(name, inputs, work, cost=4.0 if epsilon == 0 or counting_numbers is None else 1.0)


def _learner(configuration: DenoisingConfiguration, epsilon: float, counting_numbers: str | None, tell: Tell) -> Any:
    def callback(progress: Any) -> None:
        tell(f"iteration {progress.iteration}")

    if counting_numbers is None:
        return GradientTrainer(
            "exact", "lbfgs", epsilon, configuration.C or 1.0, tolerance=1e-6, max_iterations=300, callback=callback
        )
    return BlendedLearner(
        epsilon,
        configuration.C or 1.0,
        counting_numbers,
        tolerance=TOLERANCE,
        max_iterations=MAX_ITERATIONS,
        threads=configuration.threads,
        backend=configuration.backend,
        callback=callback,
    )


def _wrong(learner: Any, model: str, images: list[NoisyImage], epsilon: float, counting_numbers: str | None) -> int:
    """Wrong pixels of all images, predicted at this temperature; exact models by exact marginals (or maxima)."""
    options: dict[str, Any] = {"epsilon": epsilon}
    labels = learner.predict(small_samples(images, model), decode="map" if epsilon == 0 else "beliefs", **options)
    return int(sum(np.sum(found != image.truth.ravel()) for found, image in zip(labels, images, strict=True)))
