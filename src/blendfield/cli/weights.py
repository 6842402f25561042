"""What `blendfield show` says about a learned model."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from blendfield.cli.outputs import plain
from blendfield.estimators import ChainClassifier, StructuredClassifier
from blendfield.formats.safetensors import TensorFile
from blendfield.learning.prediction import Predictor
from blendfield.learning.progress import duration

STRONGEST = 8
"""weights shown"""


def is_model(path: str) -> bool:
    """A file that begins like safetensors: the length of a heading, then the heading."""
    if path == "-" or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        head = file.read(9)
    return len(head) == 9 and head[8:] == b"{" and int.from_bytes(head[:8], "little") < 2**32


def summary(path: str) -> dict[str, Any]:
    """Numbers and names, ready for JSON."""
    learner = Predictor.load(path)
    classifier = StructuredClassifier.load(path) if hasattr(learner, "estimator_") else None
    layout = learner.layout_
    facts: dict[str, Any] = {
        "written_by": TensorFile(path).metadata.get("blendfield", ""),
        "model": repr(classifier) if classifier is not None else type(learner).__name__,
        "epsilon": learner.epsilon,
        "C": learner.C if isinstance(learner.C, (int, float)) else dict(learner.C),  # type: ignore[attr-defined]
        "counting_numbers": str(getattr(learner, "counting_numbers", None)),
        "weights": layout.size,
        "blocks": [
            {
                "name": name,
                "kind": shape.kind,
                "shape": list(shape.shape),
                "not_zero": int(np.count_nonzero(learner.blocks_[name])),
                "norm": float(np.linalg.norm(learner.blocks_[name])),
                "largest": float(np.abs(learner.blocks_[name]).max(initial=0.0)),
            }
            for name, shape in zip(layout.names, layout.shapes, strict=True)
        ],
    }
    for name in ("primal", "dual", "gap", "objective"):
        if hasattr(learner, f"{name}_"):
            facts[name] = plain(float(getattr(learner, f"{name}_")))
    facts["converged"] = bool(getattr(learner, "converged_", False))
    facts["stop_reason"] = getattr(learner, "stop_reason_", None)
    facts["iterations"] = getattr(learner, "n_iter_", None)
    seconds = getattr(learner, "history_", {}).get("seconds", [])
    facts["seconds"] = float(seconds[-1]) if len(seconds) else None
    if classifier is not None:
        facts["classes"] = classifier.classes_.tolist()
        facts["features"] = classifier.n_features_in_
        facts["strongest"] = _strongest(classifier)
    return facts


def _strongest(classifier: StructuredClassifier) -> dict[str, list[tuple[str, float]]]:
    """The largest weights, with what they are weights of."""
    classes = [str(name) for name in classifier.classes_.tolist()]
    names = classifier.feature_names_in_ or [f"feature {k}" for k in range(classifier.n_features_in_)]
    names = [*names, *(["(always)"] if classifier.node_weights_.shape[1] > len(names) else [])]
    found = {"nodes": _largest(classifier.node_weights_, lambda row, column: f"{names[column]} -> {classes[row]}")}
    if isinstance(classifier, ChainClassifier):
        found["transitions"] = _largest(classifier.transitions_, lambda a, b: f"{classes[a]} -> {classes[b]}")
    return found


def _largest(weights: Any, name: Any) -> list[tuple[str, float]]:
    count = min(STRONGEST, weights.size)
    places = np.argpartition(-np.abs(weights).ravel(), count - 1)[:count] if count else np.zeros(0, np.int64)
    places = places[np.argsort(-np.abs(weights).ravel()[places], kind="stable")]
    rows, columns = np.unravel_index(places, weights.shape)
    return [(name(row, column), float(weights[row, column])) for row, column in zip(rows, columns, strict=True)]


def lines(facts: dict[str, Any]) -> list[str]:
    """For people."""
    shown = [f"model       {facts['model']}"]
    if "classes" in facts:
        classes = [str(name) for name in facts["classes"]]
        more = " ..." if len(classes) > 30 else ""
        shown.append(f"labels      {len(classes)}: {' '.join(classes[:30])}{more}")
        shown.append(f"features    {facts['features']:,}")
    shown += [
        f"learned     epsilon {facts['epsilon']:g}, C {facts['C']}, counting numbers {facts['counting_numbers']}",
        f"weights     {facts['weights']:,}",
    ]
    for block in facts["blocks"]:
        shape = " x ".join(map(str, block["shape"]))
        size = f"{block['not_zero']:,} not zero, norm {block['norm']:.4g}, largest {block['largest']:.4g}"
        shown.append(f"{'':12}{block['name'] or '(triples)'}: {block['kind']} {shape}, {size}")
    for name in ("objective", "primal", "dual", "gap"):
        if facts.get(name) is not None:
            shown.append(f"{name:12}{facts[name]:.9g}")
    took = "" if facts["seconds"] is None else f", {duration(facts['seconds'])}"
    shown.append(f"stopped     {facts['stop_reason']} after {facts['iterations']} iterations{took}")
    for title, rows in facts.get("strongest", {}).items():
        for k, (name, weight) in enumerate(rows):
            shown.append(f"{title if k == 0 else '':12}{weight:+8.4f}  {name}")
    return shown
