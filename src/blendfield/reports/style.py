"""How the page looks: one style sheet, light and dark, wide and narrow."""

from __future__ import annotations

from importlib import resources

from blendfield.reports.figures import DARK_SERIES, LIGHT_SERIES


def style_sheet() -> str:
    """CSS of the page: `style.css` with the colours of the figures' lines filled in."""
    sheet = resources.files("blendfield.reports").joinpath("style.css").read_text("utf-8")
    return sheet.replace("/*light*/", _colours(LIGHT_SERIES)).replace("/*dark*/", _colours(DARK_SERIES))


def _colours(series: tuple[str, ...]) -> str:
    return " ".join(f"--series-{number}: {colour};" for number, colour in enumerate(series))
