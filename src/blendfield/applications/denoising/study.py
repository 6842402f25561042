"""The whole study: its cells, its record, and a model that can be kept."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from blendfield.applications.cells import Cell, Result, run_cells
from blendfield.applications.denoising.accuracy import accuracy_cells
from blendfield.applications.denoising.clean import model_cells
from blendfield.applications.denoising.configuration import DenoisingConfiguration
from blendfield.applications.denoising.double_loop import double_loop_cells
from blendfield.applications.denoising.record import record_of
from blendfield.applications.denoising.temperature import sharing_cells, temperature_cells
from blendfield.reports import RunRecord, write_report, write_run

_CELLS: dict[str, Callable[[DenoisingConfiguration], list[Cell]]] = {
    "accuracy": accuracy_cells,
    "temperature": temperature_cells,
    "sharing": sharing_cells,
    "double-loop": double_loop_cells,
}


@dataclass(frozen=True)
class Finished:
    """record: what a report shows; page: the report; noises: those with a model for `blendfield denoise predict` in the
    folder; whole: nothing is missing."""

    record: RunRecord
    page: Path
    noises: tuple[str, ...]
    whole: bool


def run_study(
    configuration: DenoisingConfiguration,
    folder: str | os.PathLike[str],
    command: str = "",
    done: Callable[[Cell, Result], object] | None = None,
) -> Finished:
    """Works out all cells that `folder` does not hold yet, then writes run.json and the report there.

    After Ctrl-C the report shows what is finished.
    """
    started = time.perf_counter()
    place = Path(folder)
    cells = [cell for study in configuration.studies for cell in _CELLS[study](configuration)]
    if "accuracy" in configuration.studies:
        cells += model_cells(configuration, place)
    results, whole = run_cells(cells, place / "cells", done)
    record = record_of(configuration, results, command)
    if not whole:
        record.notes.insert(
            0, f"Not finished: {len(results)} of {len(cells)} parts. The same command goes on from here."
        )
    record.seconds = time.perf_counter() - started
    write_run(place, record)
    noises = tuple(noise for noise in configuration.noises if f"model-{noise}" in results)
    return Finished(record, write_report([record], place), noises, whole)
