"""The record of a run: everything a report shows, and everything needed to make the run again."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from blendfield.errors import OptionError
from blendfield.reports.surroundings import machine_in_words, versions

Better = Literal["low", "high", ""]  # which values are good ones; "": neither
Cell = float | int | str | None  # None: not available


@dataclass
class KeyNumber:
    """One of the few numbers that stand at the top. `digits`: significant ones."""

    name: str
    value: Cell
    unit: str = ""
    note: str = ""
    better: Better = ""
    digits: int = 3


@dataclass
class Column:
    """Heading of a column. `decimals`: places after the point, None for three significant digits."""

    name: str
    unit: str = ""
    decimals: int | None = None
    better: Better = ""


@dataclass
class Table:
    """Rows of cells, one per column; the first column names the row. `note` stands below."""

    title: str
    columns: list[Column]
    rows: list[list[Cell]]
    note: str = ""

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise OptionError(
                    f"table {self.title!r:.60}, row {number}: expected {len(self.columns)} cells, got {len(row)}"
                )


@dataclass
class Line:
    """Points joined by a line; points that are not finite, or not positive on a logarithmic axis, are left out.

    The name settles colour and marker. A dashed line is the companion of the solid one of the same name.
    """

    name: str
    x: list[float]
    y: list[float]
    dashed: bool = False

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise OptionError(f"line {self.name!r:.60}: expected as many y as x, {len(self.x)}; got {len(self.y)}")


@dataclass
class Plot:
    """One pair of axes. `y_range`: (lowest, highest) y that is shown."""

    x_label: str
    y_label: str
    lines: list[Line]
    x_log: bool = False
    y_log: bool = False
    y_range: list[float] | None = None


@dataclass
class Lines:
    """A figure of plots side by side; lines of the same name look the same in all of them."""

    title: str
    caption: str
    plots: list[Plot]


@dataclass
class Bars:
    """A figure that compares methods: values[group][method], one plot per group. `highlight` names our methods."""

    title: str
    caption: str
    groups: list[str]
    methods: list[str]
    values: list[list[Cell]]
    unit: str = ""
    highlight: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if [len(row) for row in self.values] != [len(self.methods)] * len(self.groups):
            raise OptionError(
                f"bars {self.title!r:.60}: expected {len(self.groups)} groups of {len(self.methods)} values"
            )


@dataclass
class GreyImage:
    """pixels: rows of bytes in hexadecimal, 00 black to ff white, all rows of the same length."""

    pixels: list[str]

    def __post_init__(self) -> None:
        lengths = {len(row) for row in self.pixels}
        if len(lengths) != 1 or lengths.pop() % 2:
            raise OptionError("image: expected rows of the same length, two hexadecimal digits per pixel")
        try:
            bytes.fromhex("".join(self.pixels))
        except ValueError:
            raise OptionError("image: expected hexadecimal digits") from None


@dataclass
class Panels:
    """A figure of images in rows and columns: images[row][column]."""

    title: str
    caption: str
    rows: list[str]
    columns: list[str]
    images: list[list[GreyImage]]

    def __post_init__(self) -> None:
        if [len(row) for row in self.images] != [len(self.columns)] * len(self.rows):
            raise OptionError(
                f"panels {self.title!r:.60}: expected {len(self.rows)} rows of {len(self.columns)} images"
            )


Figure = Lines | Bars | Panels


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


@dataclass
class RunRecord:
    """kind: which application; title: this run among others of its kind; answer: the result in one or two sentences.

    configuration and seeds: what to give to make the run again; values are numbers, strings, truth values, None, lists.
    histories: for each training run, columns of equal length such as iteration, primal, dual, gap, passes, seconds.
    notes: paragraphs; what was unexpected, and why.
    """

    kind: str
    title: str
    answer: str
    command: str = ""
    key_numbers: list[KeyNumber] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    configuration: dict[str, Any] = field(default_factory=dict)
    seeds: dict[str, int] = field(default_factory=dict)
    histories: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=versions)
    machine: str = field(default_factory=machine_in_words)
    created: str = field(default_factory=_now)
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name, history in self.histories.items():
            if len({len(column) for column in history.values()}) > 1:
                raise OptionError(f"history {name!r:.60}: expected columns of the same length")


def history_of(columns: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """A history with plain numbers, from arrays (such as `history_` of a learner)."""
    return {name: [float(value) for value in column] for name, column in columns.items()}
