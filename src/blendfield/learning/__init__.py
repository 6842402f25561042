"""Learning: the blend of message passing and weight updates, and what goes with it."""

from blendfield.learning.learner import BlendedLearner
from blendfield.learning.parts_inference import PartsResult, infer_in_parts
from blendfield.learning.rivals import (
    CuttingPlaneTrainer,
    FrankWolfeTrainer,
    GradientTrainer,
    PseudoLikelihoodTrainer,
    SubgradientTrainer,
)
from blendfield.learning.structured_loss import StructuredLoss
from blendfield.learning.training import TrainingProgress

__all__ = [
    "BlendedLearner",
    "CuttingPlaneTrainer",
    "FrankWolfeTrainer",
    "GradientTrainer",
    "PartsResult",
    "PseudoLikelihoodTrainer",
    "StructuredLoss",
    "SubgradientTrainer",
    "TrainingProgress",
    "infer_in_parts",
]
