"""From features and weights to potentials: theta_r = l_r + sum_k w_k phi_{k,r}, and back from beliefs to gradients."""

from blendfield.model.blocks import FixedPotentials, FreeWeights, TableFeatures, TiedLinear
from blendfield.model.losses import WeightedHamming
from blendfield.model.sample import Sample
from blendfield.model.weights import WeightLayout

__all__ = [
    "FixedPotentials",
    "FreeWeights",
    "Sample",
    "TableFeatures",
    "TiedLinear",
    "WeightLayout",
    "WeightedHamming",
]
