"""Several runs beside each other: what they were given, what came out, and how they got there."""

from __future__ import annotations

from collections import Counter
from typing import Any

from blendfield.reports.histories import convergence, objective
from blendfield.reports.record import Cell, Column, Figure, KeyNumber, RunRecord, Table
from blendfield.reports.tables import formatted


def compared(records: list[RunRecord]) -> RunRecord:
    """A record that compares the runs: their key numbers, and the entries of their configurations that differ."""
    names = _distinct_titles(records)
    numbers = _key_numbers(records, names)
    differing = _differences(records, names)
    kinds = list(dict.fromkeys(record.kind for record in records))
    return RunRecord(
        kind=f"{' and '.join(kinds)}: comparison",
        title=f"{len(records)} runs compared",
        answer=_answer(records, names),
        figures=_figures(records, names),
        tables=[table for table in (numbers, differing) if table.rows],
    )


def _distinct_titles(records: list[RunRecord]) -> list[str]:
    counts = Counter(record.title for record in records)
    seen: Counter[str] = Counter()
    names = []
    for record in records:
        seen[record.title] += 1
        names.append(record.title if counts[record.title] == 1 else f"{record.title} ({seen[record.title]})")
    return names


def _key_numbers(records: list[RunRecord], names: list[str]) -> Table:
    """One row per run, one column per key number, in the order in which they first occur."""
    first: dict[str, KeyNumber] = {}
    for record in records:
        for number in record.key_numbers:
            first.setdefault(number.name, number)
    rows: list[list[Cell]] = []
    for record, name in zip(records, names, strict=True):
        values = {number.name: number.value for number in record.key_numbers}
        rows.append([name, *(values.get(key) for key in first)])
    columns = [Column("run"), *(Column(key, number.unit, better=number.better) for key, number in first.items())]
    return Table("Key numbers", columns, rows if first else [])


def _differences(records: list[RunRecord], names: list[str]) -> Table:
    """One row per entry of configuration, seeds and versions that is not the same in all runs."""
    given: list[dict[str, Any]] = [
        record.configuration
        | {f"seed of {key}": value for key, value in record.seeds.items()}
        | {f"version of {key}": value for key, value in record.versions.items()}
        | {"machine": record.machine}
        for record in records
    ]
    keys = dict.fromkeys(key for entries in given for key in entries)
    rows: list[list[Cell]] = []
    for key in keys:
        values = [_cell(entries[key]) if key in entries else None for entries in given]
        if len({(type(value), value) for value in values}) > 1:
            rows.append([key, *values])
    return Table("What they were given, where it differs", [Column("entry"), *map(Column, names)], rows)


def _cell(value: Any) -> Cell:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return value if value is None or isinstance(value, int | str) else str(value)


def _answer(records: list[RunRecord], names: list[str]) -> str:
    """Who is best in the first key number that has a direction."""
    for number in (number for record in records for number in record.key_numbers if number.better):
        found = [
            (float(candidate.value), name)
            for record, name in zip(records, names, strict=True)
            for candidate in record.key_numbers
            if candidate.name == number.name and isinstance(candidate.value, int | float)
        ]
        if len(found) > 1:
            ordered = sorted(found, reverse=number.better == "high")
            (best, winner), (worst, _) = ordered[0], ordered[-1]
            unit = f" {number.unit}" if number.unit else ""
            tied = sum(formatted(value) == formatted(best) for value, _ in found)
            if tied == len(found):
                return f"All runs agree in {_lower(number.name)}: {formatted(best)}{unit}."
            also = f" ({tied} runs tie)" if tied > 1 else ""
            return (
                f"{winner} has the best {_lower(number.name)}: {formatted(best)}{unit}{also}; "
                f"the worst is {formatted(worst)}{unit}."
            )
    return "Side by side: " + "; ".join(names) + "."


def _lower(name: str) -> str:
    return name[0].lower() + name[1:] if len(name) > 1 and name[1].islower() else name


def _figures(records: list[RunRecord], names: list[str]) -> list[Figure]:
    """All training histories over each other; the objectives too where every configuration names the same one."""
    histories = {
        name if len(record.histories) == 1 else f"{name}: {key}": history
        for record, name in zip(records, names, strict=True)
        for key, history in record.histories.items()
        if {"iteration", "passes", "seconds", "primal", "dual", "gap"} <= set(history)
    }
    if not histories:
        return []
    objectives = {str(record.configuration.get("objective", "")) for record in records}
    figures: list[Figure] = [convergence(histories, "Certified gap against passes", against="passes")]
    if len(objectives) == 1 and "" not in objectives and len(histories) > 1:
        figures.append(
            objective(
                histories,
                "Objective against passes and seconds",
                "Above the best certified lower bound of all runs, which minimise the same objective.",
            )
        )
    return figures
