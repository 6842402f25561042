"""Every script in examples/ runs; what it promises it asserts itself."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py") if path.name != "hidden_picture.py")


@pytest.mark.parametrize("script", SCRIPTS)
def test_example(script, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [script])
    runpy.run_path(str(EXAMPLES / script), run_name="__main__")
    assert capsys.readouterr().out


def test_hidden_picture(tmp_path, monkeypatch, capsys):
    """On a small picture, drawing included."""
    pytest.importorskip("matplotlib")
    picture = tmp_path / "hidden.png"
    monkeypatch.setattr(sys, "argv", ["hidden_picture.py", "--output", str(picture), "--unit", "1"])
    runpy.run_path(str(EXAMPLES / "hidden_picture.py"), run_name="__main__")
    assert "<= optimum <=" in capsys.readouterr().out
    assert picture.stat().st_size > 10_000
