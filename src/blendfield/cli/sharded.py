"""Training sets in shards, as `blendfield train` is given them."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from blendfield.cli.configuration import CHECKPOINT_EVERY, CHECKPOINT_SECONDS
from blendfield.errors import FileFormatError
from blendfield.estimators import StructuredClassifier
from blendfield.formats.shards import Shards
from blendfield.learning import BlendedLearner

SUFFIX = ".safetensors"


@dataclass(frozen=True)
class Work:
    """What is learned, from what, and where it goes."""

    source: str
    """for errors"""
    kind: str
    """chain, grid or graph; "shards" where nothing is known of the samples but their features"""
    structures: int
    learner: StructuredClassifier | BlendedLearner
    fit: Callable[..., Any]
    """takes what `BlendedLearner.fit` takes besides samples"""
    model: str | None = None
    checkpoint: str | None = None
    checkpoint_every: int = CHECKPOINT_EVERY
    checkpoint_seconds: float = CHECKPOINT_SECONDS


def is_named(path: str) -> bool:
    """Is this a folder, a shard or a pattern, and not a file of structures?"""
    return os.path.isdir(path) or path.endswith(SUFFIX) or (glob.has_magic(path) and not os.path.exists(path))


def are_named(sources: Sequence[str]) -> bool:
    """Shards, and not a configuration?"""
    return all(map(is_named, sources))


def read(sources: Sequence[str]) -> Shards:
    """Headings of all shards, in the order given; patterns in order of names."""
    paths: list[str] = []
    for source in sources:
        found = sorted(glob.glob(source)) if glob.has_magic(source) and not os.path.exists(source) else [source]
        if not found:
            raise FileFormatError(f"{source}: no shard has such a name")
        paths += found
    return Shards(paths)


def feature_names(shards: Shards) -> list[str] | None:
    """Those that the classifier's features had in the file that the shards were made of."""
    names = shards.about.get("names") if isinstance(shards.about, dict) else None
    try:
        return None if names is None else list(json.loads(names.tobytes()))
    except (ValueError, AttributeError, TypeError) as fault:
        raise FileFormatError(f"{shards.paths[0]}: the names of the features are damaged ({fault})") from None


def work(sources: Sequence[str], changes: dict[str, Any]) -> Work:
    """Learn from shards with the parameters that they were written with, but for `changes`."""
    shards = read(sources)
    where = shards.paths[0]
    learner: StructuredClassifier | BlendedLearner
    if shards.about is None:
        learner, kind = BlendedLearner(**changes), "shards"
        fit: Callable[..., Any] = learner.fit
    else:
        learner = StructuredClassifier.of_record(shards.about, where)
        kind = type(learner).__name__.removesuffix("Classifier").lower()
        own = {name: changes[name] for name in changes if name in learner.get_params()}
        more = {name: changes[name] for name in changes if name not in own}
        learner.set_params(**own, options={**(learner.options or {}), **more} or None)
        learner.check()
        fit = learner.fit_shards
    return Work(where, kind, len(shards), learner, partial(fit, shards))
