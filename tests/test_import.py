"""`import blendfield` is quick and complete."""

import subprocess
import sys

import blendfield as bf


def test_all_names_exist():
    for name in bf.__all__:
        assert getattr(bf, name) is not None
    assert issubclass(bf.SupportError, bf.PotentialError)
    assert issubclass(bf.PotentialError, bf.BlendfieldError)


def test_import_is_quick_and_light():
    """Under 0.3 s with NumPy's own import: processor time, the best of a few, because machines are busy."""
    script = (
        "import sys, time; start = time.process_time(); import blendfield; "
        "print(time.process_time() - start, *(m for m in ('scipy', 'networkx', 'matplotlib') if m in sys.modules))"
    )
    runs = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True) for _ in range(5)
    ]
    outputs = [run.stdout.split() for run in runs]
    assert all(len(output) == 1 for output in outputs), outputs  # nothing heavy was imported
    assert min(float(output[0]) for output in outputs) < 0.3
