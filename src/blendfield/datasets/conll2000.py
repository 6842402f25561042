"""Text chunking: words with part-of-speech tags, to be labelled with chunks in the B/I/O notation."""

from __future__ import annotations

import zipfile
from typing import NamedTuple

from blendfield.datasets.catalogue import DataFile, DatasetInfo, find
from blendfield.errors import FileFormatError, OptionError

INFO = DatasetInfo(
    name="conll2000",
    title="text chunking of the CoNLL-2000 shared task",
    size=10948,
    licence="none stated",
    citation="E. F. Tjong Kim Sang, S. Buchholz: Introduction to the CoNLL-2000 shared task: chunking, CoNLL 2000",
    files=(DataFile("conll2000/conll2000.zip", "01e65164f268366e7caa0db92332a1955d081908c87016e2c7640c3c5279b7cd"),),
)


class Sentence(NamedTuple):
    """Lists of the same length: words, part-of-speech tags, chunk labels such as B-NP, I-NP, O."""

    words: list[str]
    tags: list[str]
    chunks: list[str]


def load(split: str = "train") -> list[Sentence]:
    """The 8,936 sentences for training, or the 2,012 of the split "test", which has one label that training lacks."""
    if split not in ("train", "test"):
        raise OptionError(f'split: expected "train" or "test", got {split!r:.60}')
    path = find(INFO)
    member = f"conll2000/{split}.txt"
    try:
        with zipfile.ZipFile(path) as archive:
            text = archive.read(member).decode("ascii")
    except (zipfile.BadZipFile, KeyError, UnicodeDecodeError) as fault:
        raise FileFormatError(f"{path}: expected a zip file with {member}") from fault
    return parse(text, f"{path}: {member}")


def parse(text: str, place: str) -> list[Sentence]:
    """Sentences of lines `word tag chunk`, blank lines between them. `place` stands before the line in errors."""
    sentences, tokens = [], []
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        fields = line.split()
        if fields:
            if len(fields) != 3:
                raise FileFormatError(f"{place}, line {number}: expected `word tag chunk`, got {line!r:.60}")
            tokens.append(fields)
        elif tokens:
            sentences.append(Sentence(*(list(column) for column in zip(*tokens, strict=True))))
            tokens = []
    return sentences
