"""Checkpoints: all that a run needs to go on as if nothing had happened, in one safetensors file.

metadata   format "blendfield.checkpoint", format_version, blendfield, learner, and as JSON options (those that the
           course of the run depends on), blocks, state (see `Training.state`)
tensors    samples uint8 [N, 16] (a digest of each), and the arrays of options and state: messages of every chunk,
           weights, the mixture of certificates, history
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield.errors import BlendfieldError, CheckpointError, FileFormatError, OptionError
from blendfield.formats.plain import from_metadata, pack, to_text
from blendfield.formats.safetensors import Array, TensorFile, write_tensors
from blendfield.learning.storage import UNSAVED, heading, option_names, read_layout
from blendfield.learning.training import Training
from blendfield.model.weights import WeightLayout

Path = str | os.PathLike[str]

FORMAT = "blendfield.checkpoint"
VERSION = 1
LIMITS = ("tolerance", "max_iterations", "time_limit", "threads", "patience")
"""options that say when to stop and not which way to go: a resumed run may have others"""


@dataclass(frozen=True)
class Identity:
    """What a checkpoint belongs to."""

    learner: str
    """name of its class"""
    options: dict[str, Any]
    layout: WeightLayout
    samples: npt.NDArray[np.uint8]
    """uint8 [N, 16], see `model.digest`"""


def identity_of(
    learner: Any, belongs: dict[str, Any], layout: WeightLayout, samples: npt.NDArray[np.uint8]
) -> Identity:
    """Of a run that begins; `belongs`: what else its course depends on, by name."""
    names = [name for name in option_names(type(learner)) if name not in (*UNSAVED, *LIMITS)]
    options = {**belongs, **{name: getattr(learner, name) for name in names}}
    return Identity(type(learner).__name__, options, layout, samples)


class Checkpoints:
    """Writes checkpoints of one run to one path, each in place of the one before."""

    def __init__(self, path: Path, identity: Identity, seconds: float = 0.0) -> None:
        """`seconds`: the least time between two of them. The run makes its halt either way, so its course does not
        depend on the clock.
        """
        self.path = path
        self.identity = identity
        self.seconds = seconds
        self._written_at = -float("inf")

    def __call__(self, training: Training) -> None:
        now = time.monotonic()
        if now - self._written_at >= self.seconds:
            write(self.path, self.identity, training.state())
            self._written_at = time.monotonic()


def write(path: Path, identity: Identity, state: dict[str, Any]) -> None:
    """The file is the old one or the new one at any moment."""
    tensors: dict[str, Array] = {"samples": identity.samples}
    try:
        texts = {
            "options": to_text(pack(identity.options, "options", tensors)),
            "blocks": to_text(identity.layout.to_json()),
            "state": to_text(pack(state, "state", tensors)),
        }
    except TypeError as fault:
        raise OptionError(f"this run cannot be kept: {fault}") from None
    write_tensors(path, tensors, heading(FORMAT, VERSION) | {"learner": identity.learner} | texts)


def read(path: Path, identity: Identity) -> dict[str, Any]:
    """The state; CheckpointError, which names the first difference, when it belongs to another model or other data."""
    file = TensorFile(path)
    file.require(FORMAT, VERSION)
    _compare(file, identity)
    state: dict[str, Any] = from_metadata(file, "state")
    return state


def resume(path: Path, identity: Identity, training: Training) -> None:
    """Put a run that has not begun where the one that wrote the checkpoint was."""
    state = read(path, identity)
    try:
        training.resume(state)
    except CheckpointError as fault:
        raise CheckpointError(f"{path}: {fault}") from None
    except (BlendfieldError, KeyError, TypeError, ValueError, AttributeError) as fault:
        raise FileFormatError(f"{path}: the state is incomplete or damaged ({fault})") from fault


def _compare(file: TensorFile, identity: Identity) -> None:
    where = f"{file.path}: a checkpoint of another run"
    if (name := file.metadata.get("learner")) != identity.learner:
        raise CheckpointError(f"{where}: of a {name!r:.60}, not of a {identity.learner}")
    options = from_metadata(file, "options")
    if not isinstance(options, dict):
        raise FileFormatError(f"{file.path}: options must be a mapping")
    for name in sorted({*options, *identity.options}):
        theirs, ours = (_shown(entries, name) for entries in (options, identity.options))
        if theirs != ours:
            raise CheckpointError(f"{where}: {name} was {theirs:.80}, here it is {ours:.80}")
    theirs_layout = read_layout(file)
    for one, other in zip(theirs_layout.to_json(), identity.layout.to_json(), strict=False):
        if one != other:
            raise CheckpointError(f"{where}: its block of weights was {one}, here it is {other}")
    if theirs_layout != identity.layout:
        raise CheckpointError(f"{where}: its weights were {theirs_layout}, here they are {identity.layout}")
    if "samples" not in file or file["samples"].shape[1:] != identity.samples.shape[1:]:
        raise FileFormatError(f"{file.path}: the array 'samples' is missing or damaged")
    samples = file["samples"]
    if len(samples) != len(identity.samples):
        raise CheckpointError(f"{where}: it had {len(samples)} samples, here are {len(identity.samples)}")
    different = (samples != identity.samples).any(axis=1)
    if different.any():
        raise CheckpointError(f"{where}: sample {int(different.argmax())} is not the one it had")


def _shown(options: dict[str, Any], name: str) -> str:
    """In a form that tells equal options from different ones."""
    if name not in options:
        return "absent"
    tensors: dict[str, Array] = {}
    text = to_text(pack(_alike(options[name]), "array", tensors))
    arrays = "".join(f" {array.dtype} {array.shape} {array.tobytes().hex()}" for array in tensors.values())
    return text + arrays


def _alike(value: Any) -> Any:
    """1 and 1.0 are the same option, and so are arrays and lists."""
    if isinstance(value, Mapping):
        return {key: _alike(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_alike(item) for item in value]
    if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        return value.astype(np.float64)
    return float(value) if isinstance(value, (int, np.integer)) and not isinstance(value, bool) else value
