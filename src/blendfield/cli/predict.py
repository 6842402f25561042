"""Labels of structures in a file, by a learned model.

Prints a label per line, in reading order, and a blank line between structures; --output with .npz writes arrays.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from blendfield.cli.data import add_model_and_data, infer, load
from blendfield.cli.outputs import check_folder
from blendfield.errors import OptionError
from blendfield.estimators import Inferred, StructuredClassifier
from blendfield.files import written_atomically
from blendfield.formats.compressed import write_text
from blendfield.formats.models import suffix
from blendfield.formats.structures import SIZES, Structures

HELP = "labels of structures, by a learned model"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_and_data(parser)
    parser.add_argument("--probabilities", "-p", action="store_true", help="behind each label those of all labels")
    parser.add_argument("--output", "-o", metavar="F", help="a file of text, or .npz; default: print")


def run(arguments: argparse.Namespace) -> int:
    if arguments.output is not None:
        check_folder(arguments.output)
    classifier, structures = load(arguments)
    epsilon = classifier.learner_.epsilon if arguments.epsilon is None else arguments.epsilon
    if arguments.probabilities and not epsilon > 0:
        raise OptionError("argument --probabilities: expected an epsilon > 0; at 0 there are best labels only")
    found = infer(arguments, classifier, structures)
    if arguments.output is not None and suffix(arguments.output) == "npz":
        _write_npz(arguments.output, classifier, structures, found)
        return 0
    lines = _lines(classifier, found, arguments.probabilities)
    if arguments.output is None:
        sys.stdout.writelines(lines)
    else:
        write_text(arguments.output, "".join(lines).encode())
    return 0


def _lines(classifier: StructuredClassifier, found: list[Inferred], probabilities: bool) -> Iterator[str]:
    classes = [str(name) for name in classifier.classes_.tolist()]
    for number, inferred in enumerate(found):
        if number:
            yield "\n"
        labels = inferred.labels.ravel().tolist()
        if not probabilities:
            yield "".join(f"{label}\n" for label in labels)
            continue
        for label, row in zip(labels, inferred.marginals.reshape(len(labels), -1).tolist(), strict=True):
            yield "\t".join([str(label), *(f"{name}:{p:.6g}" for name, p in zip(classes, row, strict=True))]) + "\n"


def _write_npz(path: str, classifier: StructuredClassifier, structures: Structures, found: list[Inferred]) -> None:
    """N nodes of n structures: labels [N], marginals [N, L] in the order of classes [L], score, gap and integrality
    [n], and the sizes of the structures as such files have them.
    """
    key = next(key for key, kind in SIZES.items() if kind == structures.kind)
    shapes = np.array([inferred.labels.shape for inferred in found], dtype=np.int64)
    count = len(classifier.classes_)
    arrays: dict[str, Any] = {
        key: shapes if key == "shapes" else shapes.reshape(-1),
        "classes": classifier.classes_,
        "labels": np.concatenate([inferred.labels.ravel() for inferred in found]),
        "marginals": np.concatenate([inferred.marginals.reshape(-1, count) for inferred in found]),
        "scores": np.array([inferred.result.score for inferred in found]),
        "gaps": np.array([inferred.result.gap for inferred in found]),
        "epsilon": np.array(next(itertools.chain((inferred.result.epsilon for inferred in found), [np.nan]))),
    }
    with written_atomically(path) as file:
        np.savez(file, **arrays)
