"""The record of a study: what came out, in words, numbers, tables and figures."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from blendfield.applications.cells import Result
from blendfield.applications.denoising import methods, show_studies
from blendfield.applications.denoising.accuracy import CHOOSING, HELD_OUT, SIMPLE, row_name, rows_of
from blendfield.applications.denoising.configuration import C_GRID, DenoisingConfiguration
from blendfield.applications.denoising.double_loop import SETTINGS, SWEEPS, Way
from blendfield.applications.denoising.show_accuracy import accuracy_figures, accuracy_tables, errors_of
from blendfield.reports import KeyNumber, RunRecord, convergence
from blendfield.reports.tables import formatted

Results = Mapping[str, Result]
THIRD = 1 / 3
"""of the double loop's passes and time, at most, should be enough for the blend"""


def record_of(configuration: DenoisingConfiguration, results: Results, command: str) -> RunRecord:
    """Everything that the results of the cells say."""
    accuracy = "accuracy" in configuration.studies
    figures = accuracy_figures(configuration, results) if accuracy else []
    histories = _histories(configuration, results)
    if histories:
        caption = "The first picture. Runs with several optima are shares of their own descents, 1 to 0."
        figures.append(convergence(histories, "Training: primal, dual and certified gap", caption))
    figures += show_studies.small_figures(results) + show_studies.loop_figures(results)
    tables = accuracy_tables(configuration, results) if accuracy else []
    tables += show_studies.small_tables(results) + show_studies.loop_tables(results)
    return RunRecord(
        kind="Denoising",
        title=_title(configuration),
        answer=_answer(configuration, results),
        command=command,
        key_numbers=_key_numbers(configuration, results),
        figures=figures,
        tables=tables,
        notes=_notes(configuration, results),
        configuration=configuration.entries(),
        seeds={"noise and places": configuration.seed},
        histories=histories,
    )


def _title(configuration: DenoisingConfiguration) -> str:
    noises = " and ".join(map(_named, configuration.noises))
    return f"Binary pictures found again in {noises} noise"


def _histories(configuration: DenoisingConfiguration, results: Results) -> dict[str, dict[str, list[float]]]:
    """Of the blend on the first picture, by noise and protocol."""
    found = {}
    if "accuracy" in configuration.studies:
        for noise in configuration.noises:
            for protocol in configuration.protocols:
                model = configuration.model_of(protocol)
                cell = results.get(row_name(noise, protocol, "blend", model, configuration.loss, 0))
                if cell is not None:
                    found[f"{_named(noise)}, protocol {protocol}"] = show_studies.history(cell["history"])
    return found


def _means(configuration: DenoisingConfiguration, results: Results, noise: str, protocol: str) -> dict[str, float]:
    if "accuracy" not in configuration.studies:
        return {}
    errors = errors_of(configuration, results, noise, protocol)
    return {title: float(np.mean(values)) for title, values in errors.items()}


def _named(noise: str) -> str:
    return "Gaussian" if noise == "gaussian" else noise


def _percent(value: float) -> str:
    return f"{formatted(value, decimals=2)}\N{NO-BREAK SPACE}%"


def _answer(configuration: DenoisingConfiguration, results: Results) -> str:
    """How far the blend gets where pictures cannot be stored, and beside what."""
    protocol = next((p for p in ("B", "C", "A") if p in configuration.protocols), "B")
    sentences = []
    for noise in configuration.noises:
        means = _means(configuration, results, noise, protocol)
        if "blend" not in means:
            continue
        rivals = {methods.METHODS[rival].title for rival in configuration.rivals} & set(means)
        text = f"Under {_named(noise)} noise the blend leaves {_percent(means['blend'])} of the pixels wrong"
        others = []
        if rivals:
            best = min(rivals, key=lambda title: means[title])
            others.append(f"the best rival, {best}, {_percent(means[best])}")
        bayes = SIMPLE["per-pixel-bayes"][0]
        if bayes in means:
            others.append(f"the {bayes} {_percent(means[bayes])}")
        sentences.append(text + (" (" + ", ".join(others) + ")" if others else "") + ".")
    if sentences:
        where = {"A": "pictures seen in training", "B": "pictures that were not in training"}
        return " ".join(sentences) + f" Tested on {where.get(protocol, 'pictures flipped and shifted at random')}."
    runs = show_studies.temperature_runs(results)
    if runs:
        gaps = [run["relative_gap"] for _, epsilon, run in runs if run["relative_gap"] is not None and epsilon > 0]
        return f"Certified relative gaps of at most {formatted(max(gaps))} at every temperature above zero."
    return "The same code with other numbers of sweeps per step: the blend against the double loop."


def _key_numbers(configuration: DenoisingConfiguration, results: Results) -> list[KeyNumber]:
    numbers = []
    for noise in configuration.noises:
        for protocol in configuration.protocols:
            means = _means(configuration, results, noise, protocol)
            if "blend" in means:
                note = f"majority label: {_percent(means[SIMPLE['majority'][0]])}"
                name = f"Wrong, {_named(noise)}, protocol {protocol}"
                numbers.append(KeyNumber(name, round(means["blend"], 4), "%", note, "low"))
    gaps = [
        run["relative_gap"]
        for numbers_, epsilon, run in show_studies.temperature_runs(results)
        if epsilon > 0 and run["relative_gap"] is not None
    ]
    if gaps:
        numbers.append(KeyNumber("Worst certified gap, ε > 0", max(gaps), "", "10 x 10 study, relative", "low"))
    ratios = _loop_shares(results)
    if ratios:
        worst = max(ratio for values in ratios.values() for ratio in values)
        note = "to the final objective of k = 50 erased; worst of passes and time, all settings"
        numbers.append(KeyNumber("Blend over double loop", worst, "", note, "low"))
    return numbers


def _loop_shares(results: Results) -> dict[str, tuple[float, float]]:
    """(passes, seconds) of the plain blend over those of the classical double loop, by setting."""
    needed = {Way(1), Way(max(SWEEPS)), Way(max(SWEEPS), False)}
    found = {setting.title: show_studies.loops(results, setting) for setting in SETTINGS}
    return {title: show_studies.shares(runs, Way(1), False) for title, runs in found.items() if needed <= set(runs)}


# ----------------------------------------------------------------------------------------------------------- in words


def _notes(configuration: DenoisingConfiguration, results: Results) -> list[str]:
    notes = []
    if "accuracy" in configuration.studies:
        notes += _notes_on_protocols(configuration, results)
        notes.append(_note_on_limits(configuration))
    for setting in SETTINGS:
        found = show_studies.loops(results, setting)
        if {Way(1), Way(max(SWEEPS)), Way(max(SWEEPS), False)} <= set(found):
            notes.append(_note_on_loop(setting.title, found))
    return notes


def _notes_on_protocols(configuration: DenoisingConfiguration, results: Results) -> list[str]:
    notes = []
    if "A" in configuration.protocols:
        notes.append(
            "Protocol A is the paper's. The clean picture is the same in training and test, so that weights of single "
            "pixels can store it: the predictor that gives every pixel its most frequent training label, whatever is "
            "seen, makes no error. Small errors there say little about denoising."
        )
    for noise in configuration.noises:
        means = _means(configuration, results, noise, "C")
        cells = next((cells for *_, cells in rows_of(configuration, results, noise, "C")), None)
        if "C" not in configuration.protocols or cells is None or configuration.model_of("C") != "free":
            continue
        tied = means.get("blend, tied weights")
        bayes = means[SIMPLE["per-pixel-bayes"][0]]
        beside = f"; the blend with tied weights, trained on the same images, {_percent(tied)}" if tied else ""
        notes.append(
            f"Protocol C, {_named(noise)} noise: free weights leave "
            f"{_percent(means['blend'])} wrong, the Bayes rule of each pixel {_percent(bayes)}"
            f"{beside}. The picture is at another place in every image, so that nothing can be stored: each pixel and "
            "each pair has to learn from its own few dozen noisy values what tied weights learn from all pixels "
            "together. What is lost against tied weights is the price of estimating thousands of weights in place of "
            "four; the regulariser, chosen on held-out images, pulls them all towards zero, not towards each other."
        )
    return notes


def _note_on_limits(configuration: DenoisingConfiguration) -> str:
    if configuration.C is None:
        chosen = (
            f"C was chosen from {', '.join(f'{C:g}' for C in C_GRID)}, once for each method, model, noise and "
            f"protocol, on at most {HELD_OUT} held-out training images after training on at most {CHOOSING} (in "
            "protocol B held out are those of another picture), C scaled to their number; of equals the largest. "
        )
    else:
        chosen = f"C = {configuration.C:g} for all methods. "
    if not configuration.rivals:
        return chosen + f"The blend stops at a certified relative gap of {configuration.tolerance:g}."
    return (
        chosen + f"The blend stops at a certified relative gap of {configuration.tolerance:g} or after "
        f"{configuration.max_iterations} iterations. Limits of the rivals: L-BFGS {methods.FULL_STEPS} steps, SGD and "
        f"SMD {methods.ROUNDS} rounds over the training images, the subgradient method {methods.MARGIN_ROUNDS}, all "
        "three in batches of 5 with a first step chosen like C from "
        f"{', '.join(f'{step:g}' for step in methods.STEPS)} (at the C of L-BFGS and of the blend); "
        f"{methods.SWEEPS} sweeps of their inference for a gradient ({methods.LINE_SEARCH_SWEEPS} for LBP with "
        f"L-BFGS), {methods.MOST_PASSES:,} passes over all tables, a relative tolerance of {methods.TOLERANCE:g}. "
        "Likelihood methods train without loss, the support vector machine with it."
    )


def _note_on_loop(title: str, found: dict[Way, Result]) -> str:
    """Whether the blend needs a third at most, of both double loops."""
    plain = [show_studies.shares(found, Way(1), kept) for kept in (True, False)]
    good = all(passes <= THIRD and seconds <= THIRD for passes, seconds in plain)
    verdict = "at most a third of both" if good else "that contradicts the claim of at most a third of both"
    text = (
        f"Blend against double loop, {title}: to its final objective (k = 50) the blend needs {_shares(plain[0])} of "
        f"the double loop with messages kept, and {_shares(plain[1])} of the one with messages erased; {verdict}."
    )
    mixed = Way(1, mixed=True)
    if mixed in found:
        best = [show_studies.shares(found, mixed, kept) for kept in (True, False)]
        text += f" Mixed, which is our default, it needs {_shares(best[0])}, and {_shares(best[1])}."
    stopped = [way.title for way in (Way(max(SWEEPS)), Way(max(SWEEPS), False)) if found[way]["stopped"] != "converged"]
    if stopped:
        text += f" The double loop ({'; '.join(stopped)}) had not converged when its passes or its time ran out."
    return text


def _shares(shares: tuple[float, float]) -> str:
    passes, seconds = shares
    if not math.isfinite(passes):
        return "more than it was given"
    return f"{formatted(passes, digits=2)} of the passes and {formatted(seconds, digits=2)} of the time"
