"""Few of many weights: what a worker's chunks do not touch need not travel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield.backends.protocol import FloatArray
from blendfield.engines.protocol import Certificate, Evaluation, Request, SoftEvaluation

DENSE = 0.5
"""from this share of all weights on, the whole vector travels"""
FIELDS = {
    Request: ("weights",),
    Evaluation: ("gradient", "curvature"),
    Certificate: ("moments",),
    SoftEvaluation: ("gradient", "curvature"),
}
"""what has one entry per weight"""


@dataclass(frozen=True)
class Support:
    """The weights that some chunks touch, of K."""

    size: int
    """K"""
    places: npt.NDArray[np.int64] | None = None
    """int64 [n]; None: all K"""

    @classmethod
    def of(cls, touched: npt.NDArray[np.bool_]) -> Support:
        """touched: bool [K]."""
        if touched.sum() >= DENSE * len(touched):
            return cls(len(touched))
        return cls(len(touched), np.flatnonzero(touched).astype(np.int64))

    def narrow(self, value: Any) -> Any:
        """float64 [K] -> [n], by itself or in the fields of a request or an answer."""
        return self._mapped(value, self._taken)

    def widen(self, value: Any) -> Any:
        """The reverse; zero elsewhere."""
        return self._mapped(value, self._spread)

    def _mapped(self, value: Any, change: Any) -> Any:
        if self.places is None:
            return value
        if isinstance(value, np.ndarray):
            return change(value)
        names: Sequence[str] = FIELDS.get(type(value), ())
        present = {name: getattr(value, name) for name in names if getattr(value, name) is not None}
        return replace(value, **{name: change(array) for name, array in present.items()}) if present else value

    def _taken(self, vector: FloatArray) -> FloatArray:
        return vector[self.places]

    def _spread(self, few: FloatArray) -> FloatArray:
        vector: FloatArray = np.zeros(self.size)
        vector[self.places] = few
        return vector
