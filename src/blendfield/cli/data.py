"""Arguments and files of the commands that use a learned model."""

from __future__ import annotations

import argparse

from blendfield.cli.arguments import integer, number
from blendfield.cli.configuration import FORMATS, KINDS
from blendfield.errors import FeatureError, FileFormatError, LabelError
from blendfield.estimators import Inferred, StructuredClassifier
from blendfield.formats.structures import Structures, read_structures


def add_model_and_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="what blendfield train wrote")
    parser.add_argument("data", metavar="DATA", help="a .npz file, or CRFsuite's text")
    parser.add_argument("--format", choices=FORMATS, help="of DATA, where its name does not say it")
    parser.add_argument(
        "--epsilon", metavar="E", type=number(0, "a temperature >= 0"), help="temperature; default: that of training"
    )
    parser.add_argument("--threads", metavar="N", type=integer(1), help="default: all cores")


def load(arguments: argparse.Namespace) -> tuple[StructuredClassifier, Structures]:
    """The model, and data of its kind."""
    classifier = StructuredClassifier.load(arguments.model)
    structures = read_structures(arguments.data, arguments.format, classifier.feature_names_in_)
    kind = kind_of(classifier)
    if structures.kind != kind:
        raise FileFormatError(
            f"{arguments.data}: holds structures of kind {structures.kind!r}; the model takes {kind!r}"
        )
    if structures.names is not None and classifier.feature_names_in_ is None:
        raise FileFormatError(
            f"{arguments.data}: has named attributes, but {arguments.model} was trained on a .npz file"
        )
    return classifier, structures


def kind_of(classifier: StructuredClassifier) -> str:
    """chain, grid or graph."""
    return next(name for name, kind in KINDS.items() if isinstance(classifier, kind))


def infer(arguments: argparse.Namespace, classifier: StructuredClassifier, structures: Structures) -> list[Inferred]:
    """At the temperature that is wanted."""
    options = {name: getattr(arguments, name) for name in ("epsilon", "threads")}
    options = {name: value for name, value in options.items() if value is not None}
    try:
        return classifier.infer(structures.X, **options)
    except (FeatureError, LabelError) as fault:
        raise type(fault)(f"{arguments.data}: {fault}") from None
