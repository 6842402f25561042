"""Shares, precision and recall."""

import math

import numpy as np
import pytest

from blendfield.reports.scores import chunks, score_labels


def test_labels():
    scores = score_labels([np.array([0, 1, 1]), np.array([2])], [np.array([0, 1, 0]), np.array([2])])
    assert scores.accuracy == 0.75
    assert scores.whole == 0.5
    assert (scores.nodes, scores.structures, scores.chunks) == (4, 2, None)
    assert (scores.labels["0"].precision, scores.labels["0"].recall) == (0.5, 1.0)
    assert scores.labels["1"].f1 == pytest.approx(2 / 3)
    never = score_labels([np.array([[0, 1]])], [np.array([[0, 0]])]).labels["1"]
    assert math.isnan(never.precision)
    assert never.recall == 0


def test_chunks():
    def of(text):
        return {(a, b, kind) for _, a, b, kind in chunks([np.array(text.split())])}

    assert of("B-NP I-NP O B-NP B-NP") == {(0, 2, "NP"), (3, 4, "NP"), (4, 5, "NP")}
    assert of("I-NP I-VP I-VP O") == {(0, 1, "NP"), (1, 3, "VP")}
    assert of("O O") == set()
    truth = [np.array(["B-NP", "I-NP", "O", "B-VP"]), np.array(["B-NP"])]
    found = [np.array(["B-NP", "I-NP", "O", "O"]), np.array(["B-VP"])]
    score = score_labels(truth, found).chunks
    assert (score.right, score.predicted, score.true) == (1, 2, 3)
    assert score.f1 == pytest.approx(0.4)
