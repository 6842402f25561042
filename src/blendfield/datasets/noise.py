"""Noise on binary pictures: what is seen at a pixel depends on its label alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class MixtureNoise:
    """Per label an equal mixture of normal distributions.

    means, deviations: one tuple per label (0 and 1), one entry per component of its mixture.
    """

    name: str
    means: tuple[tuple[float, ...], tuple[float, ...]]
    deviations: tuple[tuple[float, ...], tuple[float, ...]]

    def sample(self, labels: npt.NDArray[np.generic], generator: np.random.Generator) -> Floats:
        """What is seen of the labels (0 or 1, any shape): float64, the same shape."""
        label = labels.astype(np.int64)
        component = generator.integers(len(self.means[0]), size=label.shape)
        mean, deviation = np.array(self.means)[label, component], np.array(self.deviations)[label, component]
        return np.asarray(mean + deviation * generator.standard_normal(label.shape), np.float64)

    def log_likelihood(self, seen: Floats) -> Floats:
        """log p(seen | label), natural: float64 [*shape of seen, 2]."""
        means, deviations = np.array(self.means), np.array(self.deviations)  # [2, components]
        standardised = (seen[..., None, None] - means) / deviations
        log_density = -0.5 * standardised**2 - np.log(deviations * np.sqrt(2 * np.pi))
        return np.asarray(np.logaddexp.reduce(log_density, axis=-1) - np.log(means.shape[1]), np.float64)


@dataclass(frozen=True)
class FlipNoise:
    """The label itself, flipped with the given probability."""

    probability: float
    name: str = "flips"

    def sample(self, labels: npt.NDArray[np.generic], generator: np.random.Generator) -> Floats:
        """What is seen of the labels (0 or 1, any shape): float64 0 or 1, the same shape."""
        flipped = generator.random(labels.shape) < self.probability
        return np.asarray(labels.astype(bool) ^ flipped, np.float64)

    def log_likelihood(self, seen: Floats) -> Floats:
        """log p(seen | label), natural: float64 [*shape of seen, 2]."""
        agrees = seen[..., None] == np.array([0.0, 1.0])
        return np.asarray(np.where(agrees, np.log1p(-self.probability), np.log(self.probability)), np.float64)


Noise = MixtureNoise | FlipNoise

GAUSSIAN = MixtureNoise("gaussian", means=((0.0,), (1.0,)), deviations=((0.3,), (0.3,)))
BIMODAL = MixtureNoise("bimodal", means=((0.08, 0.46), (0.55, 0.42)), deviations=((0.03, 0.03), (0.02, 0.10)))
