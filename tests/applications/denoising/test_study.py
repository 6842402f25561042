import json
import math
from dataclasses import replace

import numpy as np
import pytest

from blendfield import reports
from blendfield.applications.denoising import accuracy, double_loop, methods, show_studies, temperature
from blendfield.applications.denoising.configuration import RIVALS, DenoisingConfiguration
from blendfield.applications.denoising.double_loop import Setting, Way
from blendfield.applications.denoising.study import run_study
from blendfield.applications.denoising.task import experiments
from blendfield.learning import BlendedLearner

pytest.importorskip("matplotlib")

SMALL = DenoisingConfiguration(size=8, copies=10, tolerance=1e-3, threads=1, protocols=("A", "B"))


def test_study_from_data_to_report(tmp_path):
    shown = []
    finished = run_study(SMALL, tmp_path, "the command", lambda cell, result: shown.append(cell.name))
    assert finished.page.read_text("utf-8").startswith("<!doctype html>")
    record = reports.read_run(tmp_path)
    assert record.command == "the command"
    assert record.configuration["size"] == 8
    table = next(table for table in record.tables if table.title == "Wrong pixels: Gaussian noise, protocol A")
    rows = {row[0]: row[1:6] for row in table.rows}
    assert rows["blend"] == [0.0] * 5  # what can be stored is stored
    assert rows["majority label of each pixel"] == [0.0] * 5
    b = next(table for table in record.tables if table.title == "Wrong pixels: Gaussian noise, protocol B")
    rows = {row[0]: row[1] for row in b.rows}
    assert rows["blend"] < rows["majority label of each pixel"]
    assert "pictures that were not in training" in record.answer
    # Everything is kept: the same command works nothing out again.
    cells = {path: path.read_bytes() for path in (tmp_path / "cells").iterdir()}
    assert {path.stem for path in cells} == set(shown)
    again = run_study(SMALL, tmp_path)
    assert {path: path.read_bytes() for path in (tmp_path / "cells").iterdir()} == cells
    assert again.record.tables == record.tables
    assert again.noises == ("gaussian",)


TRAININGS = [*((method, "free") for method in ("blend", *RIVALS)), ("blend", "tied"), ("lbp-lbfgs", "tied")]


@pytest.mark.parametrize(("method", "model"), TRAININGS)
def test_every_method_learns_something(method, model):
    images = experiments(replace(SMALL, size=10), "gaussian", "A")[0].training
    learner = methods.train(method, SMALL, methods.Setting(1.0, methods.STEPS[3]), model, images)
    blank = 100 * np.mean([image.truth for image in images])  # everything background
    assert methods.error(learner, model, images) < 0.7 * blank


def test_C_and_steps_are_chosen_on_images_that_are_not_tested_on(tmp_path):
    configuration = replace(SMALL, C=None, rivals=("lbp-sgd",), protocols=("B",))
    run_study(configuration, tmp_path)
    choice = json.loads((tmp_path / "cells" / "gaussian-B-blend-tied-choice.json").read_bytes())["result"]
    assert [tried[0] for tried in choice["tried"]] == [10.0, 1.0, 0.1]
    assert choice["C"] == min(choice["tried"], key=lambda tried: tried[2])[0]
    steps = json.loads((tmp_path / "cells" / "gaussian-B-lbp-sgd-tied-choice.json").read_bytes())["result"]
    assert [tried[1] for tried in steps["tried"]] == list(methods.STEPS)
    row = json.loads((tmp_path / "cells" / "gaussian-B-lbp-sgd-tied-2.json").read_bytes())["result"]
    assert (row["C"], row["step"]) == (steps["C"], steps["step"])


def test_held_out_images_of_protocol_b_are_of_another_picture():
    experiment = experiments(SMALL, "gaussian", "B")[0]
    some, held_out = accuracy.divided(experiment)
    truths = {image.truth.tobytes() for image in some}
    assert truths.isdisjoint({image.truth.tobytes() for image in held_out})
    some, held_out = accuracy.divided(experiments(SMALL, "gaussian", "C")[0])
    seen = {image.seen.tobytes() for image in some}
    assert seen
    assert seen.isdisjoint({image.seen.tobytes() for image in held_out})


def test_temperatures(monkeypatch):
    monkeypatch.setattr(temperature, "MAX_ITERATIONS", 60)
    cells = {cell.name: cell for cell in temperature.temperature_cells(SMALL) + temperature.sharing_cells(SMALL)}
    names = ["temperature-cover-1", "temperature-cover-0", "temperature-exact-1", "sharing-free", "sharing-tied-bias"]
    results = {name: cells[name].work({}, print) for name in names}
    assert results["temperature-cover-1"]["weights"] == 280
    assert results["temperature-cover-1"]["relative_gap"] < 1e-5
    assert 0 <= results["temperature-cover-0"]["relative_gap"] < 1
    assert results["temperature-exact-1"]["wrong"]["1"] <= results["temperature-cover-1"]["wrong"]["1"]
    assert results["sharing-tied-bias"]["wrong"]["1"] > results["sharing-free"]["wrong"]["1"]
    json.dumps(results, allow_nan=False)
    assert [table.title for table in show_studies.small_tables(results)] == [
        "Temperatures, in training and in prediction",
        "Shared against free weights",
    ]
    assert len(show_studies.small_figures(results)) == 1


def test_double_loop(monkeypatch):
    monkeypatch.setattr(double_loop, "IMAGES", 3)
    monkeypatch.setattr(double_loop, "MOST_PASSES", 2000)
    cells = {cell.name: cell for cell in double_loop.double_loop_cells(SMALL)}
    assert len(cells) == len(double_loop.SETTINGS) * len(double_loop.WAYS)
    setting = Setting("free", 1.0)
    ways = [Way(1), Way(50), Way(50, kept=False)]
    results = {name: cells[name].work({}, print) for name in (double_loop.name_of(setting, way) for way in ways)}
    found = show_studies.loops(results, setting)
    assert list(found) == ways
    best = max(value for run in found.values() for value in run["history"]["dual"] if value is not None)
    for run in found.values():
        assert run["primal"] >= best - 1e-9 * abs(best)  # they minimise the same objective
        assert run["test"]["error"][-1] == 0
    assert found[Way(50)]["history"]["passes"][0] > 20 * found[Way(1)]["history"]["passes"][0]
    assert show_studies.shares(found, Way(50), True) == (1.0, 1.0)
    assert not math.isfinite(show_studies.shares(found | {Way(50): {**found[Way(50)], "primal": 0.0}}, Way(1), True)[0])
    passes, _ = show_studies.shares(found, Way(1), True)
    assert 0 < passes < 1
    assert len(show_studies.loop_tables(results)) == 1
    assert len(show_studies.loop_figures(results)) == 2


def test_first_reaching():
    history = {"primal": [3.0, None, 1.0], "passes": [1.0, 2.0, 4.0], "seconds": [0.1, 0.2, 0.3]}
    assert double_loop.first_reaching(history, 1.5) == (4.0, 0.3)
    assert double_loop.first_reaching(history, 0.5) == (math.inf, math.inf)


def test_ctrl_c_ends_the_study_and_keeps_no_half_trained_cell(tmp_path, monkeypatch):
    def interrupted(configuration, setting, tell):
        def callback(progress):
            raise KeyboardInterrupt

        return BlendedLearner(callback=callback)

    blend = replace(methods.METHODS["blend"], make=interrupted)
    monkeypatch.setitem(methods.METHODS, "blend", blend)
    finished = run_study(SMALL, tmp_path)
    assert not finished.whole
    assert finished.record.notes[0].startswith("Not finished: 2 of 11 parts.")
    assert finished.page.exists()
    assert sorted(path.name for path in (tmp_path / "cells").iterdir()) == [
        "gaussian-A-simple.json",
        "gaussian-B-simple.json",
    ]
