"""Learned models in safetensors files: weights, what they are weights of, and how they were learned.

metadata   format "blendfield.model", format_version, blendfield (its version), learner (its class), and as JSON
           options (those of the constructor), blocks (name, kind and shape, in order), record (everything else
           that ends in an underscore: primal_, history_, ...)
tensors    weights float64 [K], and the arrays that options and record speak of
"""

from __future__ import annotations

import inspect
import os
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np

from blendfield.errors import BlendfieldError, FileFormatError, OptionError
from blendfield.formats.plain import from_metadata, pack, to_text
from blendfield.formats.safetensors import Array, TensorFile, write_tensors
from blendfield.model.pieces import FloatArray
from blendfield.model.weights import WeightLayout

if TYPE_CHECKING:
    from blendfield.learning.prediction import Predictor

Path = str | os.PathLike[str]

FORMAT = "blendfield.model"
VERSION = 1
UNSAVED = (
    *("callback", "verbose", "memory_limit"),
    *("engine", "engine_address", "engine_workers", "engine_timeout", "engine_spare"),
)
"""options that belong to a run, not to a model"""
WEIGHTS = ("weights_", "layout_", "blocks_")


def save(path: Path, learner: Predictor) -> None:
    """See `Predictor.save`."""
    tensors: dict[str, Array] = {"weights": learner.weights_}
    options = {name: getattr(learner, name) for name in option_names(type(learner)) if name not in UNSAVED}
    record = {name: value for name, value in vars(learner).items() if name.endswith("_") and name not in WEIGHTS}
    try:
        texts = {
            "options": to_text(pack(options, "options", tensors)),
            "blocks": to_text(learner.layout_.to_json()),
            "record": to_text(pack(record, "record", tensors)),
        }
    except TypeError as fault:
        raise OptionError(f"this learner cannot be saved: {fault}") from None
    write_tensors(path, tensors, heading(FORMAT, VERSION) | {"learner": type(learner).__name__} | texts)


def load(path: Path, wanted: type[Predictor]) -> Any:
    """See `Predictor.load`."""
    file = TensorFile(path)
    file.require(FORMAT, VERSION)
    name = file.metadata.get("learner", "")
    kinds = {kind.__name__: kind for kind in _with_subclasses(wanted)}
    if name not in kinds:
        raise FileFormatError(f"{path}: holds a {name!r:.60}; expected one of {', '.join(sorted(kinds))}")
    layout = read_layout(file)
    options, record = from_metadata(file, "options"), from_metadata(file, "record")
    for what, entries in (("options", options), ("record", record)):
        if not isinstance(entries, dict) or not all(isinstance(key, str) for key in entries):
            raise FileFormatError(f"{path}: {what} must be a mapping by name")
    learner = construct(kinds[name], options, file)
    for key, value in record.items():
        if not key.endswith("_") or key.startswith("_") or key in WEIGHTS:
            raise FileFormatError(f"{path}: record: {key!r:.60} is no name of a result")
        setattr(learner, key, value)
    learner._take_weights(read_weights(file, "weights", layout), layout)
    return learner


def heading(kind: str, version: int) -> dict[str, str]:
    """The metadata that every file of ours begins with."""
    return {"format": kind, "format_version": str(version), "blendfield": metadata.version("blendfield")}


def option_names(kind: type[Any]) -> list[str]:
    """The parameters of a learner's constructor; it keeps each under its name."""
    return [name for name in inspect.signature(kind.__init__).parameters if name != "self"]


def construct(kind: type[Any], options: dict[str, Any], file: TensorFile) -> Any:
    """A learner with these options."""
    unknown = sorted(set(options) - set(option_names(kind)))
    if unknown:
        raise FileFormatError(f"{file.path}: {kind.__name__} has no option {unknown[0]!r:.60}")
    try:
        return kind(**options)
    except (BlendfieldError, TypeError, ValueError) as fault:
        raise FileFormatError(f"{file.path}: options: {fault}") from fault


def read_layout(file: TensorFile) -> WeightLayout:
    """The blocks of weights."""
    try:
        return WeightLayout.from_json(from_metadata(file, "blocks", plain=False))
    except BlendfieldError as fault:
        raise FileFormatError(f"{file.path}: blocks: {fault}") from None


def read_weights(file: TensorFile, name: str, layout: WeightLayout) -> FloatArray:
    """float64 [K], finite."""
    if name not in file:
        raise FileFormatError(f"{file.path}: the array {name!r} is missing")
    weights = file[name]
    if weights.dtype != np.float64 or weights.shape != (layout.size,):
        raise FileFormatError(
            f"{file.path}: {name!r} must be float64 [{layout.size}] as blocks say; got {weights.dtype} {weights.shape}"
        )
    if not np.isfinite(weights).all():
        raise FileFormatError(f"{file.path}: {name!r} holds NaN or infinity")
    return weights


def _with_subclasses(kind: type[Any]) -> list[type[Any]]:
    return [kind, *(below for sub in kind.__subclasses__() for below in _with_subclasses(sub))]
