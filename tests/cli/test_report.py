import pytest
from record_examples import record

from blendfield import reports
from blendfield.cli import main

pytest.importorskip("matplotlib")


def test_report(tmp_path, capsys):
    reports.write_run(tmp_path / "one", record("One"))
    reports.write_run(tmp_path / "two.json", record("Two", 0.1))
    assert main(["report", str(tmp_path / "one"), str(tmp_path / "two.json"), "--output", str(tmp_path / "out")]) == 0
    page = tmp_path / "out" / "index.html"
    assert capsys.readouterr() == (f"{page}\n", "")
    assert "Two has the best test error" in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "-o", "out"], "there is no such file; expected a run record"),
        (["damaged.json", "-o", "out"], "damaged.json: not a run record"),
        (["damaged.json"], "the following arguments are required: --output"),
        ([], "the following arguments are required: RUN"),
        (["run.json", "-o", "damaged.json"], "damaged.json"),
    ],
)
def test_faults_are_one_line(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "damaged.json").write_text("{")
    reports.write_run(tmp_path, record())
    assert main(["report", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()
