"""Handwritten words: one binary picture per letter. The first letter of every word, a capital, is left out upstream."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from blendfield.datasets.catalogue import DataFile, DatasetInfo, find, read_arrays

INFO = DatasetInfo(
    name="letters",
    title="handwritten words, letter by letter",
    size=6877,
    licence="BSD",
    citation="R. Kassel, MIT Spoken Language Systems Group; B. Taskar, C. Guestrin, D. Koller: "
    "Max-margin Markov networks, NIPS 2003",
    files=(DataFile("chains/letters.npz", "968105e6de5c9483caddd9e237d76576c8ed8902abe124c906950ac493a5e5be"),),
)


class Word(NamedTuple):
    """pixels bool [length, 16, 8]; labels int64 [length], 0 (a) to 25 (z); fold 0 to 9."""

    pixels: npt.NDArray[np.bool_]
    labels: npt.NDArray[np.int64]
    fold: int


def load() -> list[Word]:
    """All words in the order of the file. The usual experiment trains on nine folds and tests on the tenth."""
    packed, labels, lengths, folds = read_arrays(find(INFO), ("pixels", "labels", "lengths", "folds"))
    pixels = np.unpackbits(packed.astype(np.uint8), axis=1).reshape(-1, 16, 8).astype(np.bool_)
    starts = np.cumsum(lengths.astype(np.int64))[:-1]
    words = zip(np.split(pixels, starts), np.split(labels.astype(np.int64), starts), folds, strict=True)
    return [Word(word, text, int(fold)) for word, text, fold in words]
