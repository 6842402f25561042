"""Text of nested brackets with words between them: what a `.cfn` file is once its optional signs are left out."""

from __future__ import annotations

import re
from itertools import islice
from typing import NoReturn

import numpy as np

from blendfield.errors import FileFormatError
from blendfield.formats.compressed import Path
from blendfield.formats.numbers import FloatArray, line_of, shown

MAX_DEPTH = 16

_PIECE = re.compile(rb"[\[\]{}]|[^\[\]{}]+")
_WORD = re.compile(rb'[^\s,:"]+')
_SEPARATORS = bytes.maketrans(b',:"', b"   ")
_CLOSING = {b"{": b"}", b"[": b"]"}


class Group:
    """What stands between two brackets: words and groups, taken one after the other."""

    __slots__ = ("_next", "_runs", "items", "source", "start", "stop")

    def __init__(self, source: Source, start: int) -> None:
        self.items: list[bytes | Group] = []
        self.source = source
        self.start = start
        """Byte of the opening bracket"""
        self.stop = len(source.text)
        """Byte of the closing bracket"""
        self._runs: list[tuple[int, int]] = []
        """(item, byte) where each run of words begins"""
        self._next = 0

    def add_words(self, words: list[bytes], start: int) -> None:
        self._runs.append((len(self.items), start))
        self.items += words

    @property
    def left(self) -> int:
        return len(self.items) - self._next

    def peek(self) -> bytes | Group | None:
        """The next item; None at the end."""
        return self.items[self._next] if self.left else None

    def skip(self, word: bytes) -> bool:
        """Takes the next item if it is this word."""
        if self.peek() != word:
            return False
        self._next += 1
        return True

    def word(self, expected: str) -> bytes:
        item = self.peek()
        if not isinstance(item, bytes):
            self.fail(expected)
        self._next += 1
        return item

    def group(self, expected: str) -> Group:
        item = self.peek()
        if not isinstance(item, Group):
            self.fail(expected)
        self._next += 1
        return item

    def number(self, expected: str) -> float:
        value = as_number(self.word(expected))
        if not np.isfinite(value):
            self._next -= 1
            self.fail(expected)
        return value

    def numbers(self, expected: str) -> FloatArray:
        """All that is left, float64; nan where there is a word that is no number."""
        rest = self.items[self._next :]
        for k, item in enumerate(rest):
            if isinstance(item, Group):
                self.fail(expected, k)
        words: list[bytes] = rest  # type: ignore[assignment]
        try:
            if any(b"_" in word for word in words):
                raise ValueError
            return np.fromiter(map(float, words), np.float64, len(words))
        except ValueError:
            return np.array([as_number(word) for word in words])

    def end(self) -> None:
        if self.left:
            self.fail("the end of the brackets")

    def fail(self, expected: str, ahead: int = 0) -> NoReturn:
        """Raises the error that the item so far ahead of the next is not what was expected."""
        place = self._next + ahead
        item = self.items[place] if place < len(self.items) else None
        if isinstance(item, Group):
            got, where = "a bracket", item.start
        else:
            got = shown(item) if item is not None else "the end of the brackets"
            where = self._byte(place) if item is not None else self.stop
        self.source.fail(where, expected, got)

    def _byte(self, place: int) -> int:
        """Where the word that is item `place` stands in the text."""
        first, start = max(run for run in self._runs if run[0] <= place)
        return next(islice(_WORD.finditer(self.source.text, start), place - first, None)).start()


class Source:
    """A file and its text; `parse` gives what stands between the outermost brackets."""

    def __init__(self, path: Path, text: bytes) -> None:
        self.path = path
        self.text = text

    def parse(self) -> Group:
        outside = Group(self, 0)
        open_groups, closing = [outside], [b""]
        for piece in _PIECE.finditer(self.text):
            content, start = piece.group(), piece.start()
            if content in _CLOSING:
                if len(open_groups) > MAX_DEPTH:
                    self.fail(start, f"at most {MAX_DEPTH} brackets in each other", shown(content))
                group = Group(self, start)
                open_groups[-1].items.append(group)
                open_groups.append(group)
                closing.append(_CLOSING[content])
            elif content in (b"}", b"]"):
                if content != closing[-1]:
                    self.fail(start, shown(closing[-1]) if closing[-1] else "the end of the file", shown(content))
                open_groups.pop().stop = start
                closing.pop()
            elif words := content.translate(_SEPARATORS).split():
                open_groups[-1].add_words(words, start)
        if len(open_groups) > 1:
            self.fail(len(self.text.rstrip()), shown(closing[-1]), "the end of the file")
        inside = outside.group("a bracket")
        if outside.left:
            outside.fail("the end of the file")
        return inside

    def fail(self, where: int, expected: str, got: str) -> NoReturn:
        raise FileFormatError(f"{self.path}:{self.line(where)}: expected {expected}, got {got}")

    def line(self, where: int) -> int:
        return line_of(self.text, where)


def as_number(word: bytes) -> float:
    """nan for what is no number."""
    try:
        return float("nan") if b"_" in word else float(word)
    except ValueError:
        return float("nan")
