"""Times of day in made-up sentences, from the command line: train, go on, evaluate, predict, show.

    python examples/tagging.py [FOLDER]

writes its data and tagging.toml into FOLDER (default: one that is removed at the end) and runs the commands there.
Every word is an item, with itself and its neighbours as attributes; labels say where a time begins (B-time) and goes
on (I-time). A number alone is no time: "at 7" is, "7 apples" are not.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

from blendfield import cli

COUNTS = {"train": 300, "held-out": 100, "test": 200}
FILLERS = ["we ate 7 apples and 12 eggs", "the 3 cats sleep", "nobody came", "it rained for 5 days", "call 4 friends"]
TIMES = ["at {n}", "at {n} {half}", "from {n} to {m} {half}", "at half past {n}", "before noon", "after {n}"]
NO_LABEL = {"at", "before", "after"}


def sentence(random: np.random.Generator) -> list[tuple[str, str]]:
    """(word, label) of every word."""
    parts = [(word, "O") for word in str(random.choice(FILLERS)).split()]
    numbers = {"n": random.integers(1, 13), "m": random.integers(1, 13), "half": random.choice(["am", "pm"])}
    words = str(random.choice(TIMES)).format(**numbers).split()
    outside = words[0] in NO_LABEL
    inside = words[1:] if outside else words
    time = [(words[0], "O")] if outside else []
    time += [(word, "I-time" if k else "B-time") for k, word in enumerate(inside)]
    return parts + time if random.random() < 0.5 else time + parts


def crfsuite_text(words: list[tuple[str, str]]) -> str:
    """A line per word: its label and attributes between tabs."""
    lines = []
    for t, (word, label) in enumerate(words):
        around = {"word": t, "before": t - 1, "after": t + 1}
        found = [f"{name}={words[k][0]}" for name, k in around.items() if 0 <= k < len(words)]
        lines.append("\t".join([label, *found, *(["digits"] if word.isdigit() else [])]))
    return "\n".join(lines) + "\n"


def blendfield(*arguments: str, codes: tuple[int, ...] = (0,)) -> str:
    """What the command prints."""
    print("$ blendfield", *arguments)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert cli.main(list(arguments)) in codes
    return printed.getvalue()


def main(folder: Path) -> None:
    random = np.random.default_rng(0)
    for name, count in COUNTS.items():
        text = "\n".join(crfsuite_text(sentence(random)) for _ in range(count))
        (folder / f"{name}.txt").write_text(text)
    shutil.copy(Path(__file__).with_name("tagging.toml"), folder)

    with contextlib.chdir(folder):
        # A run that is cut short leaves a model and a checkpoint; --resume goes on from there.
        print(blendfield("train", "tagging.toml", "--max-iterations", "5", codes=(1,)))
        print(blendfield("train", "tagging.toml", "--resume"))
        print(blendfield("evaluate", "tagger.safetensors", "test.txt"))
        print("\n".join(blendfield("predict", "tagger.safetensors", "test.txt").split("\n")[:8]))
        print(blendfield("show", "tagger.safetensors"))
        scores = json.loads(blendfield("evaluate", "tagger.safetensors", "test.txt", "--json"))
    assert scores["chunks"]["f1"] > 0.95, scores["chunks"]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as name:
            main(Path(name))
