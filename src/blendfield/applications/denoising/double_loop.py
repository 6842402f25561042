"""The blend against the classical double loop: the same code, only the number of sweeps per step in w differs.

k sweeps of the messages, then one step in the weights; k = 1 is the blend. Messages are kept from step to step, or
erased as in the classical double loop. Time is the processor's, of one thread: other programs do not disturb it much.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from blendfield.applications.cells import Cell, Result, Tell, finite
from blendfield.applications.denoising.configuration import DenoisingConfiguration
from blendfield.applications.denoising.methods import error, finished
from blendfield.applications.denoising.model import samples
from blendfield.applications.denoising.task import experiments
from blendfield.learning import BlendedLearner

SWEEPS = (1, 2, 5, 20, 50)
IMAGES = 10
"""training images: the first of the first picture's (protocol A, or B for tied weights), Gaussian noise"""
TOLERANCE = 1e-4
MOST_PASSES = 6000
TIME_LIMIT = 5.0
"""processor seconds for one run"""
LOOKS = (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233)
"""iterations after which the test error is measured, besides the last; that does not count"""


class Setting(NamedTuple):
    """A problem: all k minimise the same objective."""

    model: str
    epsilon: float

    @property
    def title(self) -> str:
        return f"{self.model} weights, ε = {self.epsilon:g}"


class Way(NamedTuple):
    """A way to minimise it. mixed: iterations are mixed by Anderson's method, as our default does."""

    sweeps: int
    kept: bool = True
    mixed: bool = False

    @property
    def title(self) -> str:
        name = "blend" if self.sweeps == 1 and self.kept else f"k = {self.sweeps}"
        return name + (", mixed" if self.mixed else "") + ("" if self.kept else ", erased")


SETTINGS = (Setting("free", 1.0), Setting("tied", 1.0), Setting("free", 0.1))
WAYS = (
    *(Way(sweeps) for sweeps in SWEEPS),
    *(Way(sweeps, kept=False) for sweeps in SWEEPS),
    *(Way(sweeps, mixed=True) for sweeps in (1, 50)),
)


def double_loop_cells(configuration: DenoisingConfiguration) -> list[Cell]:
    """Every way in every setting."""
    return [_cell(configuration, setting, way) for setting in SETTINGS for way in WAYS]


def name_of(setting: Setting, way: Way) -> str:
    """Of the cell."""
    manner = ("mixed" if way.mixed else "kept") if way.kept else "erased"
    return f"double-loop-{setting.model}-{setting.epsilon:g}-{way.sweeps}-{manner}"


def _cell(configuration: DenoisingConfiguration, setting: Setting, way: Way) -> Cell:
    def work(_: Mapping[str, Result], tell: Tell) -> Result:
        experiment = experiments(configuration, "gaussian", "B" if setting.model == "tied" else "A")[0]
        training = samples(experiment.training[:IMAGES], setting.model, configuration.loss)
        looks: list[tuple[float, float, Any]] = []
        spent: dict[int, float] = {}
        started = time.process_time()

        def callback(progress: Any) -> bool:
            tell(f"iteration {progress.iteration}")
            seconds = spent[progress.iteration] = time.process_time() - started
            if progress.iteration in LOOKS:
                looks.append((progress.passes, seconds, progress.weights.copy()))
            return bool(progress.passes >= MOST_PASSES or seconds >= TIME_LIMIT)

        def learner(**limits: Any) -> BlendedLearner:
            return BlendedLearner(
                setting.epsilon,
                configuration.C or 1.0,
                configuration.counting_numbers,
                threads=1,
                backend=configuration.backend,
                sweeps=way.sweeps,
                restart_messages=not way.kept,
                acceleration="anderson" if way.mixed else None,
                **limits,
            )

        run = learner(tolerance=TOLERANCE, max_iterations=MOST_PASSES, callback=callback)
        finished(run.fit(training))
        past = {**run.history_, "seconds": [spent[int(iteration)] for iteration in run.history_["iteration"]]}
        history = {key: finite(values) for key, values in past.items()}
        looks.append((past["passes"][-1], past["seconds"][-1], run.weights_))
        judged = [
            (passes, seconds, error(_with_weights(run, weights), setting.model, experiment.testing))
            for passes, seconds, weights in looks
        ]
        columns = zip(*judged, strict=True)
        return {
            "history": history,
            "test": dict(zip(("passes", "seconds", "error"), map(list, columns), strict=True)),
            "primal": run.primal_,
            "relative_gap": run.gap_ / max(1.0, abs(run.primal_)),
            "stopped": "passes or time" if run.stop_reason_ == "callback" else run.stop_reason_,
        }

    names = ("size", "copies", "seed", "images", "loss", "counting_numbers", "C")
    inputs = {name: getattr(configuration, name) for name in names} | {"tolerance": TOLERANCE, "limit": TIME_LIMIT}
    return Cell(name_of(setting, way), inputs, work, cost=2.0)


def _with_weights(learner: BlendedLearner, weights: Any) -> BlendedLearner:
    learner._take_weights(weights, learner.layout_)
    return learner


def first_reaching(history: Mapping[str, Sequence[float]], goal: float) -> tuple[float, float]:
    """(passes, seconds) after which the primal is at most the goal; infinite where it never is."""
    for primal, passes, seconds in zip(history["primal"], history["passes"], history["seconds"], strict=True):
        if primal is not None and primal <= goal:
            return passes, seconds
    return math.inf, math.inf
