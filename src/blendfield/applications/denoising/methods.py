"""Ways to learn the same weights from the same samples: the blend and its rivals, with the limits they are given."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield.applications.denoising.configuration import DenoisingConfiguration
from blendfield.applications.denoising.model import samples
from blendfield.applications.denoising.simple import error_percent
from blendfield.applications.denoising.task import NoisyImage
from blendfield.learning import BlendedLearner, GradientTrainer, PseudoLikelihoodTrainer, SubgradientTrainer
from blendfield.learning.prediction import Predictor

Tell = Callable[[str], None]

STEPS = (5e-6, 5e-5, 5e-4, 5e-3, 5e-2)
"""first steps that stochastic methods may choose from"""
MOST_PASSES = 6000
"""evaluations over all tables that a rival may use; what it has begun it finishes"""
FULL_STEPS = 30
"""steps of L-BFGS at most"""
ROUNDS = 30
"""of stochastic methods over the training set; SMD takes two gradients per batch"""
MARGIN_ROUNDS = 10
"""of the subgradient method, whose every gradient is a search for the best labels"""
SWEEPS = 30
"""of belief propagation or mean field for one gradient, at most. SGD and SMD go on from the messages of the round
before; L-BFGS starts at zero, since a line search needs a function of the weights alone"""
LINE_SEARCH_SWEEPS = 100
"""the same for L-BFGS with belief propagation: gradients that are not those of the values stall its line search"""
TOLERANCE = 1e-4
"""of the rivals: relative change of the objective, or its distance"""
PREDICTION: dict[str, Any] = {"max_iterations": 200, "tolerance": 1e-4}
"""labels do not need more"""


@dataclass(frozen=True)
class Setting:
    """What a method is told besides the configuration."""

    C: float
    step: float = STEPS[2]


@dataclass(frozen=True)
class Method:
    """title: in tables; make: an untrained one; loss: it trains with the Hamming loss, None: as the user says; like:
    the method that chooses C for this one, which then chooses its step alone; cost: about, of one training."""

    title: str
    make: Callable[[DenoisingConfiguration, Setting, Tell | None], Predictor]
    loss: bool | None = False
    like: str = ""
    cost: float = 1.0


def _blend(configuration: DenoisingConfiguration, setting: Setting, tell: Tell | None) -> Predictor:
    return BlendedLearner(
        epsilon=configuration.epsilon,
        C=setting.C,
        counting_numbers=configuration.counting_numbers,
        tolerance=configuration.tolerance,
        max_iterations=configuration.max_iterations,
        time_limit=configuration.time_limit,
        threads=configuration.threads,
        backend=configuration.backend,
        callback=_callback(tell),
    )


def _gradient(oracle: str, optimiser: str) -> Callable[[DenoisingConfiguration, Setting, Tell | None], Predictor]:
    def make(configuration: DenoisingConfiguration, setting: Setting, tell: Tell | None) -> Predictor:
        return GradientTrainer(
            oracle,
            optimiser,
            C=setting.C,
            step=setting.step,
            tolerance=TOLERANCE,
            max_iterations=FULL_STEPS if optimiser == "lbfgs" else ROUNDS,
            inference_tolerance=1e-3,
            inference_iterations=LINE_SEARCH_SWEEPS
            if (oracle, optimiser) == ("belief-propagation", "lbfgs")
            else SWEEPS,
            restart_messages=optimiser == "lbfgs",
            time_limit=configuration.time_limit,
            threads=configuration.threads,
            backend=configuration.backend,
            callback=_callback(tell, MOST_PASSES),
        )

    return make


def _pseudo_likelihood(configuration: DenoisingConfiguration, setting: Setting, tell: Tell | None) -> Predictor:
    return PseudoLikelihoodTrainer(
        C=setting.C,
        tolerance=TOLERANCE,
        time_limit=configuration.time_limit,
        threads=configuration.threads,
        backend=configuration.backend,
        callback=_callback(tell, MOST_PASSES),
    )


def _svm(configuration: DenoisingConfiguration, setting: Setting, tell: Tell | None) -> Predictor:
    return SubgradientTrainer(
        C=setting.C,
        step=setting.step,
        tolerance=TOLERANCE,
        max_iterations=MARGIN_ROUNDS,
        inference_iterations=SWEEPS,
        time_limit=configuration.time_limit,
        threads=configuration.threads,
        backend=configuration.backend,
        callback=_callback(tell, MOST_PASSES),
    )


METHODS = {
    "blend": Method("blend", _blend, None, cost=4),
    "lbp-lbfgs": Method("LBP, L-BFGS", _gradient("belief-propagation", "lbfgs"), cost=4),
    "lbp-sgd": Method("LBP, SGD", _gradient("belief-propagation", "sgd"), like="lbp-lbfgs", cost=5),
    "lbp-smd": Method("LBP, SMD", _gradient("belief-propagation", "smd"), like="lbp-lbfgs", cost=8),
    "mf-lbfgs": Method("mean field, L-BFGS", _gradient("mean-field", "lbfgs"), cost=8),
    "mf-sgd": Method("mean field, SGD", _gradient("mean-field", "sgd"), like="mf-lbfgs", cost=8),
    "mf-smd": Method("mean field, SMD", _gradient("mean-field", "smd"), like="mf-lbfgs", cost=16),
    "pseudo-likelihood": Method("pseudo-likelihood", _pseudo_likelihood, cost=2),
    "svm": Method("structured SVM, subgradient", _svm, True, like="blend", cost=10),
}


def limits(name: str) -> dict[str, Any]:
    """What the results of a rival depend on besides the knobs; nothing for the blend."""
    if name == "blend":
        return {}
    given = (STEPS, MOST_PASSES, FULL_STEPS, ROUNDS, MARGIN_ROUNDS, SWEEPS, LINE_SEARCH_SWEEPS, TOLERANCE)
    return {"limits": list(given)}


def train(
    name: str,
    configuration: DenoisingConfiguration,
    setting: Setting,
    model: str,
    images: Sequence[NoisyImage],
    tell: Tell | None = None,
) -> Predictor:
    """A method, fitted to the images."""
    method = METHODS[name]
    loss = configuration.loss if method.loss is None else method.loss
    learner: Any = method.make(configuration, setting, tell)
    return finished(learner.fit(samples(images, model, loss)))  # type: ignore[no-any-return]


def finished(learner: Any) -> Any:
    """The learner; Ctrl-C, which ends a fit with what it has, ends the study as well."""
    if learner.stop_reason_ == "interrupted":
        raise KeyboardInterrupt
    return learner


def predict(learner: Predictor, model: str, images: Sequence[NoisyImage]) -> list[npt.NDArray[np.bool_]]:
    """What the learner finds in each image, bool of its shape: the likelier label of each pixel."""
    options = dict(PREDICTION)
    if getattr(learner, "oracle", "") == "belief-propagation":
        options["acceleration"] = None  # mixing may end at fixed points that propagation itself leaves
    labels = learner.predict(samples(images, model), **options)
    return [found.reshape(image.seen.shape) == 1 for found, image in zip(labels, images, strict=True)]


def error(learner: Predictor, model: str, images: Sequence[NoisyImage]) -> float:
    """Percent of wrong pixels."""
    return error_percent(predict(learner, model, images), [image.truth for image in images])


def _callback(tell: Tell | None, most_passes: float = math.inf) -> Callable[[Any], bool]:
    """Says which iteration it is, and stops after so many passes."""

    def callback(progress: Any) -> bool:
        if tell is not None:
            tell(f"iteration {progress.iteration}")
        return bool(progress.passes >= most_passes)

    return callback
