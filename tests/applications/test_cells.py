import json

import pytest

import blendfield as bf
from blendfield.applications.cells import Cell, finite, run_cells


def counting(name, log, inputs=None, value=1):
    def work(done, tell):
        tell("working")
        log.append(name)
        return {"value": value, "seen": sorted(done)}

    return Cell(name, inputs or {}, work)


def test_finished_cells_are_kept(tmp_path):
    log = []
    first, whole = run_cells([counting("a", log), counting("b", log)], tmp_path)
    assert log == ["a", "b"]
    assert whole
    assert first["b"]["seen"] == ["a"]  # later cells see the results of earlier ones
    assert first["a"]["seconds"] >= 0
    shown = []
    again, _ = run_cells(
        [counting("a", log), counting("b", log), counting("c", log)], tmp_path, lambda c, r: shown.append(c)
    )
    assert log == ["a", "b", "c"]
    assert again["a"] == first["a"]
    assert [cell.name for cell in shown] == ["a", "b", "c"]


def test_other_inputs_are_worked_out_again(tmp_path):
    log = []
    run_cells([counting("a", log, {"size": (4, 4), "C": 1.0})], tmp_path)
    run_cells([counting("a", log, {"size": (4, 4), "C": 1.0})], tmp_path)
    assert log == ["a"]
    run_cells([counting("a", log, {"size": (4, 4), "C": 2.0})], tmp_path)
    assert log == ["a", "a"]


def test_an_interrupted_study_keeps_what_is_finished(tmp_path):
    def interrupted(done, tell):
        raise KeyboardInterrupt

    log = []
    results, whole = run_cells([counting("a", log), Cell("b", {}, interrupted), counting("c", log)], tmp_path)
    assert not whole
    assert list(results) == ["a"]
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    run_cells([counting("a", log), counting("b", log)], tmp_path)
    assert log == ["a", "b"]


@pytest.mark.parametrize("content", ["", "{", "[]", json.dumps({"inputs": {}})])
def test_damaged_cells_are_named(tmp_path, content):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(bf.FileFormatError, match=r"a\.json: damaged; expected a finished cell"):
        run_cells([counting("a", [])], tmp_path)


def test_results_have_no_nan(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        run_cells([counting("a", [], value=float("nan"))], tmp_path)
    assert not (tmp_path / "a.json").exists()
    assert finite([1, float("nan"), float("inf")]) == [1.0, None, None]
