"""Files that are a long list of numbers between blanks: read at once, taken one field after the other."""

from __future__ import annotations

import math
import re
from itertools import islice
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from blendfield.errors import FileFormatError
from blendfield.formats.compressed import Path, read_text
from blendfield.inference import memory

CHUNK = 2**20
MAX_WORDS = 2**20
MAX_INTEGER = 2**31 - 1

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_TOKEN = re.compile(rb"\S+")
_BLANK = re.compile(rb"\s")
_LARGE_EXPONENT = re.compile(rb"[eE][+-]?0*[1-9]\d\d")
_DECIMAL = re.compile(rb"\+?(\d*)\.?(\d*)(?:[eE]([+-]?\d{1,110}))?")


class Numbers:
    """The numbers of a file, and the place up to which they have been used.

    values: float64 [n], nan where the file has a word instead; `words` has these by index.
    Every method that takes numbers raises FileFormatError with the line when they are not what was expected.
    """

    def __init__(self, path: Path, text: bytes | None = None, words: bool = False) -> None:
        """`text`: instead of the file's own, of the same length where line numbers matter. `words`: are allowed."""
        self.path = path
        self.text = read_text(path) if text is None else text
        self.position = 0
        self.words: dict[int, bytes] = {}
        self._allowed = MAX_WORDS if words else 0
        self._skipped = 0
        self._may_exceed_float = False
        self.values: FloatArray = np.zeros(0)

    def keyword(self, expected: str, *choices: bytes) -> bytes:
        """The first word of the file, before its numbers; one of `choices` if there are any."""
        found = _TOKEN.search(self.text)
        word = found.group() if found else b""
        if not found or (choices and word not in choices):
            self.fail(0, expected)
        self._skipped = found.end()
        return word

    def skip(self, position: int) -> None:
        """The numbers begin at this byte or later."""
        self._skipped = max(self._skipped, position)

    def parse(self) -> None:
        """Turns all that follows the keyword into numbers, a chunk at a time: Python's objects are larger than text."""
        text, start = self.text, self._skipped
        parts: list[FloatArray] = []
        count = 0
        while start < len(text):
            blank = _BLANK.search(text, start + CHUNK)
            stop = blank.start() if blank else len(text)
            chunk = text[start:stop]
            tokens = chunk.split()
            self._may_exceed_float |= max(map(len, tokens), default=0) >= 300 or (
                (b"e" in chunk or b"E" in chunk) and _LARGE_EXPONENT.search(chunk) is not None
            )
            try:
                if b"_" in chunk:  # float would take 1_000
                    raise ValueError
                part = np.fromiter(map(float, tokens), np.float64, len(tokens))
            except ValueError:
                part = self._with_words(tokens, count)
            parts.append(part)
            count += len(part)
            start = stop
            memory.require(16 * count, f"{self.path}: its numbers")
        self.values = np.concatenate(parts) if parts else self.values

    def _with_words(self, tokens: list[bytes], first: int) -> FloatArray:
        part = np.empty(len(tokens))
        for k, token in enumerate(tokens):
            try:
                part[k] = math.nan if b"_" in token else float(token)
            except ValueError:
                part[k] = math.nan
            if math.isnan(part[k]):
                if len(self.words) >= self._allowed:
                    self.fail(first + k, "a number")
                self.words[first + k] = token
        return part

    @property
    def left(self) -> int:
        return len(self.values) - self.position

    def integer(self, expected: str, least: int = 0, most: int = MAX_INTEGER) -> int:
        """The next number."""
        return self.short_row(1, expected, least, most)[0]

    def short_row(self, count: int, expected: str, least: int = 0, most: int = MAX_INTEGER) -> list[int]:
        """`integers` for a few numbers, without the overhead of arrays: files have millions of short rows."""
        first = self.position
        self.need(count, expected)
        self.position += count
        row = self.values[first : self.position].tolist()
        for k, value in enumerate(row):
            if not least <= value <= most or value != int(value):
                self.fail(first + k, expected)
        return list(map(int, row))

    def integers(self, count: int, expected: str, least: int = 0, most: int = MAX_INTEGER) -> IntArray:
        """The next `count` numbers, int64 [count]."""
        first = self.position
        self.need(count, expected)
        self.position += count
        values = self.values[first : self.position]
        self.check(values, (values >= least) & (values <= most) & (values == np.floor(values)), first, expected)
        return values.astype(np.int64)

    def reals(self, count: int, expected: str, least: float = -math.inf) -> FloatArray:
        """The next `count` finite numbers, float64 [count], a view."""
        first = self.position
        self.need(count, expected)
        self.position += count
        values = self.values[first : self.position]
        self.check(values, np.isfinite(values) & (values >= least), first, expected)
        return values

    def need(self, count: int, expected: str) -> None:
        """So many numbers must be left."""
        if count > self.left:
            more = f"{count} numbers, but {self.left} are left: {expected}" if count > 1 else expected
            self.fail(len(self.values) if count == 1 else self.position, more)

    def check(self, values: FloatArray, good: npt.NDArray[np.bool_], first: int, expected: str) -> None:
        """All `values`, numbers first, first + 1, ... of the file, must be good."""
        if not good.all():
            self.fail(first + int(good.argmin()), expected)

    def end(self) -> None:
        """Nothing may be left."""
        if self.left:
            self.fail(self.position, "the end of the file")

    def fail(self, index: int, expected: str) -> NoReturn:
        """Raises the error that number `index` is not what was `expected`."""
        found = self._find(index)
        got = shown(found.group()) if found else "the end of the file"
        raise FileFormatError(f"{self.path}:{self.line(index)}: expected {expected}, got {got}")

    def line(self, index: int) -> int:
        """The line of number `index`, from 1; the last one beyond the end."""
        found = self._find(index)
        return line_of(self.text, found.start() if found else len(self.text.rstrip()))

    def _find(self, index: int) -> re.Match[bytes] | None:
        return next(islice(_TOKEN.finditer(self.text, self._skipped), index, None), None)

    def logs(self, indices: IntArray, what: str) -> FloatArray:
        """Logarithms of numbers `indices`, increasing, which must be >= 0: float64 [len(indices)], log 0 = -inf.

        Numbers beyond the range of float64 (1e-400), which writers here produce for scores far from zero, are read
        from their digits.
        """
        values = self.values[indices]
        good = values >= 0
        if not good.all():
            self.fail(int(indices[good.argmin()]), what)
        with np.errstate(divide="ignore"):
            logs: FloatArray = np.log(values)
        extreme = np.flatnonzero((values < 1e-300) | np.isinf(values))
        if extreme.size and self._may_exceed_float:
            wanted = set(indices[extreme].tolist())
            place = dict(zip(indices[extreme].tolist(), extreme.tolist(), strict=True))
            for k, token in enumerate(_TOKEN.finditer(self.text, self._skipped)):
                if k in wanted:
                    logs[place[k]] = log_of(token.group())
        bad = logs == np.inf
        if bad.any():
            self.fail(int(indices[bad.argmax()]), what)
        return logs


def log_of(token: bytes) -> float:
    """log of a decimal of any size, from its digits; inf for what is no finite decimal."""
    match = _DECIMAL.fullmatch(token)
    if not match:
        return math.inf
    whole, fraction, exponent = match.groups()
    digits = (whole + fraction).lstrip(b"0")
    if not digits:
        return -math.inf
    # 0.d1d2d3... times ten to the power of
    power = int(exponent or 0) + len(digits) - len(fraction)
    return math.log(float(b"0." + digits[:25])) + power * math.log(10)


def line_of(text: bytes, position: int) -> int:
    """Line of a byte, from 1."""
    return text.count(b"\n", 0, position) + 1


def shown(token: bytes) -> str:
    """A token as it may stand in a message: one line, short, printable."""
    return repr(token[:30].decode("ascii", "replace") + ("..." if len(token) > 30 else ""))


def power_text(logs: FloatArray) -> list[str]:
    """Decimals with these logarithms, float64 [n]; -inf is 0. Numbers float64 cannot hold keep their digits."""
    usual = (np.abs(logs) < 690) | np.isneginf(logs)
    with np.errstate(over="ignore", under="ignore"):
        texts = [repr(value) if value else "0" for value in np.exp(np.where(usual, logs, 0.0)).tolist()]
    for k in np.flatnonzero(~usual).tolist():
        exponent, mantissa = divmod(float(logs[k]) / math.log(10), 1)
        texts[k] = f"{10**mantissa!r}e{int(exponent)}"
    return texts
