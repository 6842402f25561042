"""Other ways to learn the same weights, for comparison and for those who want them.

All take the samples of `BlendedLearner`, mean the same by C, and predict in the same way.
"""

from blendfield.learning.rivals.cutting_plane import CuttingPlaneTrainer
from blendfield.learning.rivals.frank_wolfe import FrankWolfeTrainer
from blendfield.learning.rivals.gradient import GradientTrainer
from blendfield.learning.rivals.pseudo_likelihood import PseudoLikelihoodTrainer
from blendfield.learning.rivals.subgradient import SubgradientTrainer

__all__ = [
    "CuttingPlaneTrainer",
    "FrankWolfeTrainer",
    "GradientTrainer",
    "PseudoLikelihoodTrainer",
    "SubgradientTrainer",
]
