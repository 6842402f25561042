"""A second set of samples that says when to stop: the weights that make the fewest mistakes there are kept."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from blendfield.backends.protocol import FloatArray
from blendfield.errors import LabelError, OptionError
from blendfield.learning.prediction import Predictor
from blendfield.model.sample import Sample
from blendfield.model.weights import WeightLayout

INFERENCE: dict[str, Any] = {"max_iterations": 200, "tolerance": 1e-4}
"""labels do not need more"""


class Validation:
    """Predicts now and then; `best` are the weights with the fewest wrong labels, the earliest among equals."""

    def __init__(
        self, learner: Predictor, layout: WeightLayout, samples: Sequence[Sample], patience: int, every: int
    ) -> None:
        """`patience`: checks in a row without a better one before it is time to stop; `every`: iterations between."""
        counting_numbers = learner.counting_numbers
        if isinstance(counting_numbers, (list, tuple)) and not all(np.isscalar(item) for item in counting_numbers):
            raise OptionError("validation: counting_numbers by sample fit the training samples only; give a name")
        self.observed = 0
        for number, sample in enumerate(samples):
            if sample.labels is None:
                raise LabelError(f"validation sample {number} has no labels")
            for block in sample.blocks:
                layout.check(block, f"validation sample {number}")
            self.observed += int((sample.labels >= 0).sum())
        if self.observed == 0:
            raise LabelError("validation needs samples with labels")
        self.samples = list(samples)
        self.layout = layout
        self.patience = patience
        self.every = every
        self.best: FloatArray | None = None
        """float64 [K]"""
        self.error = np.inf
        """share of wrong labels, of `best`"""
        self.iterations: list[int] = []
        self.errors: list[float] = []
        self._since = 0
        self._predictor = copy.copy(learner)

    def due(self, iteration: int) -> bool:
        """Time for a check."""
        return iteration - (self.iterations[-1] if self.iterations else 0) >= self.every

    def check(self, iteration: int, weights: FloatArray) -> bool:
        """Predict with these weights; True when patience has run out."""
        self._predictor._take_weights(weights, self.layout)
        predicted = self._predictor.predict(self.samples, **INFERENCE)
        wrong = 0
        for labels, sample in zip(predicted, self.samples, strict=True):
            assert sample.labels is not None
            wrong += int(((labels != sample.labels) & (sample.labels >= 0)).sum())
        self.iterations.append(iteration)
        self.errors.append(wrong / self.observed)
        if self.errors[-1] < self.error:
            self.best, self.error, self._since = weights.copy(), self.errors[-1], 0
        else:
            self._since += 1
        return self._since >= self.patience

    def history(self) -> dict[str, Any]:
        """Equal-length arrays."""
        return {"iteration": np.array(self.iterations, dtype=np.int64), "error": np.array(self.errors)}

    def state(self) -> dict[str, Any]:
        """What continues in a resumed run."""
        return {"best": self.best, "error": self.error, "since": self._since, "history": self.history()}

    def resume(self, state: dict[str, Any]) -> None:
        """The reverse of `state`."""
        self.best, self.error, self._since = state["best"], state["error"], state["since"]
        self.iterations = state["history"]["iteration"].tolist()
        self.errors = state["history"]["error"].tolist()
