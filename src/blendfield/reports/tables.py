"""Numbers and tables as plain text and as HTML."""

from __future__ import annotations

import math
from html import escape

from blendfield.reports.record import Cell, Column, Table

MISSING = "–"


def formatted(value: Cell, decimals: int | None = None, digits: int = 3) -> str:
    """A cell in words: fixed decimals, or so many significant digits; powers of ten where zeros would hide them."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return MISSING
    if isinstance(value, str):
        return value
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if isinstance(value, int) and decimals is None:
        return f"{value:,}".replace("-", "−")
    if decimals is not None:
        return f"{value:,.{decimals}f}".replace("-", "−")
    if value and not 1e-3 <= abs(value) < 1e6:
        mantissa, _, power = f"{value:.{max(digits - 2, 0)}e}".partition("e")
        return f"{mantissa} × 10{superscript(int(power))}".replace("-", "−")
    places = max(digits - 1 - math.floor(math.log10(abs(value))), 0) if value else 0
    return f"{value:,.{places}f}".replace("-", "−")


def superscript(number: int) -> str:
    """Such as ⁻³."""
    return str(number).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def best_rows(table: Table) -> list[set[int]]:
    """For every column, the rows that hold its best number as shown; empty where no direction is better."""
    best: list[set[int]] = []
    for number, column in enumerate(table.columns):
        values = [row[number] for row in table.rows]
        usable = {
            k: float(value) for k, value in enumerate(values) if isinstance(value, int | float) and math.isfinite(value)
        }
        if not column.better or len(usable) < 2:
            best.append(set())
            continue
        goal = min(usable.values()) if column.better == "low" else max(usable.values())
        shown = formatted(float(goal), column.decimals)
        best.append({k for k, value in usable.items() if formatted(value, column.decimals) == shown})
    return best


def text_table(table: Table) -> str:
    """The table in plain text; a star marks the best number of a column."""
    best = best_rows(table)
    lines = [[_heading(column) for column in table.columns]]
    for number, row in enumerate(table.rows):
        cells = zip(row, table.columns, best, strict=True)
        lines.append([formatted(cell, c.decimals) + ("*" if number in stars else "") for cell, c, stars in cells])
    starred = [bool(stars) for stars in best]
    widths = [max(len(line[k]) for line in lines) for k in range(len(table.columns))]
    left = [_is_text(table, k) for k in range(len(table.columns))]
    body = []
    for number, line in enumerate(lines):
        padded = []
        for k, cell in enumerate(line):
            if not left[k] and starred[k] and not cell.endswith("*"):
                cell += " "  # numbers stay below each other
            padded.append(cell.ljust(widths[k]) if left[k] else cell.rjust(widths[k] + starred[k]))
        body.append("  ".join(padded).rstrip())
        if number == 0:
            body.append("-" * max(len(body[0]), sum(widths) + 2 * (len(widths) - 1)))
    return "\n".join([table.title, "", *body, *(["", table.note] if table.note else []), ""])


def html_table(table: Table) -> str:
    """The table in HTML, in a box of its own that scrolls sideways where the page is narrow."""
    best = best_rows(table)
    kinds = ["text" if _is_text(table, k) else "number" for k in range(len(table.columns))]
    head = "".join(
        f'<th scope="col" class="{kind}">{escape(column.name)}{_unit(column)}</th>'
        for column, kind in zip(table.columns, kinds, strict=True)
    )
    rows = []
    for number, row in enumerate(table.rows):
        cells = []
        for k, (cell, column) in enumerate(zip(row, table.columns, strict=True)):
            text = escape(formatted(cell, column.decimals))
            if number in best[k]:
                text = f"<strong>{text}</strong>"
            cells.append(f'<th scope="row">{text}</th>' if k == 0 else f'<td class="{kinds[k]}">{text}</td>')
        rows.append(f"<tr>{''.join(cells)}</tr>")
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(table.title, quote=True)}"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>{note}"
    )


def _heading(column: Column) -> str:
    return f"{column.name} ({column.unit})" if column.unit else column.name


def _unit(column: Column) -> str:
    return f' <span class="unit">{escape(column.unit)}</span>' if column.unit else ""


def _is_text(table: Table, column: int) -> bool:
    return column == 0 or any(isinstance(row[column], str) for row in table.rows)
