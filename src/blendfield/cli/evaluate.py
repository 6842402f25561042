"""How many labels of a file a learned model gets right.

Prints the share of right labels and of structures without a mistake, precision, recall and F1 of every label, and where
labels are of the kinds B-x, I-x and O those of whole chunks.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from blendfield.cli.data import add_model_and_data, infer, load
from blendfield.cli.outputs import plain
from blendfield.errors import FileFormatError
from blendfield.reports.scores import Counts, Scores, score_labels

HELP = "how many labels a learned model gets right"

SHOWN = 40
"""labels in the table, the most frequent first"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_and_data(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")


def run(arguments: argparse.Namespace) -> int:
    classifier, structures = load(arguments)
    if structures.y is None:
        raise FileFormatError(f"{arguments.data}: lacks the key 'labels'")
    numeric = classifier.classes_.dtype.kind in "iub"
    if any((labels.dtype.kind in "iub") != numeric for labels in structures.y):
        kinds = ("integers", "strings") if numeric else ("strings", "integers")
        raise FileFormatError(f"{arguments.data}: the model's labels are {kinds[0]}; got {kinds[1]}")
    found = infer(arguments, classifier, structures)
    scores = score_labels(structures.y, [inferred.labels for inferred in found])
    print(json.dumps(_facts(arguments, scores), allow_nan=False) if arguments.json else _text(arguments, scores))
    return 0


def _facts(arguments: argparse.Namespace, scores: Scores) -> dict[str, Any]:
    return {
        "model": arguments.model,
        "data": arguments.data,
        "structures": scores.structures,
        "nodes": scores.nodes,
        "accuracy": scores.accuracy,
        "whole": scores.whole,
        "chunks": None if scores.chunks is None else _entry(scores.chunks),
        "labels": {name: _entry(counts) for name, counts in scores.labels.items()},
    }


def _entry(counts: Counts) -> dict[str, Any]:
    return {name: plain(getattr(counts, name)) for name in ("precision", "recall", "f1", "true", "predicted", "right")}


def _text(arguments: argparse.Namespace, scores: Scores) -> str:
    rows = sorted(scores.labels.items(), key=lambda row: (-row[1].true, row[0]))
    width = max(10, *(len(name) for name, _ in rows[:SHOWN]))
    lines = [
        f"{arguments.data}: {scores.nodes:,} labels of {scores.structures:,} structures, by {arguments.model}",
        f"right labels       {100 * scores.accuracy:.4g} %",
        f"whole structures   {100 * scores.whole:.4g} %",
        "",
        f"{'label':{width}}  precision  recall      F1      true",
    ]
    for name, counts in rows[:SHOWN]:
        lines.append(_row(name, counts, width))
    if len(rows) > SHOWN:
        lines.append(f"... and {len(rows) - SHOWN} others")
    if scores.chunks is not None:
        lines += ["", _row("chunks", scores.chunks, width)]
    return "\n".join(lines)


def _row(name: str, counts: Counts, width: int) -> str:
    shares = (counts.precision, counts.recall, counts.f1)
    precision, recall, f1 = ("-" if share != share else f"{100 * share:.2f}" for share in shares)
    return f"{name:{width}}  {precision:>9}  {recall:>6}  {f1:>6}  {counts.true:>8,}"
