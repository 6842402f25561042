"""Learn the weights of a model from structures in files.

CONFIG.toml says which files, which model and where to put it (docs/command-line.md). SHARDS are folders or files that
`blendfield shard` or `write_shards` wrote, or patterns of them; the model is then the one they were written for. On a
terminal a line shows how far training is; Ctrl-C stops and keeps the best weights.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from typing import Any

from blendfield.cli import sharded
from blendfield.cli.arguments import integer, number
from blendfield.cli.configuration import Configuration, read_configuration
from blendfield.cli.outputs import check_folder, plain
from blendfield.cli.sharded import Work
from blendfield.errors import FeatureError, FileFormatError, LabelError, OptionError
from blendfield.estimators import StructuredClassifier
from blendfield.formats.structures import Structures, read_structures
from blendfield.learning.progress import duration

HELP = "learn the weights of a model"

NOT_CONVERGED = 1
INTERRUPTED = 130
OPTIONS = (
    *("epsilon", "C", "counting_numbers", "time_limit", "tolerance", "max_iterations"),
    *("threads", "memory_limit", "engine", "engine_address", "engine_workers", "engine_spare"),
)
"""of the learner, which the command line can set"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="CONFIG.toml|SHARDS",
        nargs="+",
        help="one configuration (data, model, training, output); or folders, files or patterns ('set/*') of shards",
    )
    parser.add_argument("--output", "-o", metavar="F", help="the model to write, in place of [output] model")
    parser.add_argument("--checkpoint", metavar="F", help="kept while training runs, in place of [output] checkpoint")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint, if there is one")
    model = parser.add_argument_group("what is minimised, in place of [model]")
    model.add_argument("--epsilon", metavar="E", type=number(0, "a temperature >= 0"), help="temperature")
    model.add_argument("--C", metavar="C", type=number(0, "a number >= 0"), help="strength of the regulariser")
    model.add_argument(
        "--counting-numbers", metavar="N", choices=("ones", "cover", "cover-outer", "bethe"), help="by name"
    )
    stop = parser.add_argument_group("when to stop, in place of [training]")
    stop.add_argument("--time-limit", metavar="S", type=number(0, "seconds >= 0"), help="seconds")
    stop.add_argument("--tolerance", metavar="T", type=number(0, "a number >= 0"), help="relative gap")
    stop.add_argument("--max-iterations", metavar="N", type=integer(0))
    machine = parser.add_argument_group("machine")
    machine.add_argument("--threads", metavar="N", type=integer(1), help="default: all cores")
    machine.add_argument(
        "--memory-limit",
        metavar="BYTES",
        type=integer(1),
        help="for compiled samples, of every worker; the rest is read in every iteration; default: all has to fit",
    )
    machine.add_argument("--engine", choices=("local", "ray"), help="where the samples are; default: local")
    machine.add_argument(
        "--address", metavar="A", dest="engine_address", help="of a Ray cluster: auto (default), local or HOST:PORT"
    )
    machine.add_argument(
        "--workers",
        metavar="N",
        dest="engine_workers",
        type=integer(1),
        help="on the cluster; default: one per machine",
    )
    machine.add_argument(
        "--no-spare",
        dest="engine_spare",
        action="store_const",
        const=False,
        help="keep no process ready on every machine for a worker that dies",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print JSON instead of the summary")
    output.add_argument("--quiet", "-q", action="store_true", help="no progress line")


def run(arguments: argparse.Namespace) -> int:
    changes = {name: getattr(arguments, name) for name in OPTIONS if getattr(arguments, name) is not None}
    changes["verbose"] = not arguments.quiet
    work = sharded.work(arguments.source, changes) if sharded.are_named(arguments.source) else _work(arguments, changes)
    model, checkpoint = arguments.output or work.model, arguments.checkpoint or work.checkpoint
    if model is None:
        raise OptionError(f"{work.source}: lacks the file to write: give --output, or the key 'model' in [output]")
    if arguments.resume and checkpoint is None:
        raise OptionError(f"{work.source}: --resume needs --checkpoint, or the key 'checkpoint' in [output]")
    for path in (model, checkpoint):
        if path is not None:  # before any work: what cannot be written is not worth learning
            check_folder(path)
    work.fit(
        checkpoint=checkpoint,
        checkpoint_every=work.checkpoint_every,
        checkpoint_seconds=work.checkpoint_seconds,
        resume=arguments.resume,
    )
    work.learner.save(model)
    facts = _facts(work, model)
    print(json.dumps(facts, allow_nan=False) if arguments.json else _text(facts), flush=True)
    if facts["stop_reason"] == "interrupted":
        return INTERRUPTED
    # With a validation set the weights kept need not be those that converged.
    return 0 if facts["stop_reason"] in ("converged", "validation") else NOT_CONVERGED


def _work(arguments: argparse.Namespace, changes: dict[str, Any]) -> Work:
    """What a configuration says."""
    if len(arguments.source) != 1:
        raise OptionError(f"expected one CONFIG.toml, or shards; got {' '.join(arguments.source):.80}")
    given = read_configuration(arguments.source[0], changes)
    kept = given.model, given.checkpoint, given.checkpoint_every, given.checkpoint_seconds
    classifier = given.classifier
    if sharded.is_named(given.train):
        shards = sharded.read([given.train])
        fit: Any = partial(classifier.fit_shards, shards)
        structures, names = len(shards), sharded.feature_names(shards)
    else:
        training = _training(given)
        fit = partial(classifier.fit, training.X, training.y, training.weights)
        structures, names = len(training.X), training.names
    held_out = _validation(given, names)
    validation = None if held_out is None else (held_out.X, held_out.y)

    def fitted(**options: Any) -> None:
        try:
            fit(validation=validation, **options)
        except (FeatureError, LabelError) as fault:
            of_validation = given.validation is not None and "validation" in str(fault)
            raise type(fault)(f"{given.validation if of_validation else given.train}: {fault}") from None
        classifier.feature_names_in_ = names

    return Work(given.path, given.kind, structures, classifier, fitted, *kept)


def read_data(given: Configuration) -> tuple[Structures, Structures | None]:
    """(structures for training, those for validation); both have labels and are of the model's kind."""
    training = _training(given)
    return training, _validation(given, training.names)


def _training(given: Configuration) -> Structures:
    return labelled(given.train, given.kind, given.format, None, given.min_frequency)


def _validation(given: Configuration, names: list[str] | None) -> Structures | None:
    """`names`: of the features in training."""
    if given.validation is None:
        return None
    return labelled(given.validation, given.kind, given.format, names, 1)


def labelled(path: str, kind: str, format: str | None, names: list[str] | None, min_frequency: int) -> Structures:
    """Structures of that kind with labels; FileFormatError otherwise."""
    found = read_structures(path, format, names, min_frequency)
    if found.kind != kind:
        raise FileFormatError(f"{path}: holds structures of kind {found.kind!r}; expected {kind!r} as the model")
    if found.y is None:
        raise FileFormatError(f"{path}: lacks the key 'labels'")
    return found


def _facts(work: Work, model: str) -> dict[str, Any]:
    classifier = work.learner if isinstance(work.learner, StructuredClassifier) else None
    learner = work.learner.learner_ if isinstance(work.learner, StructuredClassifier) else work.learner
    seconds = learner.history_["seconds"]
    return {
        "model": model,
        "kind": work.kind,
        "structures": work.structures,
        "labels": None if classifier is None else len(classifier.classes_),
        "features": None if classifier is None else classifier.n_features_in_,
        "weights": len(learner.weights_),
        "primal": plain(learner.primal_),
        "dual": plain(learner.dual_),
        "gap": plain(learner.gap_),
        "converged": bool(learner.converged_),
        "stop_reason": learner.stop_reason_,
        "iterations": learner.n_iter_,
        "seconds": float(seconds[-1]) if len(seconds) else 0.0,
        "validation_error": None if learner.validation_ is None else float(min(learner.validation_["error"])),
    }


def _text(facts: dict[str, Any]) -> str:
    size = "" if facts["labels"] is None else f", {facts['labels']} labels, {facts['features']:,} features"
    lines = [
        f"{facts['model']}: {facts['weights']:,} weights of a {facts['kind']} model{size}, "
        f"from {facts['structures']:,} structures",
    ]
    for name in ("primal", "dual"):
        lines.append(f"{name:9}" + ("unknown" if facts[name] is None else f"{facts[name]:.9g}"))
    gap, primal = facts["gap"], facts["primal"]
    share = "" if gap is None or primal is None else f"  ({gap / max(1.0, abs(primal)):.2g} of it)"
    lines.append("gap      " + ("unknown" if gap is None else f"{gap:.3g}{share}"))
    if facts["validation_error"] is not None:
        lines.append(f"error    {100 * facts['validation_error']:.4g} % on the validation set")
    lines.append(
        f"stopped  {facts['stop_reason']} after {facts['iterations']} iterations, {duration(facts['seconds'])}"
    )
    return "\n".join(lines)
