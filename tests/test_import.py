"""`import blendfield` is quick and complete."""

import subprocess
import sys

import pytest

import blendfield as bf

HEAVY = ("scipy", "networkx", "matplotlib", "PIL", "sklearn", "pandas")


def output(script: str) -> list[str]:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_all_names_exist():
    for name in bf.__all__:
        assert getattr(bf, name) is not None
    assert set(bf.__all__) <= set(dir(bf))
    assert issubclass(bf.SupportError, bf.PotentialError)
    assert issubclass(bf.PotentialError, bf.BlendfieldError)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'infre'"):
        _ = bf.infre
    assert not hasattr(bf, "numpy")


def test_rooms_are_reached_from_the_package():
    """Without an import of their own, in whatever order they are first touched."""
    script = "import blendfield as bf; bf.backends.get; print(bf.learning.BlendedLearner is bf.BlendedLearner)"
    assert output(script) == ["True"]
    assert output("from blendfield import *; print(infer.__name__, read_uai.__name__)") == ["infer", "read_uai"]


@pytest.mark.parametrize("what", ["blendfield", "blendfield.estimators"])
def test_import_is_quick_and_light(what):
    """Processor time, the best of a few, because machines are busy: the package by itself (promised: 0.3 s), and every
    room of it together with NumPy.
    """
    script = (
        f"import sys, time; start = time.process_time(); import {what}; "
        f"print(time.process_time() - start, *(m for m in {HEAVY} if m in sys.modules))"
    )
    outputs = [output(script) for _ in range(4)]
    assert all(len(printed) == 1 for printed in outputs), outputs  # nothing heavy was imported
    assert min(float(printed[0]) for printed in outputs) < (0.15 if what == "blendfield" else 0.5)
