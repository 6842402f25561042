"""How good predicted labels are: shares of right ones, precision and recall of every label, and of whole chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Counts:
    """Of one label, or of all chunks."""

    right: int
    """predicted where true"""
    predicted: int
    true: int

    @property
    def precision(self) -> float:
        """nan where nothing was predicted"""
        return self.right / self.predicted if self.predicted else float("nan")

    @property
    def recall(self) -> float:
        """nan where there is nothing to be found"""
        return self.right / self.true if self.true else float("nan")

    @property
    def f1(self) -> float:
        """nan where there is neither"""
        both = self.predicted + self.true
        return 2 * self.right / both if both else float("nan")


@dataclass(frozen=True)
class Scores:
    """Of n structures with N nodes."""

    accuracy: float
    """share of right nodes"""
    whole: float
    """share of structures without a wrong node"""
    nodes: int
    structures: int
    labels: dict[str, Counts]
    """every label that was predicted or is true"""
    chunks: Counts | None
    """None where labels are not of the kinds B-x, I-x and O"""


def score_labels(truth: Sequence[Array], predicted: Sequence[Array]) -> Scores:
    """truth, predicted: the labels of every structure, integers or strings, of one shape; at least one node in all."""
    right = [own == other for own, other in zip(truth, predicted, strict=True)]
    flat_truth, flat_predicted = _flat(truth), _flat(predicted)
    hits = np.concatenate([part.ravel() for part in right])
    counts = {}
    for label in np.unique(np.concatenate([flat_truth, flat_predicted])):
        true, found = flat_truth == label, flat_predicted == label
        counts[str(label)] = Counts(int((true & found).sum()), int(found.sum()), int(true.sum()))
    return Scores(
        accuracy=float(hits.mean()),
        whole=float(np.mean([part.all() for part in right])),
        nodes=len(hits),
        structures=len(right),
        labels=counts,
        chunks=score_chunks(truth, predicted) if are_chunks(counts) else None,
    )


def are_chunks(labels: Sequence[str] | dict[str, Counts]) -> bool:
    """Labels are B-x, I-x and O, and some begin a chunk."""
    return any(name.startswith("B-") for name in labels) and all(
        name == "O" or name[:2] in ("B-", "I-") for name in labels
    )


def score_chunks(truth: Sequence[Array], predicted: Sequence[Array]) -> Counts:
    """A chunk is right when its beginning, end and kind are."""
    true, found = chunks(truth), chunks(predicted)
    return Counts(len(true & found), len(found), len(true))


def chunks(labels: Sequence[Array]) -> set[tuple[int, int, int, str]]:
    """(structure, first node, the one behind the last, kind) of every chunk, as the CoNLL shared tasks count them:
    B begins one, and so does I after another kind or after O.
    """
    found = set()
    for number, own in enumerate(labels):
        start, kind = 0, ""
        for place, label in enumerate([*own, "O"]):
            begins, _, now = str(label).partition("-")
            if kind and (now != kind or begins == "B"):
                found.add((number, start, place, kind))
                kind = ""
            if now and not kind:
                start, kind = place, now
    return found


def _flat(parts: Sequence[Array]) -> Array:
    return np.concatenate([np.ravel(part) for part in parts])
