"""Linear chains against CRFsuite: the same features, the same objective, side by side on one machine.

    make bench-crfsuite                           # all of it
    make bench-crfsuite BENCH_ARGS=letters        # handwritten words, fold 0 against the other nine
    make bench-crfsuite BENCH_ARGS=chunking       # CoNLL-2000, word and tag windows

CRFsuite minimises the negative log-likelihood plus c2 |w|^2: our C is 2 c2. Both have all state and transition
features. Only training is timed, of each on the data in its own form; CRFsuite has one thread, and so have
we unless --threads says more. Prints ratios, writes JSON. Runs in processes of their own, one after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

STUDIES = ("letters", "chunking")
C2 = 1.0
MIN_FREQUENCY = 3
"""of attributes of the chunking study"""


def letters() -> dict[str, Any]:
    """Words whose inked pixels are the attributes, and a constant one: fold 0 is the test."""
    from blendfield.datasets import load

    words = load("letters")
    return {
        part: (
            [[["bias", *map(str, row.nonzero()[0])] for row in word.pixels.reshape(-1, 128)] for word in chosen],
            [[str(label) for label in word.labels] for word in chosen],
        )
        for part, chosen in (
            ("train", [word for word in words if word.fold != 0]),
            ("test", [word for word in words if word.fold == 0]),
        )
    }


def chunking() -> dict[str, Any]:
    """Sentences of CoNLL-2000 with windows of words and tags; attributes that training has seen often enough."""
    from blendfield.datasets import load

    data: dict[str, Any] = {}
    for part in ("train", "test"):
        sentences = load("conll2000", split=part)
        X = [[window(s.words, s.tags, t) for t in range(len(s.words))] for s in sentences]
        if part == "train":
            counts = Counter(name for items in X for item in items for name in item)
            known = {name for name, count in counts.items() if count >= MIN_FREQUENCY}
        X = [[[name for name in item if name in known] for item in items] for items in X]
        data[part] = X, [s.chunks for s in sentences]
    return data


def window(words: Sequence[str], tags: Sequence[str], t: int) -> list[str]:
    """Words and tags at distance up to two, neighbouring pairs of both, triples of tags."""

    def joined(column: Sequence[str], name: str, first: int, last: int) -> list[str]:
        if t + first < 0 or t + last >= len(column):
            return []
        return [f"{name}[{first}..{last}]=" + "|".join(column[t + first : t + last + 1])]

    found = []
    for width, name, column in ((1, "w", words), (2, "w", words), (1, "p", tags), (2, "p", tags), (3, "p", tags)):
        starts = range(-2, 4 - width) if name == "p" or width == 1 else (-1, 0)
        for first in starts:
            found += joined(column, name, first, first + width - 1)
    return found


def theirs(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    """CRFsuite with its defaults: L-BFGS."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params({"c1": 0.0, "c2": C2, "feature.possible_states": 1, "feature.possible_transitions": 1})
    X, y = data["train"]
    for items, labels in zip(X, y, strict=True):
        trainer.append(pycrfsuite.ItemSequence(items), labels)
    model = str(folder / "crfsuite.model")
    started = time.perf_counter()
    trainer.train(model)
    seconds = time.perf_counter() - started
    last = trainer.logparser.last_iteration
    tagger = pycrfsuite.Tagger()
    tagger.open(model)
    X, y = data["test"]
    predicted = [tagger.tag(pycrfsuite.ItemSequence(items)) for items in X]
    facts = tagger.info()
    states = [[name, label, w] for (name, label), w in facts.state_features.items()]
    transitions = [[a, b, w] for (a, b), w in facts.transitions.items()]
    (folder / "weights.json").write_text(json.dumps({"states": states, "transitions": transitions}))
    return {"objective": last["loss"], "iterations": last["num"], "seconds": seconds, **quality(predicted, y)}


def ours(data: dict[str, Any], folder: Path, threads: int, tolerance: float) -> dict[str, Any]:
    """`BlendedLearner`, and its objective at the weights of CRFsuite."""
    import numpy as np
    from scipy.sparse import csr_array

    import blendfield as bf

    X, y = data["train"]
    columns: dict[str, int] = {}
    for items in X:
        for item in items:
            for name in item:
                columns.setdefault(name, len(columns))
    labels = sorted({label for own in y for label in own})
    number = {label: k for k, label in enumerate(labels)}
    graphs: dict[int, bf.RegionGraph] = {}

    def sample(items: list[list[str]], own: list[str] | None) -> bf.Sample:
        length = len(items)
        if length not in graphs:
            graphs[length] = bf.chain_graph(length, len(labels))
        graph = graphs[length]
        known = [[columns[name] for name in item if name in columns] for item in items]
        ends = np.concatenate([[0], np.cumsum([len(item) for item in known])])
        indices = np.array([k for item in known for k in item], dtype=np.int64)
        features = csr_array((np.ones(len(indices)), indices, ends), shape=(length, len(columns)))
        blocks = [bf.TiedLinear("states", graph.single_regions, features)]
        blocks.append(bf.TiedLinear("transitions", np.arange(length - 1), np.ones((length - 1, 1))))
        truth = None if own is None else [number[label] for label in own]
        return bf.Sample(graph, blocks, truth, loss=None)

    samples = [sample(items, own) for items, own in zip(X, y, strict=True)]
    options: dict[str, Any] = {"epsilon": 1.0, "C": 2 * C2, "counting_numbers": "bethe", "threads": threads}
    learner = bf.BlendedLearner(tolerance=tolerance, **options)
    started = time.perf_counter()
    learner.fit(samples)
    seconds = time.perf_counter() - started
    tests = [sample(items, None) for items in data["test"][0]]
    # The best labelling, as CRFsuite hands it back, and the most probable label of every item.
    best, probable = (
        [[labels[k] for k in own] for own in learner.predict(tests, **options)]
        for options in ({"decode": "map", "epsilon": 0.0}, {})
    )
    saved = json.loads((folder / "weights.json").read_text())
    weights = np.zeros_like(learner.weights_)
    views = learner.layout_.views(weights)
    for name, label, w in saved["states"]:
        views["states"][number[label], columns[name]] = w
    table = views["transitions"].reshape(len(labels), len(labels))
    for a, b, w in saved["transitions"]:
        table[number[a], number[b]] = w
    at_theirs = bf.BlendedLearner(max_iterations=0, **options).fit(samples, initial=weights)
    return {
        "objective": learner.primal_,
        "gap": learner.gap_,
        "iterations": learner.n_iter_,
        "stop_reason": learner.stop_reason_,
        "seconds": seconds,
        "at_their_weights": at_theirs.primal_,
        "weights": len(weights),
        **quality(best, data["test"][1]),
        **{f"{name} item by item": value for name, value in quality(probable, data["test"][1]).items()},
    }


def quality(predicted: list[list[str]], truth: list[list[str]]) -> dict[str, float]:
    """Share of right labels, and F1 of whole chunks in per cent where labels begin with B- and I-."""
    right = sum(a == b for own, other in zip(predicted, truth, strict=True) for a, b in zip(own, other, strict=True))
    found = {"accuracy": right / sum(map(len, truth))}
    if any(label.startswith("B-") for own in truth for label in own):
        a, b = chunks(predicted), chunks(truth)
        found["f1"] = 200.0 * len(a & b) / (len(a) + len(b))
    return found


def chunks(labels: list[list[str]]) -> set[tuple[int, int, int, str]]:
    """(sentence, first, behind the last, kind), as the shared task counts them."""
    found = set()
    for k, own in enumerate(labels):
        start, kind = 0, ""
        for t, label in enumerate([*own, "O"]):
            begins, _, now = label.partition("-")
            if kind and (now != kind or begins == "B"):
                found.add((k, start, t, kind))
                kind = ""
            if now and not kind:
                start, kind = t, now
    return found


def study(name: str, threads: int, tolerance: float, repeats: int) -> dict[str, Any]:
    """Each side in a process of its own; of `repeats` runs in turn the fastest counts."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    found: dict[str, Any] = {"theirs": [], "ours": []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repeats):
            for side in found:
                command = [sys.executable, __file__, name, "--side", side, "--folder", folder]
                command += ["--threads", str(threads), "--tolerance", str(tolerance)]
                done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
                found[side].append(json.loads(done.stdout))
    best = {side: min(runs, key=lambda run: run["seconds"]) for side, runs in found.items()}
    a, b = best["ours"], best["theirs"]
    print(f"{name}, {threads} thread(s)")
    print(f"  objective   ours {a['objective']:.4f} (gap {a['gap']:.2g})   CRFsuite {b['objective']:.4f}")
    print(f"              ours at CRFsuite's weights {a['at_their_weights']:.4f}")
    print(f"  difference  {(a['objective'] - b['objective']) / b['objective']:+.2e} relative")
    for measure in ("accuracy", "f1"):
        if measure in a:
            each = a[f"{measure} item by item"]
            print(f"  {measure:11} ours {a[measure]:.4f} ({each:.4f} item by item)   CRFsuite {b[measure]:.4f}")
    print(f"  iterations  ours {a['iterations']}   CRFsuite {b['iterations']}")
    print(f"  time        {a['seconds'] / b['seconds']:.3f} of CRFsuite's", flush=True)
    return {"ours": a, "theirs": b, "time_ratio": a["seconds"] / b["seconds"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="*", choices=[*STUDIES, []], default=[])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tolerance", type=float, default=1e-4, help="of ours: relative gap")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("results/crfsuite.json"))
    parser.add_argument("--side", choices=("ours", "theirs"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        data = {"letters": letters, "chunking": chunking}[options.study[0]]()
        if options.side == "ours":
            print(json.dumps(ours(data, options.folder, options.threads, options.tolerance)))
        else:
            print(json.dumps(theirs(data, options.folder)))
        return
    results = {
        name: study(name, options.threads, options.tolerance, options.repeats) for name in options.study or STUDIES
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
