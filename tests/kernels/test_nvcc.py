"""The kernel headers are CUDA as they are: nvcc takes every one, and the scalar text computes what it should."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CORE = HERE.parents[1] / "core"


def test_every_header_is_instantiated():
    source = (HERE / "every_kernel.cu").read_text()
    missing = [path.name for path in sorted((CORE / "kernels").glob("*.h")) if f'"kernels/{path.name}"' not in source]
    assert not missing


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_kernels_compile_with_nvcc(tmp_path):
    program = tmp_path / "every_kernel"
    command = ["nvcc", "-std=c++20", "-O1", "-I", str(CORE), "-o", str(program), str(HERE / "every_kernel.cu")]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr

    # The host half of the same program: no device is needed to run it.
    output = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout.split()
    exp64, log64, exp32, log32, *exp_of_minus_infinity = map(float, output)
    assert exp64 < 1e-15
    assert log64 < 2e-15
    assert exp32 < 3e-7
    assert log32 < 6e-7
    assert exp_of_minus_infinity == [0.0, 0.0]
