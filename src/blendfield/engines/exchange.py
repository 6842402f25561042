"""Regions that several chunks share: what their messages sum to on average (mathematics §7)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from blendfield.backends.protocol import FloatArray

LongArray = npt.NDArray[np.int64]
NOTHING: FloatArray = np.zeros(0)
NOWHERE: LongArray = np.zeros(0, dtype=np.int64)


class Exchange:
    """places[k]: int64 [n_k], which of all shared entries chunk k has."""

    def __init__(self, places: Sequence[LongArray]) -> None:
        self.places = list(places)
        self._all: LongArray = np.concatenate([NOWHERE, *self.places])
        self.needed = len(self._all) > 0
        self._copies = np.bincount(self._all)

    def means(self, sums: Sequence[FloatArray]) -> list[FloatArray]:
        """float64 [n_k] for every chunk k: the mean over all that share an entry, added up in chunk order."""
        total = np.bincount(self._all, weights=np.concatenate([NOTHING, *sums]))
        mean = total / np.maximum(self._copies, 1)
        return [mean[own] for own in self.places]
