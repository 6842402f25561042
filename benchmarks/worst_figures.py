"""Rows of a study of exactness: the worst figure of many runs against its limit. No figure may be NaN."""

from __future__ import annotations

import time

import numpy as np


class WorstFigures:
    """Prints a row for each figure and counts those beyond their limits."""

    def __init__(self) -> None:
        self.failures = 0

    def row(self, what: str, worst: float, limit: float, count: int, started: float) -> None:
        """`count`: problems behind the figure; `started`: time.perf_counter() when their study began."""
        fails = not worst <= limit
        self.failures += fails
        print(
            f"{what:<78} {worst:>10.2e}  limit {limit:.0e}  {count:>4} problems {time.perf_counter() - started:>6.1f}s"
            f"{'  FAILS' if fails else ''}",
            flush=True,
        )


def worse(so_far: float, figure: float) -> float:
    """The larger; NaN counts as infinite."""
    return max(so_far, np.inf if np.isnan(figure) else figure)
