"""What the chunks of one training set can have in common, one being at work at a time."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, TypeVar

import numpy.typing as npt

from blendfield.backends.protocol import Workspace
from blendfield.inference.program import Models
from blendfield.model.sample import Sample

Array = TypeVar("Array", bound=npt.NDArray[Any])


class Shared:
    """Arrays to work in, the programs of chunks that hold the same graphs, and indices that are alike."""

    def __init__(self) -> None:
        self.workspace = Workspace()
        self._models: dict[tuple[Any, ...], Models] = {}
        self._alike: dict[tuple[Any, ...], Any] = {}

    def same(self, array: Array) -> Array:
        """An equal array, the same one for all who ask: indices are often alike in many chunks."""
        key = (array.dtype, array.shape, blake2b(array.tobytes(), digest_size=16).digest())
        known: Array = self._alike.setdefault(key, array)
        return known

    def models(self, samples: Sequence[Sample], counting_numbers: Any) -> Models | None:
        """The program of these graphs with these counting numbers, where it is known."""
        return self._models.get(_key(samples, counting_numbers))

    def keep(self, samples: Sequence[Sample], counting_numbers: Any, models: Models) -> None:
        """For `models`; counting numbers given as arrays are not compared."""
        if isinstance(counting_numbers, str):
            self._models[_key(samples, counting_numbers)] = models


def _key(samples: Sequence[Sample], counting_numbers: Any) -> tuple[Any, ...]:
    """Graphs are told apart by identity: `Models` keeps them alive."""
    name = counting_numbers if isinstance(counting_numbers, str) else None
    return (name, *((id(sample.graph), sample.weight) for sample in samples))
