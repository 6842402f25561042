"""The house keeps its promises: README, versions, dependencies, types, import directions."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import blendfield as bf

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def run_python(code: str) -> str:
    """The output of `code` in a fresh interpreter."""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


RUNNING = [
    "README.md",
    *(
        f"docs/{page}.md"
        for page in ("formats", "inference", "learning", "reports", "scale-out", "tutorials/denoising")
    ),
]


@pytest.mark.parametrize("page", RUNNING)
def test_code_on_pages_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    names: dict[str, object] = {}  # shared by the blocks of one page, as for a reader
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), names)


def test_versions_agree():
    version = PYPROJECT["project"]["version"]
    assert bf.__version__ == version
    assert metadata.version("blendfield") == version
    assert f"version: {version}" in (ROOT / "CITATION.cff").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        assert "://" in target or (page.parent / target).exists(), target


@pytest.mark.parametrize("page", ["docs/paper-map.md", "docs/errata.md"])
def test_maps_lead_somewhere(page):
    """Files that are named are there, and so are the tests named behind a file of tests."""
    for line in (ROOT / page).read_text().splitlines():
        names = re.findall(r"`([^`]+)`", line)
        files = [name for name in names if re.fullmatch(r"(src|core|tests)/\S+", name)]
        assert all((ROOT / name).is_file() for name in files), line
        code = "".join((ROOT / name).read_text() for name in files if name.startswith("tests/"))
        assert all(f"def {name}(" in code for name in names if name.startswith("test_")), line


def test_decisions_are_listed():
    folder = ROOT / "docs" / "decisions"
    records = sorted(path.name for path in folder.glob("0*.md"))
    assert [name[:4] for name in records] == [f"{number:04d}" for number in range(1, len(records) + 1)]
    index = (folder / "README.md").read_text()
    assert all(name in index for name in records)


def test_imports_go_one_way():
    """Every room has its place in the contract that `make check` enforces."""
    contract = PYPROJECT["tool"]["importlinter"]["contracts"][0]
    assert contract["type"] == "layers"
    rooms = {f"blendfield.{path.parent.name}" for path in (ROOT / "src" / "blendfield").glob("*/__init__.py")}
    assert rooms <= set(contract["layers"])


def test_needs_numpy_and_scipy_only():
    """An entry None in sys.modules makes the import of that name fail: the library works without any extra."""
    extras = ["hypothesis", "matplotlib", "nanobind", "networkx", "numba", "pandas", "pytest", "sklearn", "torch"]
    run_python(
        f"import sys; sys.modules.update(dict.fromkeys({extras!r}))\n"
        "import blendfield as bf\n"
        "bf.infer(bf.RegionGraph([2, 3], [(0, 1)]), [None])\n"
        "bf.infer(bf.grid_graph((2, 3), 2), [None] * 7)\n"
    )


def test_package_is_typed():
    package = ROOT / "src" / "blendfield"
    assert (package / "py.typed").exists()
    assert (package / "_core.pyi").exists()


def test_benchmark_runs(tmp_path):
    """On models so small that the numbers mean nothing; every case is built."""
    output = tmp_path / "inference.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "inference.py"), "--entries=3000", "--repeats=1"]
    cases = ["grid-3", "triples", "three-levels", "hubs", "mixed", "lone-table"]
    subprocess.run([*command, "--dtypes=float64", f"--output={output}", "--cases", *cases], check=True)
    results = json.loads(output.read_text())["results"]
    assert [result["case"] for result in results] == cases
    assert all(result["ratio_to_exp"] > 0 for result in results)


def test_stub_of_the_core_is_current(tmp_path):
    """A function that was added, renamed or dropped in the bindings shows here; `make stubs` writes the stub again."""
    pytest.importorskip("nanobind", reason="the stub generator is nanobind's")
    output = tmp_path / "_core.pyi"
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "blendfield._core", "-o", str(output)]
    subprocess.run(command, check=True)
    committed = ROOT / "src" / "blendfield" / "_core.pyi"
    assert signatures(output) == signatures(committed), "run `make stubs` after changing the bindings"


def signatures(stub: Path) -> dict[str, list[list[str]]]:
    """Name of every class and function: the argument names of its overloads, whatever the layout of the stub."""
    found: dict[str, list[list[str]]] = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                found.setdefault(prefix + child.name, [])
                visit(child, prefix + child.name + ".")
            elif isinstance(child, ast.FunctionDef):
                arguments = [*child.args.posonlyargs, *child.args.args, *child.args.kwonlyargs]
                found.setdefault(prefix + child.name, []).append([argument.arg for argument in arguments])

    visit(ast.parse(stub.read_text()), "")
    return found
