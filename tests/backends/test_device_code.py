"""Every kernel compiles for the cards it is meant for, by NVRTC where it is installed, else by nvcc; no card needed."""

import ctypes
import importlib.util
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from blendfield.backends.cuda import linear, problem, sources
from blendfield.backends.cuda.device import OPTIONS
from blendfield.backends.cuda.layout import compile_layout
from blendfield.graph import RegionGraph, grid_graph
from blendfield.testing import build_program

ARCHITECTURES = (80, 90)
Compiler = Callable[..., str]
"""(source, architectures) -> the log; empty where all is well"""
HERE = Path(__file__).parent


def find_nvrtc() -> Path | None:
    """The library in NVIDIA's package."""
    found = importlib.util.find_spec("nvidia")
    folders = [Path(folder) for folder in (found.submodule_search_locations if found else None) or []]
    libraries = [file for folder in folders for file in folder.glob("**/libnvrtc.so.*[0-9]")]
    return next((file for file in libraries if "builtins" not in file.name), None)


def compile_with_nvrtc(source: str, architecture: int, library: Path) -> str:
    """The log; empty where all is well."""
    nvrtc = ctypes.CDLL(str(library))
    program = ctypes.c_void_p()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None) == 0
    options = [*(option.encode() for option in OPTIONS), f"-arch=sm_{architecture}".encode()]
    failed = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return log.value.decode() if failed else ""


def compile_with_nvcc(source: str, architectures: tuple[int, ...], folder: Path) -> str:
    text = folder / "kernels.cu"
    text.write_text(source)
    targets = [f"-gencode=arch=compute_{n},code=sm_{n}" for n in architectures]
    quick = ["-Xptxas", "-O0", "-Xcicc", "-O0"]
    command = ["nvcc", "-std=c++17", "-fatbin", "-w", *quick, *targets, "-o", str(folder / "kernels.fatbin"), str(text)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stderr if done.returncode else ""


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    if (library := find_nvrtc()) is not None:
        return lambda source, targets=ARCHITECTURES: "".join(compile_with_nvrtc(source, n, library) for n in targets)
    if shutil.which("nvcc") is not None:
        folder = tmp_path_factory.mktemp("code")
        return lambda source, targets=ARCHITECTURES: compile_with_nvcc(source, targets, folder)
    pytest.skip("neither NVRTC nor nvcc is installed")


def entries(source: str) -> set[str]:
    return {line.removeprefix("BF_ENTRY(").partition(")")[0] for line in source.splitlines() if "BF_ENTRY(" in line}


@pytest.mark.parametrize(
    ("name", "kernels"), [("problem", problem.KERNELS), ("certify", problem.CERTIFY), ("linear", linear.KERNELS)]
)
@pytest.mark.parametrize(("dtype", "architecture"), [("float32", 80), ("float64", 90)])  # the same text: that is enough
def test_kernels_of_any_shape(name: str, kernels: list[str], dtype: str, architecture: int, compiler: Compiler) -> None:
    source = sources.general(dtype, name)
    assert entries(source) >= set(kernels)
    assert not compiler(source, (architecture,))


def one_shape(graph: RegionGraph, dtype: str) -> str:
    """All that is ever compiled for the groups of a graph."""
    layout = compile_layout(build_program(graph, "cover"))
    texts: list[Any] = []
    for number, group in enumerate(layout.groups):
        write = not group.masks and group.entries <= 32
        splits = 3 if group.width == 1 else 1
        for slot in range(len(group.masks)):
            tile = sources.tile_of(group.labels(slot), 1 << 20)
            texts.append(sources.heavy_kernel(f"heavy_{number}_{slot}", group, slot, tile, splits))
        if not group.masks and group.entries <= 32:
            texts += [sources.light_kernel(f"light_{number}_{degree}", group.entries, degree) for degree in (0, 4)]
        texts.append(sources.potentials_kernel(f"potentials_{number}", group.entries, 2, min(3, group.entries)))
        splits = 1 if write else min(3, sources.tiles(group, dtype))
        texts.append(sources.evaluate_kernel(f"evaluate_{number}", group, 0 if write else 2, write, dtype, splits))
    return sources.general(dtype, "features") + "".join(texts)


@pytest.mark.parametrize(
    ("dtype", "graph"),
    [
        ("float32", grid_graph((3, 3), 2)),
        ("float64", grid_graph((3, 3), 8)),
        ("float32", grid_graph((2, 3), 67)),
        ("float32", RegionGraph([3, 5, 7, 5], [(0, 1, 2), (1, 2, 3), (1, 2)])),
    ],
    ids=["2 labels", "8 labels", "67 labels", "triples with pairs"],
)
def test_kernels_of_one_shape(dtype: str, graph: RegionGraph, compiler: Compiler) -> None:
    assert not compiler(one_shape(graph, dtype))


def test_faults_are_noticed(compiler: Compiler) -> None:
    assert "nothing" in compiler(sources.general("float64", "sweep") + "\nBF_ENTRY(wrong) { nothing(); }\n")
