import json
import math
from dataclasses import asdict

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from record_examples import record

import blendfield as bf
from blendfield import reports


def same(a, b):
    """Equality of nested containers in which NaN (and None, which stands for it in cells) equals NaN."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and math.isnan(a):
        return b is None or math.isnan(b)
    return type(a) is type(b) and a == b


def test_what_is_read_is_what_was_written(tmp_path):
    written = record()
    path = reports.write_run(tmp_path / "new" / "folder", written)
    assert path == tmp_path / "new" / "folder" / "run.json"
    for place in (path, path.parent):
        read = reports.read_run(place)
        assert same(asdict(written), asdict(read))
    assert reports.write_run(tmp_path / "again.json", read).read_bytes() == path.read_bytes()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.none() | st.integers() | st.floats() | st.text(), min_size=1, max_size=5))
def test_every_number_survives(tmp_path_factory, cells):
    path = tmp_path_factory.mktemp("run") / "run.json"
    table = reports.Table("t", [reports.Column("c")], [[cell] for cell in cells])
    reports.write_run(path, reports.RunRecord("k", "t", "a", tables=[table]))
    for cell, (found,) in zip(cells, reports.read_run(path).tables[0].rows, strict=True):
        if cell in ("inf", "-inf"):
            assert found == float(cell)
        else:
            assert same(cell, found)


def test_numpy_numbers_are_numbers(tmp_path):
    configuration = {"seeds": np.arange(3), "epsilon": np.float64(0.5), "on": np.bool_(True), "none": np.float32("nan")}
    path = reports.write_run(tmp_path, reports.RunRecord("k", "t", "a", configuration=configuration))
    found = reports.read_run(path).configuration
    assert found == {"seeds": [0, 1, 2], "epsilon": 0.5, "on": True, "none": None}


def test_what_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(bf.OptionError, match=r"record.configuration.model: expected numbers.*got object"):
        reports.write_run(tmp_path, reports.RunRecord("k", "t", "a", configuration={"model": object()}))
    assert not list(tmp_path.iterdir())


def damaged(change):
    def apply(content):
        change(content)
        return json.dumps(content)

    return apply


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a run record"),
        ("{", "not a run record"),
        ("[1]", "not a run record"),
        ('{"format": "other"}', "not a run record"),
        (damaged(lambda c: c.update(schema=99)), r"expected schema 1, got 99 \(written by a newer blendfield\)"),
        (damaged(lambda c: c.update(schema="x")), "expected schema 1, got 'x'$"),
        (damaged(lambda c: c.pop("title")), "record: 'title' is missing"),
        (damaged(lambda c: c.pop("versions")), "record: 'versions' is missing"),
        (damaged(lambda c: c.update(colour=1)), "record: unknown entry 'colour'"),
        (damaged(lambda c: c.update(seeds={"noise": "x"})), r"record.seeds.noise: expected a whole number, got 'x'"),
        (damaged(lambda c: c.update(tables=3)), r"record.tables: expected a list, got 3"),
        (damaged(lambda c: c["tables"][0]["rows"][1].pop()), "row 1: expected 3 cells, got 2"),
        (damaged(lambda c: c["tables"][0]["rows"][1].append({})), r"tables\[0\].rows\[1\]\[3\]: expected a number"),
        (damaged(lambda c: c["figures"][1].update(kind_of_figure="pie")), r"figures\[1\].kind_of_figure: expected one"),
        (damaged(lambda c: c["figures"].append(1)), r"figures\[4\]: expected a figure"),
        (damaged(lambda c: c["key_numbers"][0].update(better="most")), r"key_numbers\[0\].better: expected one of"),
        (damaged(lambda c: c["histories"]["eps = 1"]["gap"].pop()), "expected columns of the same length"),
        (damaged(lambda c: c["figures"][0]["images"][0][0].update(pixels=["zz"])), "expected hexadecimal digits"),
    ],
)
def test_errors_name_the_file_and_the_place(tmp_path, text, message):
    path = reports.write_run(tmp_path, record())
    if callable(text):
        text = text(json.loads(path.read_text()))
    path.write_text(text)
    with pytest.raises(bf.FileFormatError, match=message) as caught:
        reports.read_run(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_missing_file(tmp_path):
    with pytest.raises(bf.FileFormatError, match="there is no such file"):
        reports.read_run(tmp_path / "none.json")


def test_surroundings_are_words():
    assert {"python", "blendfield", "numpy", "scipy"} <= set(reports.versions())
    assert "core" in reports.machine_in_words()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: reports.Table("t", [reports.Column("a")], [[1, 2]]),
        lambda: reports.Line("l", [1.0], []),
        lambda: reports.Bars("b", "", ["g"], ["m"], [[1.0, 2.0]]),
        lambda: reports.GreyImage(["00ff", "00"]),
        lambda: reports.Panels("p", "", ["r"], ["c"], []),
        lambda: reports.RunRecord("k", "t", "a", histories={"h": {"x": [1.0], "y": []}}),
    ],
)
def test_parts_that_do_not_fit(wrong):
    with pytest.raises(bf.OptionError):
        wrong()
