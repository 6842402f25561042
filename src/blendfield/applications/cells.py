"""A study cut into cells: pieces of work that are kept when they are finished, so that it goes on where it stopped."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blendfield.errors import FileFormatError
from blendfield.files import written_atomically
from blendfield.learning.progress import duration
from blendfield.terminal import TerminalLine

Result = dict[str, Any]
"""numbers, strings, lists and dictionaries, as JSON has them; no NaN"""
Tell = Callable[[str], None]
"""called now and then with what is being done"""


@dataclass(frozen=True)
class Cell:
    """One piece of work.

    name: unique in the study, and its file's; inputs: all that the result depends on; work: from the results so far, by
    name, to the result; cost: in any unit, to foretell the time.
    """

    name: str
    inputs: dict[str, Any]
    work: Callable[[Mapping[str, Result], Tell], Result]
    cost: float = 1.0


def run_cells(
    cells: Sequence[Cell], folder: str | os.PathLike[str], done: Callable[[Cell, Result], object] | None = None
) -> tuple[dict[str, Result], bool]:
    """(results of the cells by name, whether they are all); what `folder` holds is not worked out again.

    A cell is kept with its inputs: with other inputs it is another cell. Ctrl-C ends the run with what is finished.

    A line of the terminal says which cell is at work and how long the rest will take. `done` is called after every
    cell, kept ones too. A result has "seconds" besides what the work gives back.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    results = {cell.name: kept for cell in cells if (kept := _read(place, cell)) is not None}
    line = TerminalLine()
    spent = cost = 0.0
    try:
        for number, cell in enumerate(cells):
            if cell.name not in results:
                left = sum(other.cost for other in cells[number:] if other.name not in results)
                forecast = f", about {duration(spent / cost * left)} left" if cost else ""

                def tell(text: str, number: int = number, cell: Cell = cell, forecast: str = forecast) -> None:
                    if line.due:
                        line.show(f"{number + 1} of {len(cells)}: {cell.name}  {text}{forecast}")

                tell("")
                started = time.perf_counter()
                try:
                    result = cell.work(results, tell)
                except KeyboardInterrupt:
                    return results, False
                result["seconds"] = time.perf_counter() - started
                spent, cost = spent + result["seconds"], cost + cell.cost
                results[cell.name] = result
                _write(place, cell, result)
                line.clear()
            if done is not None:
                done(cell, results[cell.name])
    finally:
        line.clear()
    return results, True


def finite(values: Sequence[float]) -> list[float | None]:
    """Numbers as JSON has them: None in place of NaN and infinity."""
    return [float(value) if math.isfinite(value) else None for value in values]


def _path(folder: Path, cell: Cell) -> Path:
    return folder / f"{cell.name}.json"


def _read(folder: Path, cell: Cell) -> Result | None:
    path = _path(folder, cell)
    if not path.exists():
        return None
    try:
        kept = json.loads(path.read_bytes())
        same = kept["inputs"] == json.loads(json.dumps(cell.inputs))
        return dict(kept["result"]) if same else None
    except (ValueError, KeyError, TypeError) as fault:
        raise FileFormatError(f"{path}: damaged; expected a finished cell of a study (delete it to go on)") from fault


def _write(folder: Path, cell: Cell, result: Result) -> None:
    content = json.dumps({"inputs": cell.inputs, "result": result}, allow_nan=False)
    with written_atomically(_path(folder, cell)) as file:
        file.write(content.encode())
