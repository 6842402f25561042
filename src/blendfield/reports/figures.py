"""Figures of a record, drawn by matplotlib: SVG for the page, PNG files to use elsewhere.

The SVG is drawn in placeholder colours that become CSS variables of the page: one drawing, light and dark.
Lines differ by dashes and markers as well as by colour, bars carry their numbers: both can be read in black and white.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from blendfield.extras import needed
from blendfield.reports.images import pixels_of
from blendfield.reports.record import Bars, Figure, Line, Lines, Panels, Plot
from blendfield.reports.tables import formatted, superscript

NUM_COLOURS = 7
WIDE, NARROW = 8.2, 3.7  # inches; the page scales them to its width
_MARKERS = "os^Dv*P"
_DASHES: tuple[Any, ...] = ("-", (0, (6, 1.5)), (0, (2, 1.2)), (0, (7, 1.5, 1.5, 1.5)), (0, (4, 3)), (0, (1, 1)), "-")
_MOST_POINTS = 250
_LONGEST_NAME = 42  # of a legend


@dataclass(frozen=True)
class _Theme:
    ink: str
    muted: str
    grid: str
    fill: str
    series: tuple[str, ...]


_PLACEHOLDERS = _Theme(
    "#010203", "#010204", "#010205", "#010206", tuple(f"#0102{16 + k:02x}" for k in range(NUM_COLOURS))
)
_VARIABLES = {
    "#010203": "var(--ink)",
    "#010204": "var(--muted)",
    "#010205": "var(--grid)",
    "#010206": "var(--fill)",
} | {colour: f"var(--series-{k})" for k, colour in enumerate(_PLACEHOLDERS.series)}
LIGHT_SERIES = ("#0072b2", "#d55e00", "#00805d", "#a6539a", "#806600", "#3b8fc4", "#555555")  # after Okabe and Ito
DARK_SERIES = ("#56b4e9", "#ff8c42", "#2fd1a3", "#e39ccb", "#e8c33c", "#a8d8f8", "#bbbbbb")
_PAPER = _Theme("#1a1a1a", "#555555", "#dddddd", "#b9bec4", LIGHT_SERIES)


def svg(figure: Lines | Bars, name: str, narrow: bool = False) -> str:
    """The figure as an <svg> element whose colours and fonts are CSS variables of the page.

    name: unique on the page; identifiers inside the drawing begin with it.
    """
    salt = f"{name}-narrow" if narrow else name
    stream = io.StringIO()
    with _style() as matplotlib:
        matplotlib.rcParams["svg.hashsalt"] = salt
        drawn = _draw(figure, _PLACEHOLDERS, NARROW if narrow else WIDE)
        drawn.savefig(stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'<svg ([^>]*?)width="[^"]*"', r"<svg \1", text, count=1)
    text = re.sub(r'<svg ([^>]*?)height="[^"]*"', r"<svg \1", text, count=1)
    # Identifiers are unique on a page: those of groups are dropped, those that are referred to get the salt.
    referred = set(re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', text))
    names = {name for pair in referred for name in pair if name}
    text = re.sub(r' id="([^"]+)"', lambda m: f' id="{salt}-{m[1]}"' if m[1] in names else "", text)
    text = re.sub(r'(url\(#|href="#)', rf"\g<1>{salt}-", text)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, variable)
    text = re.sub(r"'DejaVu Sans'(, [^;\"]*)?", "var(--sans)", text)
    return text.replace("<svg ", f'<svg role="img" aria-label="{_attribute(figure.title)}" ', 1).strip()


def png(figure: Figure) -> bytes:
    """The figure as a PNG file on white, for slides and papers."""
    stream = io.BytesIO()
    with _style():
        drawn = _draw(figure, _PAPER, WIDE, title=True)
        drawn.savefig(stream, format="png", dpi=170, facecolor="white", metadata={"Software": None})
    return stream.getvalue()


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")


@contextmanager
def _style() -> Iterator[Any]:
    """Settings under which figures are drawn, and the matplotlib module. The caller's own settings stay as they are."""
    matplotlib = needed("matplotlib", "plot", "drawing figures")
    settings = {
        "svg.fonttype": "none",
        "font.family": "DejaVu Sans",
        "font.size": 9,
        "axes.titlesize": 9.5,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.8,
        "lines.linewidth": 1.6,
        "lines.markersize": 4.5,
    }
    with matplotlib.rc_context(settings):
        yield matplotlib


def _draw(figure: Figure, theme: _Theme, width: float, title: bool = False) -> Any:
    if isinstance(figure, Lines):
        drawn = _draw_lines(figure, theme, width)
    elif isinstance(figure, Bars):
        drawn = _draw_bars(figure, theme, width)
    else:
        drawn = _draw_panels(figure, theme, width)
    if title:
        drawn.suptitle(figure.title, x=0.01, ha="left", color=theme.ink, fontsize=11)
    return drawn


def _new(width: float, height: float) -> Any:
    from matplotlib.figure import Figure as Canvas

    return Canvas(figsize=(width, height), layout="constrained")


# ---------------------------------------------------------------------------------------------------------- lines


def _draw_lines(figure: Lines, theme: _Theme, width: float) -> Any:
    columns = 1 if width < WIDE else min(len(figure.plots), 2)
    rows = math.ceil(len(figure.plots) / columns)
    names = list(dict.fromkeys(line.name for plot in figure.plots for line in plot.lines))
    legend_columns = max(1, int(width / (0.55 + 0.085 * max(map(len, names), default=1))))
    legend_rows = math.ceil(len(names) / legend_columns) if len(names) > 1 else 0
    drawn = _new(width, rows * (2.9 if columns > 1 else 2.6) + 0.2 * legend_rows + 0.15)
    grid = drawn.subplots(rows, columns, squeeze=False).ravel()
    for axes, plot in zip(grid, figure.plots, strict=False):
        _draw_plot(axes, plot, names, theme)
    for axes in grid[len(figure.plots) :]:
        axes.set_axis_off()
    if legend_rows:
        handles: dict[str, Any] = {}
        for axes in grid:
            for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
                handles.setdefault(name, handle)
        drawn.legend(
            handles.values(),
            [name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…" for name in handles],
            loc="outside upper left",
            ncols=legend_columns,
            frameon=False,
            labelcolor=theme.ink,
            handlelength=3.2,
            columnspacing=1.2,
            borderaxespad=0.1,
        )
    return drawn


def _draw_plot(axes: Any, plot: Plot, names: list[str], theme: _Theme) -> None:
    shown = []
    for line in plot.lines:
        x, y = _usable(line, plot)
        shown.append((x, y))
        number = names.index(line.name)
        label = None if line.dashed else line.name
        axes.plot(
            x,
            y,
            color=theme.series[number % NUM_COLOURS],
            linestyle=(0, (2, 1.4)) if line.dashed else _DASHES[number % len(_DASHES)],
            marker=_MARKERS[number % len(_MARKERS)],
            markevery=0.12,  # of the diagonal of the plot
            markerfacecolor="none" if line.dashed else theme.series[number % NUM_COLOURS],
            label=label,
        )
    _axis(axes.xaxis, axes.set_xscale, plot.x_log, np.concatenate([x for x, _ in shown] or [np.zeros(0)]))
    _axis(axes.yaxis, axes.set_yscale, plot.y_log, np.concatenate([y for _, y in shown] or [np.zeros(0)]))
    if plot.y_range:
        axes.set_ylim(*plot.y_range)
    axes.set_xlabel(plot.x_label, color=theme.ink)
    axes.set_ylabel(plot.y_label, color=theme.ink)
    axes.grid(True, color=theme.grid, linewidth=0.7)
    axes.set_axisbelow(True)
    _frame(axes, theme)


def _usable(line: Line, plot: Plot) -> tuple[Any, Any]:
    """The points that can be shown, not too many of them and evenly spread along the axis."""
    x, y = np.asarray(line.x, np.float64), np.asarray(line.y, np.float64)
    fits = np.isfinite(x) & np.isfinite(y) & ((x > 0) | (not plot.x_log)) & ((y > 0) | (not plot.y_log))
    x, y = x[fits], y[fits]
    if len(x) > _MOST_POINTS:
        along = np.log(x) if plot.x_log else x
        wanted = np.linspace(along[0], along[-1], _MOST_POINTS)
        kept = np.unique(np.minimum(np.searchsorted(along, wanted), len(x) - 1))
        x, y = x[kept], y[kept]
    return x, y


def _axis(axis: Any, set_scale: Any, log: bool, values: Any) -> None:
    """Logarithmic axes name powers of ten, or, over less than a power and a half, 1, 2 and 5 times them."""
    from matplotlib import ticker

    if not log or not len(values):
        axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.6g}".replace("-", "−")))
        axis.set_major_locator(ticker.MaxNLocator(5))
        return
    set_scale("log")
    decades = math.log10(values.max() / values.min())
    if decades < 2:
        axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axis.set_minor_locator(ticker.NullLocator())
    else:
        axis.set_major_locator(ticker.LogLocator(numticks=7))
        if decades > 3:
            axis.set_minor_locator(ticker.NullLocator())
    axis.set_major_formatter(ticker.FuncFormatter(_power))
    axis.set_minor_formatter(ticker.NullFormatter())


def _power(value: float, _: Any = None) -> str:
    """A tick of a logarithmic axis."""
    if value <= 0:
        return ""
    power = math.floor(math.log10(value) + 1e-9)
    if -2 <= power <= 3:
        return f"{value:,.6g}"
    mantissa = value / 10**power
    times = "" if abs(mantissa - 1) < 1e-6 else f"{mantissa:.0f}·"
    return f"{times}10{superscript(power)}"


def _frame(axes: Any, theme: _Theme) -> None:
    axes.tick_params(which="both", colors=theme.muted, labelcolor=theme.ink, labelsize=8.5)
    for spine in axes.spines.values():
        spine.set_color(theme.muted)


# ----------------------------------------------------------------------------------------------------------- bars


def _draw_bars(figure: Bars, theme: _Theme, width: float) -> Any:
    columns = 1 if width < WIDE else min(len(figure.groups), 4)
    rows = math.ceil(len(figure.groups) / columns)
    drawn = _new(width, rows * (0.55 + 0.2 * len(figure.methods)) + 0.2)
    grid = drawn.subplots(rows, columns, squeeze=False, sharey=True, sharex=True)
    numbers = [float(v) for row in figure.values for v in row if isinstance(v, int | float) and math.isfinite(v)]
    highest = max([*numbers, 1e-12])
    places = np.arange(len(figure.methods))
    for group, axes in zip(range(len(figure.groups)), grid.ravel(), strict=False):
        values = [float(v) if isinstance(v, int | float) else math.nan for v in figure.values[group]]
        ours = [method in figure.highlight for method in figure.methods]
        axes.barh(
            places,
            np.nan_to_num(values),
            height=0.68,
            color=[theme.series[0] if mine else theme.fill for mine in ours],
            edgecolor=theme.muted,
            linewidth=0.5,
        )
        for place, value, mine in zip(places, values, ours, strict=True):
            axes.annotate(
                formatted(value, 2 if highest >= 0.1 else None),
                (0 if math.isnan(value) else value, place),
                xytext=(3, 0),
                textcoords="offset points",
                va="center",
                color=theme.ink,
                fontsize=8,
                fontweight="bold" if mine else "normal",
            )
        axes.set_xlim(0, highest * (1.32 if columns > 2 else 1.2))
        axes.set_yticks(places, figure.methods, fontsize=8.5)
        axes.set_title(figure.groups[group], color=theme.ink)
        axes.xaxis.set_major_locator(_few_ticks(columns))
        if group >= len(figure.groups) - columns:
            axes.set_xlabel(figure.unit, color=theme.ink)
        _frame(axes, theme)
        axes.tick_params(axis="y", length=0)
    for axes in grid.ravel()[len(figure.groups) :]:
        axes.set_axis_off()
    grid[0, 0].invert_yaxis()
    return drawn


def _few_ticks(columns: int) -> Any:
    from matplotlib import ticker

    return ticker.MaxNLocator(3 if columns > 2 else 5)


# --------------------------------------------------------------------------------------------------------- panels


def _draw_panels(figure: Panels, theme: _Theme, width: float) -> Any:
    rows, columns = len(figure.rows), len(figure.columns)
    side = min(2.0, width / columns)
    drawn = _new(side * columns + 0.4, side * rows + 0.6)
    grid = drawn.subplots(rows, columns, squeeze=False)
    for row in range(rows):
        for column in range(columns):
            axes = grid[row, column]
            axes.imshow(pixels_of(figure.images[row][column]), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
            axes.set_xticks([])
            axes.set_yticks([])
            for spine in axes.spines.values():
                spine.set_visible(True)
                spine.set_color(theme.muted)
            if row == 0:
                axes.set_title(figure.columns[column], color=theme.ink, loc="center")
            if column == 0:
                axes.set_ylabel(figure.rows[row], color=theme.ink)
    return drawn
