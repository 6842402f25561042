"""Inference at fixed potentials: messages, beliefs, labels and certified bounds."""

from blendfield.inference.anderson import Anderson
from blendfield.inference.infer import infer
from blendfield.inference.messages import Messages
from blendfield.inference.options import Progress
from blendfield.inference.result import Result

__all__ = ["Anderson", "Messages", "Progress", "Result", "infer"]
