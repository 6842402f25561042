"""What `blendfield train` is given: a TOML file, checked before any work."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from typing import Any

from blendfield.errors import FileFormatError, OptionError, nearest
from blendfield.estimators import ChainClassifier, GraphClassifier, GridClassifier, StructuredClassifier
from blendfield.inference.options import check_choice, check_integer, check_number
from blendfield.learning import BlendedLearner
from blendfield.learning.storage import UNSAVED, option_names

KINDS: dict[str, type[StructuredClassifier]] = {
    "chain": ChainClassifier,
    "grid": GridClassifier,
    "graph": GraphClassifier,
}
FORMATS = ("crfsuite", "npz")
MODEL = (
    *("epsilon", "C", "counting_numbers", "loss", "intercept", "neighbours", "directional"),
    *("l1", "sign", "soft_marginalisation"),
)
"""options that say what is minimised; all others belong to [training]"""
DATA = ("train", "validation", "format", "min_frequency")
CHECKPOINT_EVERY, CHECKPOINT_SECONDS = 50, 10.0
"""iterations and seconds between two checkpoints"""
OUTPUT = ("model", "checkpoint", "checkpoint_every", "checkpoint_seconds")


@dataclass(frozen=True)
class Configuration:
    """All valid. Paths are as they can be opened."""

    path: str
    kind: str
    classifier: StructuredClassifier
    train: str
    validation: str | None
    format: str | None
    min_frequency: int
    model: str | None
    checkpoint: str | None
    checkpoint_every: int
    checkpoint_seconds: float


def read_configuration(path: str, changes: dict[str, Any]) -> Configuration:
    """`changes`: options of the learner that the command line sets. FileFormatError names the line of broken TOML,
    OptionError the key.
    """
    sections = _sections(path)
    data, output = sections["data"], sections["output"]
    try:
        kind = check_choice("[model] kind", sections["model"].pop("kind", "chain"), tuple(KINDS))
        options = _options(KINDS[kind], sections["model"], sections["training"]) | changes
        if (format := data.get("format")) is not None:
            check_choice("[data] format", format, FORMATS)
        if "train" not in data:
            raise OptionError("[data] lacks the key 'train': the file to learn from")
        return Configuration(
            path=path,
            kind=kind,
            classifier=_classifier(KINDS[kind], options),
            train=_file(path, "[data] train", data["train"]) or "",
            validation=_file(path, "[data] validation", data.get("validation")),
            format=format,
            min_frequency=check_integer("[data] min_frequency", data.get("min_frequency", 1), 1),
            model=_file(path, "[output] model", output.get("model")),
            checkpoint=_file(path, "[output] checkpoint", output.get("checkpoint")),
            checkpoint_every=check_integer(
                "[output] checkpoint_every", output.get("checkpoint_every", CHECKPOINT_EVERY), 1
            ),
            checkpoint_seconds=check_number(
                "[output] checkpoint_seconds", output.get("checkpoint_seconds", CHECKPOINT_SECONDS), "seconds >= 0"
            ),
        )
    except OptionError as fault:
        raise OptionError(f"{path}: {fault}") from None


def _sections(path: str) -> dict[str, dict[str, Any]]:
    """All four, keys known."""
    with open(path, "rb") as file:
        try:
            given = tomllib.load(file)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
            raise FileFormatError(f"{path}: no TOML: {fault}") from None
    known = _known()
    for section, keys in given.items():
        if section not in known:
            raise OptionError(f"{path}: [{section}] is unknown{nearest(section, known)}")
        if not isinstance(keys, dict):
            raise OptionError(f"{path}: {section} must be a section [{section}]; got {keys!r:.60}")
        for key in keys:
            if key in known[section]:
                continue
            places = [f"[{other}]" for other, names in known.items() if key in names]
            hint = f"; it belongs to {places[0]}" if places else nearest(key, known[section])
            raise OptionError(f"{path}: [{section}] has no key {key!r:.60}{hint}")
    return {section: dict(given.get(section, {})) for section in known}


def _known() -> dict[str, tuple[str, ...]]:
    """Keys by section; options are named as in Python."""
    own = {name for kind in KINDS.values() for name in kind().get_params()}
    training = sorted((own | set(option_names(BlendedLearner))) - {*MODEL, *UNSAVED, "options"})
    return {"data": DATA, "model": ("kind", *MODEL), "training": tuple(training), "output": OUTPUT}


def _options(kind: type[StructuredClassifier], model: dict[str, Any], training: dict[str, Any]) -> dict[str, Any]:
    for name in model:
        if name not in kind().get_params() and name not in option_names(BlendedLearner):
            raise OptionError(f"[model] {name} means nothing to a {kind.__name__}")
    return {**model, **training}


def _classifier(kind: type[StructuredClassifier], options: dict[str, Any]) -> StructuredClassifier:
    """With what it does not take itself as options of its learner."""
    own = [name for name in kind().get_params() if name != "options"]
    more = {name: value for name, value in options.items() if name not in own}
    classifier = kind().set_params(options=more or None, **{name: options[name] for name in own if name in options})
    classifier.check()
    return classifier


def _file(path: str, key: str, value: Any) -> str | None:
    """Names are relative to the folder of the configuration."""
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise OptionError(f"{key} must be the name of a file; got {value!r:.60}")
    return os.path.join(os.path.dirname(path), value)
