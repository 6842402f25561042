"""From the record of a run to tables, figures and one self-contained HTML page."""

from blendfield.reports.histories import convergence, objective
from blendfield.reports.images import grey_image
from blendfield.reports.record import (
    Bars,
    Column,
    Figure,
    GreyImage,
    KeyNumber,
    Line,
    Lines,
    Panels,
    Plot,
    RunRecord,
    Table,
    history_of,
)
from blendfield.reports.report import text_report, write_report
from blendfield.reports.storage import read_run, write_run
from blendfield.reports.surroundings import machine_in_words, versions
from blendfield.reports.tables import text_table

__all__ = [
    "Bars",
    "Column",
    "Figure",
    "GreyImage",
    "KeyNumber",
    "Line",
    "Lines",
    "Panels",
    "Plot",
    "RunRecord",
    "Table",
    "convergence",
    "grey_image",
    "history_of",
    "machine_in_words",
    "objective",
    "read_run",
    "text_report",
    "text_table",
    "versions",
    "write_report",
    "write_run",
]
