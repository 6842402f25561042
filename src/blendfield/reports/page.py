"""A record as one HTML page that needs nothing else: no network, no script, no other file."""

from __future__ import annotations

import base64
from html import escape
from typing import Any

from blendfield.reports.figures import svg
from blendfield.reports.images import pixels_of, png_bytes
from blendfield.reports.record import Figure, KeyNumber, Panels, RunRecord, Table
from blendfield.reports.style import style_sheet
from blendfield.reports.tables import formatted, html_table


def html_page(record: RunRecord, appendices: list[RunRecord] | None = None) -> str:
    """The page of a record: answer, key numbers, figures, tables, details; then the appendices, folded."""
    body = [
        _section("figures", "Figures", _figures(record, "figure")),
        _section("tables", "Tables", [_block(table) for table in record.tables]),
        _section("notes", "Notes", [f'<p class="text">{escape(note)}</p>' for note in record.notes]),
        _section("runs", "The runs", [_appendix(run, f"run-{number}") for number, run in enumerate(appendices or [])]),
        _section("details", "Details", _details(record)),
    ]
    links = [
        (name, title)
        for name, title, there in (
            ("figures", "Figures", record.figures),
            ("tables", "Tables", record.tables),
            ("notes", "Notes", record.notes),
            ("runs", "The runs", appendices),
            ("details", "Details", True),
        )
        if there
    ]
    navigation = "".join(f'<a href="#{name}">{title}</a>' for name, title in links)
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<meta http-equiv="Content-Security-Policy" '
            "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">",
            f'<title>{escape(record.title)}</title><link rel="icon" href="data:,">',
            f"<style>{style_sheet()}</style></head><body>",
            f'<header><div><p class="kind">{escape(record.kind)}</p><h1>{escape(record.title)}</h1>',
            f'<p class="answer">{escape(record.answer)}</p><nav>{navigation}</nav></div></header>',
            f"<main>{_tiles(record.key_numbers)}",
            *body,
            f"</main><footer>Made {escape(record.created)} by blendfield {escape(record.versions['blendfield'])}"
            f"{_took(record)} on {escape(record.machine)}.</footer></body></html>",
            "",
        ]
    )


def _section(name: str, title: str, content: list[str]) -> str:
    return f'<section id="{name}"><h2>{title}</h2>{"".join(content)}</section>' if content else ""


def _tiles(numbers: list[KeyNumber]) -> str:
    tiles = []
    for number in numbers:
        unit = f'<span class="unit">{escape(number.unit)}</span>' if number.unit else ""
        note = f'<span class="note">{escape(number.note)}</span>' if number.note else ""
        value = escape(formatted(number.value, digits=number.digits))
        tiles.append(
            f'<li><span class="name">{escape(number.name)}</span><span class="value">{value}{unit}</span>{note}</li>'
        )
    return f'<ul class="tiles">{"".join(tiles)}</ul>' if tiles else ""


def _figures(record: RunRecord, prefix: str) -> list[str]:
    return [_figure(figure, f"{prefix}-{number}") for number, figure in enumerate(record.figures)]


def _figure(figure: Figure, name: str) -> str:
    caption = f"<figcaption>{escape(figure.caption)}</figcaption>" if figure.caption else ""
    if isinstance(figure, Panels):
        drawing = _panels(figure)
    else:
        drawing = (
            f'<div class="wide">{svg(figure, name)}</div><div class="narrow">{svg(figure, name, narrow=True)}</div>'
        )
    return f"<figure><h3>{escape(figure.title)}</h3>{drawing}{caption}</figure>"


def _panels(figure: Panels) -> str:
    """One group per row of images, as many groups beside each other as there is room for."""
    columns = f"grid-template-columns: repeat({len(figure.columns)}, minmax(0, 1fr))"
    groups = []
    for row, images in zip(figure.rows, figure.images, strict=True):
        cells = [f'<div class="row">{escape(row)}</div>']
        for column, image in zip(figure.columns, images, strict=True):
            pixels = pixels_of(image)
            data = base64.b64encode(png_bytes(pixels)).decode()
            alternative = escape(f"{row}: {column}", quote=True)
            cells.append(
                f'<div><img alt="{alternative}" width="{pixels.shape[1]}" height="{pixels.shape[0]}" '
                f'src="data:image/png;base64,{data}"><span class="column">{escape(column)}</span></div>'
            )
        groups.append(f'<div class="group" style="{columns}">{"".join(cells)}</div>')
    return f'<div class="panels">{"".join(groups)}</div>'


def _block(table: Table) -> str:
    return f'<div class="block"><h3>{escape(table.title)}</h3>{html_table(table)}</div>'


def _appendix(run: RunRecord, name: str) -> str:
    content = [
        f'<p class="text">{escape(run.answer)}</p>',
        _tiles(run.key_numbers),
        *_figures(run, name),
        *(_block(table) for table in run.tables),
        *(f'<p class="text">{escape(note)}</p>' for note in run.notes),
        *_details(run),
    ]
    return f"<details><summary>{escape(run.title)}</summary>{''.join(content)}</details>"


def _details(record: RunRecord) -> list[str]:
    command = f"<pre>{escape(record.command)}</pre>" if record.command else ""
    lists = [
        ("Configuration", record.configuration),
        ("Seeds", record.seeds),
        ("Versions", record.versions),
        ("Made", {"on": record.created, "machine": record.machine} | _duration(record)),
    ]
    folded = [f"<details><summary>{title}</summary>{_pairs(entries)}</details>" for title, entries in lists if entries]
    return [command, *folded]


def _pairs(entries: dict[str, Any]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(_value(value))}</td></tr>'
        for name, value in entries.items()
    )
    return f'<div class="scroll"><table><tbody>{rows}</tbody></table></div>'


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(_value(entry) for entry in value)
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_value(entry)}" for key, entry in value.items())
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _duration(record: RunRecord) -> dict[str, str]:
    return {} if record.seconds is None else {"took": f"{formatted(record.seconds)} s"}


def _took(record: RunRecord) -> str:
    return "" if record.seconds is None else f" in {formatted(record.seconds)} s"
