import io
import math
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from record_examples import history, record

import blendfield as bf
from blendfield import reports
from blendfield.reports.images import pixels_of, png_bytes

pytest.importorskip("matplotlib")
from blendfield.reports import figures


def texts(svg):
    return [
        "".join(element.itertext()) for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("text")
    ]


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_svg_takes_its_colours_and_fonts_from_the_page(number, narrow):
    drawing = figures.svg(record().figures[number], "figure-7", narrow)
    root = ElementTree.fromstring(drawing)  # well-formed
    assert "width" not in root.attrib  # it fills its box
    assert not re.search(r"#[0-9a-f]{6}\b|rgb\(|DejaVu", drawing)
    for name in re.findall(r' id="([^"]+)"', drawing):
        assert name.startswith("figure-7")
    for name in re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', drawing):
        assert f' id="{name[0] or name[1]}"' in drawing
    assert figures.svg(record().figures[number], "figure-7", narrow) == drawing


def test_axes_are_labelled_with_units():
    found = texts(figures.svg(record().figures[3], "f"))
    assert {"passes over all tables", "time (s)", "relative excess of the objective"} <= set(found)
    found = texts(figures.svg(record().figures[2], "f"))
    assert {"iteration", "primal and dual", "certified relative gap"} <= set(found)
    found = texts(figures.svg(record().figures[1], "f"))
    assert {"%", "ours", "rival", "rings", "letters", "0.10", "2.50", "–"} <= set(found)


def test_lines_can_be_told_apart_without_colours():
    lines = [reports.Line(f"run {k}", [1.0, 10.0, 100.0], [1.0, 2.0, 3.0 + k]) for k in range(7)]
    figure = reports.Lines("t", "", [reports.Plot("x", "y", lines, x_log=True)])
    root = ElementTree.fromstring(figures.svg(figure, "f"))
    styles = [element.get("style", "") for element in root.iter() if "--series-" in element.get("style", "")]
    dashes = {
        re.search(r"--series-(\d)", s)[1]: re.search(r"stroke-dasharray: ([^;]+)|$", s)[1]
        for s in styles
        if "stroke-width: 1.6" in s
    }
    assert len(dashes) == 7
    assert len(set(dashes.values())) >= 6


def test_points_that_cannot_be_shown_are_left_out():
    awkward = reports.Line("l", [0.0, 1.0, 2.0, 3.0, 4.0], [1.0, -1.0, math.nan, math.inf, 5.0])
    x, y = figures._usable(awkward, reports.Plot("x", "y", [], x_log=True, y_log=True))
    assert (list(x), list(y)) == ([4.0], [5.0])
    x, y = figures._usable(awkward, reports.Plot("x", "y", []))
    assert (list(x), list(y)) == ([0.0, 1.0, 4.0], [1.0, -1.0, 5.0])
    long = reports.Line("l", list(np.arange(1.0, 100_001)), list(np.arange(1.0, 100_001)))
    x, _ = figures._usable(long, reports.Plot("x", "y", [], x_log=True))
    assert len(x) <= 250
    assert (x[0], x[-1]) == (1.0, 100_000.0)


@pytest.mark.parametrize("lines", [[], [reports.Line("empty", [], [])], [reports.Line("one", [1.0], [0.0])]])
def test_empty_plots_are_drawn(lines):
    for log in (False, True):
        figure = reports.Lines("t", "", [reports.Plot("x", "y", lines, log, log)])
        assert "<svg" in figures.svg(figure, "f")


@pytest.mark.parametrize("number", range(4))
def test_png(number):
    from matplotlib.image import imread

    image = imread(io.BytesIO(figures.png(record().figures[number])))
    assert min(image.shape[:2]) > 150
    assert image[..., :3].std() > 0.02  # not an empty sheet


def test_drawing_leaves_settings_alone():
    import matplotlib

    before = dict(matplotlib.rcParams)
    figures.svg(record().figures[1], "f")
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize(("value", "text"), [(1, "1"), (0.01, "0.01"), (1e-3, "10⁻³"), (2e-7, "2·10⁻⁷"), (1e4, "10⁴")])
def test_ticks(value, text):
    assert figures._power(value) == text


def test_grey_images_survive():
    from matplotlib.image import imread

    pixels = np.random.default_rng(0).integers(0, 256, (5, 7)).astype(np.uint8)
    image = reports.grey_image(pixels, 0, 255)
    np.testing.assert_array_equal(pixels_of(image), pixels)
    np.testing.assert_array_equal(np.rint(imread(io.BytesIO(png_bytes(pixels))) * 255), pixels)
    np.testing.assert_array_equal(pixels_of(reports.grey_image(np.array([[-1.0, 0.0, 0.5, 2.0]]))), [[0, 0, 128, 255]])


def test_convergence_of_several_runs_is_relative_to_each():
    one = reports.convergence({"a": history()}, "t")
    assert [line.name for line in one.plots[0].lines] == ["primal", "dual"]
    both = reports.convergence({"a": history(), "b": history(0.2)}, "t", against="seconds")
    assert [(line.name, line.dashed) for line in both.plots[0].lines] == [
        ("a", False),
        ("a", True),
        ("b", False),
        ("b", True),
    ]
    for line in both.plots[0].lines[::2]:
        assert line.y[0] == 1.0
        assert line.y[-1] == 0.0
    np.testing.assert_allclose(both.plots[1].lines[0].x, history()["seconds"])


def test_convergence_without_a_certificate():
    uncertified = history() | {"dual": [math.nan] * 60, "gap": [math.nan] * 60}
    figure = reports.convergence({"a": uncertified}, "t")
    assert len(figure.plots) == 1
    assert [line.name for line in figure.plots[0].lines] == ["primal"]


def test_objective_is_measured_from_the_best_bound():
    runs = {"a": history(), "b": history(0.2, cost=5)}
    best = max(v for run in runs.values() for v in run["dual"] if math.isfinite(v))
    figure = reports.objective(runs, "t")
    assert [plot.x_label for plot in figure.plots] == ["passes over all tables", "time (s)"]
    for line in figure.plots[0].lines:
        np.testing.assert_allclose(line.y, (np.array(runs[line.name]["primal"]) - best) / best)
        assert min(line.y) > 0


def test_missing_column():
    with pytest.raises(bf.OptionError, match="history 'a': expected a column 'seconds'"):
        reports.convergence({"a": {"primal": [1.0]}}, "t", against="seconds")


def test_without_matplotlib(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(bf.MissingExtraError, match=r"needs matplotlib: pip install 'blendfield\[plot\]'"):
        figures.png(record().figures[1])
