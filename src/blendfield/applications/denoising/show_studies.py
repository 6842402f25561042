"""Tables and figures of the small studies and of the double loop, from the results of their cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from blendfield.applications.cells import Result
from blendfield.applications.denoising import double_loop, temperature
from blendfield.applications.denoising.double_loop import SETTINGS, WAYS, Setting, Way, first_reaching
from blendfield.reports import Column, Figure, Line, Lines, Plot, Table, convergence, history_of
from blendfield.reports.record import Cell

SLACK = 1e-5
"""an objective is reached when so little, relative, is missing: a tenth of the gap at which runs stop"""
Results = Mapping[str, Result]
Columns = dict[str, list[float]]


def history(columns: Mapping[str, Sequence[float | None]]) -> Columns:
    """With NaN where JSON has null."""
    return history_of({name: [math.nan if v is None else v for v in values] for name, values in columns.items()})


# --------------------------------------------------------------------------------------------------------- 10 x 10


def temperature_runs(results: Results) -> list[tuple[str, float, Result]]:
    """(how the entropies are counted, or "exact"; temperature; result) of every finished row."""
    rows = [
        (numbers, epsilon, temperature.blend_name(numbers, epsilon))
        for numbers in temperature.COUNTING_NUMBERS
        for epsilon in temperature.TEMPERATURES
    ]
    rows += [("exact", epsilon, temperature.exact_name(epsilon)) for epsilon in temperature.EXACT_TEMPERATURES]
    return [(numbers, epsilon, results[name]) for numbers, epsilon, name in rows if name in results]


def small_tables(results: Results) -> list[Table]:
    """Temperatures, and sharing."""
    tables = []
    runs = temperature_runs(results)
    pixels = temperature.COPIES * temperature.SIZE**2
    if runs:
        hot = [Column(f"ε = {e:g}", decimals=0) for e in temperature.TEMPERATURES]
        columns = [Column("trained at"), Column("relative gap"), Column("training", "s"), Column("iterations"), *hot]
        rows: list[list[Cell]] = [
            [
                f"ε = {epsilon:g}, {numbers}",
                run["relative_gap"],
                run["training_seconds"],
                run["iterations"],
                *(run["wrong"][f"{e:g}"] for e in temperature.TEMPERATURES),
            ]
            for numbers, epsilon, run in runs
        ]
        note = (
            f"10 x 10 pixels, {temperature.COPIES} images to train and to test, pixels flipped with probability 0.2, "
            f"{runs[0][2]['weights']} free weights without biases. The last columns: wrong test pixels of "
            f"{pixels:,} when labels are predicted at that temperature. cover, ones: counting numbers; exact: the "
            "exact likelihood, by variable elimination, trained without loss and predicted by exact marginals. The "
            "paper needed 323, 324, 326 and 294 s for a gap of 1e-5 (1.3 at ε = 0)."
        )
        tables.append(Table("Temperatures, in training and in prediction", columns, rows, note))
    shared = [(model, results[f"sharing-{model}"]) for model in temperature.MODELS if f"sharing-{model}" in results]
    if shared:
        columns = [Column("weights"), Column("number of weights"), Column("wrong in training"), Column("wrong in test")]
        columns.append(Column("relative gap"))
        rows = [
            [temperature.MODELS[m], r["weights"], r["wrong_in_training"]["1"], r["wrong"]["1"], r["relative_gap"]]
            for m, r in shared
        ]
        note = f"Of {pixels:,} pixels each; ε = 1, the same images as above. The paper: shared 16 wrong, free 2."
        tables.append(Table("Shared against free weights", columns, rows, note))
    return tables


def small_figures(results: Results) -> list[Figure]:
    """Primal, dual and gap at every temperature."""
    histories = {
        f"ε = {epsilon:g}": history(run["history"])
        for numbers, epsilon, run in temperature_runs(results)
        if numbers == temperature.COUNTING_NUMBERS[0]
    }
    if not histories:
        return []
    caption = (
        "10 x 10 pixels, counting numbers cover. Left: every run as a share of its own descent, 1 where the primal "
        "began and 0 where it ended. Right: the certified gap over max(1, |primal|)."
    )
    return [convergence(histories, "Primal, dual and gap by temperature", caption)]


# ------------------------------------------------------------------------------------------------------ double loop


def loops(results: Results, setting: Setting) -> dict[Way, Result]:
    """What is finished."""
    named = {way: double_loop.name_of(setting, way) for way in WAYS}
    return {way: results[name] for way, name in named.items() if name in results}


def shares(found: Mapping[Way, Result], way: Way, kept: bool) -> tuple[float, float]:
    """(passes, seconds) that `way` needs to the final objective of the double loop, k = 50, over what that needs."""
    longest = found[Way(max(double_loop.SWEEPS), kept)]
    goal = longest["primal"] + SLACK * abs(longest["primal"])
    theirs = first_reaching(longest["history"], goal)
    ours = first_reaching(found[way]["history"], goal)
    return ours[0] / theirs[0], ours[1] / theirs[1]


def loop_tables(results: Results) -> list[Table]:
    """One per setting."""
    tables = []
    for setting in SETTINGS:
        found = loops(results, setting)
        if not {Way(max(double_loop.SWEEPS)), Way(max(double_loop.SWEEPS), False)} <= set(found):
            continue
        columns = [Column("sweeps per step"), Column("stopped"), Column("relative gap"), Column("passes", decimals=0)]
        columns += [Column("time", "s"), Column("test error", "%", 3)]
        columns += [Column("passes, of k = 50"), Column("time, of k = 50")]
        columns += [Column("passes, of k = 50 erased"), Column("time, of k = 50 erased")]
        rows: list[list[Cell]] = []
        for way, run in found.items():
            past = run["history"]
            ratios = [*shares(found, way, True), *shares(found, way, False)]
            rows.append(
                [
                    way.title,
                    run["stopped"],
                    run["relative_gap"],
                    past["passes"][-1],
                    past["seconds"][-1],
                    run["test"]["error"][-1],
                    *(ratio if math.isfinite(ratio) else "never" for ratio in ratios),
                ]
            )
        note = (
            f"Gaussian noise, protocol {'B' if setting.model == 'tied' else 'A'}, {double_loop.IMAGES} training "
            f"images; every run to a certified relative gap of {double_loop.TOLERANCE:g}, or "
            f"{double_loop.MOST_PASSES:,} passes, or {double_loop.TIME_LIMIT:g} s. Time: of the processor, one thread. "
            "The last columns: what it took to reach the final objective of the double loop (k = 50, messages kept or "
            f"erased) within {SLACK:g}, as a share of what that took. Mixed: by Anderson's method, our default; all "
            "others are plain."
        )
        tables.append(Table(f"Blend against double loop: {setting.title}", columns, rows, note))
    return tables


def loop_figures(results: Results) -> list[Figure]:
    """The objective against passes and seconds, and the test error, for every k."""
    figures: list[Figure] = []
    for setting in SETTINGS:
        found = loops(results, setting)
        if not found:
            continue
        duals = [value for run in found.values() for value in run["history"]["dual"] if value is not None]
        best = max(duals)
        plots = []
        for against, label in (("passes", "passes over all tables"), ("seconds", "processor time (s)")):
            lines = []
            for way, run in found.items():
                past = history(run["history"])
                excess = (np.array(past["primal"]) - best) / max(1.0, abs(best))
                lines.append(Line(_line_name(way), past[against], excess.tolist(), dashed=not way.kept))
            plots.append(Plot(label, "relative excess of the objective", lines, x_log=True, y_log=True))
        caption = (
            "Above the best certified lower bound. Filled markers: messages kept from step to step; hollow ones: "
            "erased, the classical double loop. k: sweeps per step in the weights."
        )
        figures.append(Lines(f"Blend and double loop: {setting.title}", caption, plots))
        figures.append(_test_figure(setting, found))
    return figures


def _test_figure(setting: Setting, found: Mapping[Way, Result]) -> Lines:
    plots = []
    for against, label in (("passes", "passes over all tables"), ("seconds", "processor time (s)")):
        lines = [
            Line(_line_name(way), run["test"][against], run["test"]["error"], dashed=not way.kept)
            for way, run in found.items()
        ]
        plots.append(Plot(label, "wrong test pixels (%)", lines, x_log=True))
    return Lines(f"Test error on the way: {setting.title}", "Lines as in the figure before.", plots)


def _line_name(way: Way) -> str:
    return Way(way.sweeps, True, way.mixed).title
