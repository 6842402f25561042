"""`write_report`: records in, a folder with a page, tables and pictures out."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from blendfield.errors import OptionError
from blendfield.files import written_atomically
from blendfield.reports.compare import compared
from blendfield.reports.figures import png
from blendfield.reports.page import html_page
from blendfield.reports.record import RunRecord
from blendfield.reports.tables import formatted, text_table

PAGE = "index.html"
TABLES = "tables.txt"


def write_report(records: Sequence[RunRecord], folder: str | os.PathLike[str]) -> Path:
    """Writes `index.html`, `tables.txt` and one PNG per figure into the folder; returns the path of the page.

    One record is shown as it is. Several are compared, and follow one by one in the page.
    """
    if not records:
        raise OptionError("report: expected at least one run")
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    main = records[0] if len(records) == 1 else compared(list(records))
    pages = html_page(main, list(records) if len(records) > 1 else None)
    names: set[str] = set()
    for record in [main, *(records if len(records) > 1 else [])]:
        for figure in record.figures:
            _write(target / _distinct(_slug(figure.title), names), png(figure))
    _write(target / TABLES, text_report(main).encode())
    _write(target / PAGE, pages.encode())
    return target / PAGE


def text_report(record: RunRecord) -> str:
    """Answer, key numbers and tables in plain text."""
    lines = [record.title, "=" * len(record.title), "", record.answer, ""]
    width = max((len(number.name) for number in record.key_numbers), default=0)
    for number in record.key_numbers:
        value = formatted(number.value, digits=number.digits) + (f" {number.unit}" if number.unit else "")
        lines.append(f"{number.name:<{width}}  {value}" + (f"  ({number.note})" if number.note else ""))
    lines += ["", *(text_table(table) for table in record.tables), *record.notes]
    return "\n".join(lines).rstrip() + "\n"


def _write(path: Path, content: bytes) -> None:
    with written_atomically(path) as file:
        file.write(content)


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60] or "figure"


def _distinct(name: str, taken: set[str]) -> str:
    number, candidate = 2, name
    while candidate in taken:
        number, candidate = number + 1, f"{name}-{number}"
    taken.add(candidate)
    return f"{candidate}.png"
