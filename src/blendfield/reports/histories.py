"""Figures of training runs, from their histories."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from blendfield.errors import OptionError
from blendfield.reports.record import Line, Lines, Plot

Floats = npt.NDArray[np.float64]
History = Mapping[str, list[float]]
LABELS = {"iteration": "iteration", "passes": "passes over all tables", "seconds": "time (s)"}


def convergence(histories: Mapping[str, History], title: str, caption: str = "", against: str = "iteration") -> Lines:
    """Primal and dual, and the certified gap, against "iteration", "passes" or "seconds".

    A history has equal-length columns with that name and `primal`, `dual`, `gap`; dual and gap are NaN where they are
    not certified. The gap is shown relative to max(1, |primal|).
    Several runs are drawn as shares of their own descents: 1 is where the primal started, 0 where it ended.
    """
    bounds, gaps = [], []
    lowest, highest = np.inf, -np.inf
    alone = len(histories) == 1
    for name, history in histories.items():
        x, primal, dual = (_column(history, name, key) for key in (against, "primal", "dual"))
        if not len(x):
            continue
        last = primal[np.isfinite(primal)][-1] if np.isfinite(primal).any() else np.nan
        # Several runs have several optima: each is drawn as a share of its own descent.
        fall = 1.0 if alone else max(float(np.nanmax(primal) - last), 1e-300)
        shift = 0.0 if alone else last
        primal, dual = (primal - shift) / fall, (dual - shift) / fall
        bounds.append(_line("primal" if alone else name, x, primal))
        if np.isfinite(dual).any():
            bounds.append(_line("dual" if alone else name, x, dual, dashed=not alone))
        top, bottom = float(np.nanmax(primal)), float((last - shift) / fall)
        lowest, highest = min(lowest, bottom - 1.1 * (top - bottom)), max(highest, top + 0.1 * (top - bottom))
        gap = _column(history, name, "gap") / np.maximum(1, abs(_column(history, name, "primal")))
        if np.isfinite(gap).any():
            gaps.append(_line("gap" if alone else name, x, gap))
    seen = lowest < highest
    plots = [
        Plot(
            LABELS[against],
            "primal and dual" if alone else "primal (solid), dual (dashed)",
            bounds,
            x_log=True,
            y_range=[lowest, highest] if seen else None,
        )
    ]
    if gaps:
        plots.append(Plot(LABELS[against], "certified relative gap", gaps, x_log=True, y_log=True))
    return Lines(title, caption, plots)


def objective(histories: Mapping[str, History], title: str, caption: str = "") -> Lines:
    """How far every run is above the best known lower bound, against passes and against seconds.

    The runs minimise the same objective. The lower bound is the best certified dual of all; without one, the best
    primal stands in, whose own line then ends before it.
    """
    duals = [_column(history, name, "dual") for name, history in histories.items()]
    primals = [_column(history, name, "primal") for name, history in histories.items()]
    finite = [value for values in duals for value in values if np.isfinite(value)]
    reference = max(finite) if finite else min((v for values in primals for v in values if np.isfinite(v)), default=0.0)
    plots = []
    for against in ("passes", "seconds"):
        lines = [
            _line(name, _column(history, name, against), (primal - reference) / max(1.0, abs(reference)))
            for (name, history), primal in zip(histories.items(), primals, strict=True)
        ]
        plots.append(Plot(LABELS[against], "relative excess of the objective", lines, x_log=True, y_log=True))
    return Lines(title, caption, plots)


def _line(name: str, x: Floats, y: Floats, dashed: bool = False) -> Line:
    return Line(name, [float(value) for value in x], [float(value) for value in y], dashed)


def _column(history: History, name: str, key: str) -> Floats:
    if key not in history:
        raise OptionError(f"history {name!r:.60}: expected a column {key!r}, got {', '.join(history)}")
    return np.asarray(history[key], np.float64)
