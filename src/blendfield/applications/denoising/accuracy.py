"""The tables: every method on every picture, noise and protocol; C and steps chosen on held-out training images."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield.applications.cells import Cell, Result, Tell, finite
from blendfield.applications.denoising import simple
from blendfield.applications.denoising.configuration import C_GRID, MODELS, DenoisingConfiguration
from blendfield.applications.denoising.methods import METHODS, STEPS, Setting, error, limits, predict, train
from blendfield.applications.denoising.task import Experiment, NoisyImage, base_pictures, experiments
from blendfield.errors import BlendfieldError
from blendfield.reports import grey_image

CHOOSING = 12
"""training images, at most, with which C and steps are chosen; C is scaled to their number"""
HELD_OUT = 5
"""images, at most, on which they are judged"""
SIMPLE = {
    "threshold": ("threshold", simple.threshold),
    "per-pixel-bayes": ("Bayes rule of each pixel", simple.per_pixel_bayes),
    "majority": ("majority label of each pixel", simple.majority),
}


def variants(configuration: DenoisingConfiguration, protocol: str) -> list[tuple[str, str, bool]]:
    """(method, model, loss) of every row, the blend first, rivals after it."""
    model = configuration.model_of(protocol)
    rows = [("blend", model, configuration.loss)]
    if configuration.both:
        other = next(name for name in MODELS if name != model)
        rows += [("blend", model, not configuration.loss), ("blend", other, configuration.loss)]
    return rows + [(rival, model, configuration.loss) for rival in configuration.rivals]


def accuracy_cells(configuration: DenoisingConfiguration) -> list[Cell]:
    """All choices and all rows, method by method: what matters most comes first."""
    pictures = base_pictures(configuration)
    conditions = [(noise, protocol) for noise in configuration.noises for protocol in configuration.protocols]
    cells = [_simple_cell(configuration, noise, protocol) for noise, protocol in conditions]
    most = max(len(variants(configuration, protocol)) for _, protocol in conditions)
    for row in range(most):
        for noise, protocol in conditions:
            method, model, loss = variants(configuration, protocol)[row]
            given = replace(configuration, loss=loss)
            choice = _choice_cell(given, noise, protocol, method, model)
            if choice is not None:
                cells.append(choice)
            for number in range(len(pictures)):
                cells.append(_row_cell(given, noise, protocol, method, model, number))
    return cells


def row_name(noise: str, protocol: str, method: str, model: str, loss: bool, number: int | str) -> str:
    """Of the cell of one picture."""
    return f"{noise}-{protocol}-{method}-{model}{'' if loss else '-no-loss'}-{number}"


def simple_name(noise: str, protocol: str) -> str:
    """Of the cell with the predictors that know no neighbours."""
    return f"{noise}-{protocol}-simple"


def inputs_of(configuration: DenoisingConfiguration, **more: Any) -> dict[str, Any]:
    """What results depend on: the knobs that are the same for all cells, the pictures, and more."""
    names = ("size", "copies", "seed", "epsilon", "counting_numbers", "tolerance", "max_iterations", "time_limit")
    return {name: getattr(configuration, name) for name in names} | {"pictures": _digest(configuration)} | more


@lru_cache(maxsize=4)
def _digest(configuration: DenoisingConfiguration) -> str:
    packed = b"".join(np.packbits(picture.image).tobytes() for picture in base_pictures(configuration))
    return hashlib.sha256(packed).hexdigest()[:16]


@lru_cache(maxsize=2)
def _experiments(configuration: DenoisingConfiguration, noise: str, protocol: str) -> list[Experiment]:
    return experiments(configuration, noise, protocol)


def _simple_cell(configuration: DenoisingConfiguration, noise: str, protocol: str) -> Cell:
    def work(_: Mapping[str, Result], __: Tell) -> Result:
        errors: Result = {}
        for name, (_title, predictor) in SIMPLE.items():
            errors[name] = [
                simple.error_percent(predictor(e), [image.truth for image in e.testing])
                for e in _experiments(configuration, noise, protocol)
            ]
        return errors

    inputs = inputs_of(configuration, noise=noise, protocol=protocol)
    return Cell(simple_name(noise, protocol), inputs, work, cost=0.2)


# --------------------------------------------------------------------------------------------- C and steps are chosen


def _choice_cell(
    configuration: DenoisingConfiguration, noise: str, protocol: str, method: str, model: str
) -> Cell | None:
    """Once for all pictures, on training images of the first experiment; None where there is nothing to choose."""
    like = METHODS[method].like
    if configuration.C is not None and not like:
        return None

    def work(done: Mapping[str, Result], tell: Tell) -> Result:
        experiment = _experiments(configuration, noise, protocol)[0]
        some, held_out = divided(experiment)
        share = len(some) / len(experiment.training)
        if like:
            leader = done.get(row_name(noise, protocol, like, model, configuration.loss, "choice"), {})
            C = leader.get("C") or configuration.C or C_GRID[1]
            settings = [Setting(C, step) for step in STEPS]
        else:
            settings = [Setting(C) for C in reversed(C_GRID)]  # of equals the first, the smoothest
        errors = []
        for setting in settings:
            tell(f"C {setting.C:g}" + (f", step {setting.step:g}" if like else ""))
            errors.append(_error_or_all(method, configuration, setting, model, some, held_out, share))
        best = settings[int(np.argmin(errors))]
        tried = [[setting.C, setting.step, wrong] for setting, wrong in zip(settings, errors, strict=True)]
        return {"C": best.C, "step": best.step, "tried": tried}

    knobs = {"noise": noise, "protocol": protocol, "C": configuration.C, "loss": configuration.loss}
    inputs = inputs_of(configuration, **knobs, **limits(method))
    name = row_name(noise, protocol, method, model, configuration.loss, "choice")
    return Cell(name, inputs, work, cost=METHODS[method].cost * (len(STEPS) if like else len(C_GRID)) * 0.4)


def _error_or_all(
    method: str,
    configuration: DenoisingConfiguration,
    setting: Setting,
    model: str,
    some: list[NoisyImage],
    held_out: list[NoisyImage],
    share: float,
) -> float:
    """Percent wrong of the held-out images; 100 where training fails (steps that are too long)."""
    try:
        learner = train(method, configuration, replace(setting, C=setting.C * share), model, some)
        return error(learner, model, held_out)
    except BlendfieldError:
        return 100.0


def divided(experiment: Experiment) -> tuple[list[NoisyImage], list[NoisyImage]]:
    """(to train with, held out) of the training images; in protocol B the held-out ones are of another picture."""
    images = experiment.training
    last = images[-1].truth
    other = [image for image in images if not np.array_equal(image.truth, last)]
    if experiment.protocol == "B" and other:
        same = [image for image in images if np.array_equal(image.truth, last)]
        return other[:CHOOSING], same[:HELD_OUT]
    count = max(1, min(HELD_OUT, len(images) // 4))
    return images[:-count][:CHOOSING], images[-count:]


# ---------------------------------------------------------------------------------------------------- one row's picture


def _row_cell(
    configuration: DenoisingConfiguration,
    noise: str,
    protocol: str,
    method: str,
    model: str,
    number: int,
) -> Cell:
    loss = configuration.loss

    def work(done: Mapping[str, Result], tell: Tell) -> Result:
        experiment = _experiments(configuration, noise, protocol)[number]
        setting = _setting(configuration, done.get(row_name(noise, protocol, method, model, loss, "choice")))
        learner: Any = train(method, configuration, setting, model, experiment.training, tell)
        tell("test images")
        found = predict(learner, model, experiment.testing)
        return {
            "error": simple.error_percent(found, [image.truth for image in experiment.testing]),
            "C": setting.C,
            "step": setting.step,
            "iterations": learner.n_iter_,
            "stopped": learner.stop_reason_,
            "history": {name: finite(values) for name, values in learner.history_.items()},
            **(_shown(experiment.testing[0], found[0]) if method == "blend" else {}),
        }

    knobs = {"noise": noise, "protocol": protocol, "C": configuration.C, "loss": loss, "number": number}
    inputs = inputs_of(configuration, **knobs, **limits(method))
    return Cell(row_name(noise, protocol, method, model, loss, number), inputs, work, METHODS[method].cost)


def _setting(configuration: DenoisingConfiguration, choice: Result | None) -> Setting:
    if choice is not None:
        return Setting(choice["C"], choice["step"])
    return Setting(configuration.C or C_GRID[1])


def _shown(image: NoisyImage, found: npt.NDArray[np.bool_]) -> dict[str, list[str]]:
    panels = {"noisy": image.seen, "truth": image.truth, "found": found}
    return {name: grey_image(values).pixels for name, values in panels.items()}


def rows_of(
    configuration: DenoisingConfiguration, results: Mapping[str, Result], noise: str, protocol: str
) -> Iterator[tuple[str, str, bool, list[Result]]]:
    """(method, model, loss, results picture by picture) of every row that is finished."""
    count = len(base_pictures(configuration))
    for method, model, loss in variants(configuration, protocol):
        names = [row_name(noise, protocol, method, model, loss, number) for number in range(count)]
        if all(name in results for name in names):
            yield method, model, loss, [results[name] for name in names]
