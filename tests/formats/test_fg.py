import re

import numpy as np
import pytest
from format_models import flat, models, same_model
from hypothesis import HealthCheck, given, settings

import blendfield as bf
from blendfield.formats import factors
from blendfield.inference import memory
from blendfield.testing import enumerate_exact

quiet = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

SMALL = """# made by hand
2

3
4 8 7   # axes
3 2 2
11
0 0.1
1 3.5
2 2.8
3 6.3
4 8.4
6 7.4
7 2.4
8 8.9
9 1.3
10 1.6
11 2.6

1
0
2
1
1 5
"""


def test_the_first_variable_runs_fastest(file):
    graph, potentials = bf.read_fg(file("small.fg", SMALL))
    assert graph.cardinalities.tolist() == [2, 1, 1, 1, 3, 1, 1, 2, 2]  # those not named have one label
    assert graph.regions[:2] == [(4, 8, 7), (0,)]
    expected = np.zeros((3, 2, 2))
    for index, value in [(0, 0.1), (1, 3.5), (2, 2.8), (3, 6.3), (4, 8.4), (6, 7.4), (11, 2.6)]:
        expected[index % 3, index // 3 % 2, index // 6] = value
    table = np.exp(potentials[0])
    np.testing.assert_allclose(table[expected > 0], expected[expected > 0], rtol=1e-15)
    assert table[2, 1, 0] == 0  # index 5
    assert potentials[1].tolist() == [-np.inf, np.log(5)]


def test_equal_scopes_and_constants(file):
    entries = "6\n0 1\n1 2\n2 3\n3 4\n4 5\n5 6\n"
    text = f"3\n\n2\n0 1\n2 3\n{entries}\n0\n\n\n1\n0 2\n\n2\n1 0\n3 2\n{entries}"
    graph, potentials = bf.read_fg(file("a.fg", text))
    first = np.arange(1, 7).reshape((2, 3), order="F")
    second = np.arange(1, 7).reshape((3, 2), order="F").T
    np.testing.assert_allclose(np.exp(potentials[0]), 2 * first * second, rtol=1e-14)
    assert graph.num_given == 1


@given(models())
@quiet
def test_round_trip(tmp_path_factory, model):
    graph, potentials = model
    path = tmp_path_factory.mktemp("fg") / "model.fg"
    bf.write_fg(path, graph, potentials)
    again, tables = bf.read_fg(path)
    assert same_model(graph, flat(graph, potentials), again, flat(again, tables), tolerance=1e-12)


@given(models())
@quiet
def test_the_same_model_as_uai(tmp_path_factory, model):
    """The two formats run through a table in opposite directions."""
    folder = tmp_path_factory.mktemp("both")
    bf.write_uai(folder / "a.uai", *model)
    bf.write_fg(folder / "a.fg", *bf.read_uai(folder / "a.uai"))
    graph, potentials = bf.read_fg(folder / "a.fg")
    if not np.isneginf(value := enumerate_exact(model[0], flat(*model), 0.0).value):
        assert enumerate_exact(graph, flat(graph, potentials), 0.0).value == pytest.approx(value, abs=1e-11)


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("# nothing\n", 1, "expected the number of factors, got the end of the file"),
        ("1\n\n1\nx\n", 4, "expected a number, got 'x'"),
        ("2\n\n0\n\n\n0\n", 6, "expected the number of variables of factor 1, got the end of the file"),
        ("1\n\n2\n0 0\n2 2\n0\n", 3, "expected different variables in factor 0, got '2'"),
        ("1\n\n1\n-1\n2\n0\n", 4, "expected a variable from 0 to"),
        ("1\n\n1\n999999999\n2\n0\n", 4, "expected a variable from 0 to 1005, got '999999999'"),
        ("1\n\n1\n0\n0\n0\n", 5, "expected a number of labels from 1 to 2147483647, got '0'"),
        ("2\n\n1\n0\n2\n0\n\n1\n0\n3\n0\n", 10, "expected 2 labels of variable 0 as before, got '3'"),
        ("1\n\n1\n0\n2\n1\n2 0.5\n", 7, "expected an index from 0 to 1, got '2'"),
        ("1\n\n1\n0\n2\n2\n0 0.5\n0 0.5\n", 8, "expected every index of a table once, got '0'"),
        ("1\n\n1\n0\n2\n1\n0 -0.5\n", 7, "expected a number >= 0, got '-0.5'"),
        ("1\n\n1\n0\n2\n2\n0 0.5\n", 7, "expected 2 entries of factor 0, each an index and a number, got the end"),
        ("1\n\n1\n0\n2\n1\n0 0.5\n1 0.5\n", 8, "expected the end of the file, got '1'"),
    ],
)
def test_faults_name_file_line_and_expectation(file, text, line, expected):
    path = file("bad.fg", text)
    with pytest.raises(bf.FileFormatError, match=re.escape(f"{path}:{line}: {expected}")):
        bf.read_fg(path)


def test_a_table_of_two_to_the_28_is_refused_with_its_size(file, monkeypatch):
    """A file of a hundred bytes can describe it; so can one describe many tables that together do not fit."""
    scope = " ".join(map(str, range(28)))
    with pytest.raises(bf.FileFormatError, match=r":3: expected tables of fewer than 2\^28 .* got one of 268435456"):
        bf.read_fg(file("huge.fg", f"1\n\n28\n{scope}\n{'2 ' * 28}\n0\n"))
    monkeypatch.setattr(memory, "available_bytes", lambda: 2**20)
    assert factors.MAX_SPARSE_TABLE == 2**28
    with pytest.raises(bf.NotEnoughMemoryError, match=r"its tables of 134217728 entries would need about 2\.0 GiB"):
        bf.read_fg(file("large.fg", f"1\n\n27\n{scope[:-3]}\n{'2 ' * 27}\n0\n"))


def test_models_of_libdai(data):
    """Against the exact marginals printed by libDAI for its own test model."""
    folder = data("graphical_models") / "libdai"
    for path in sorted(folder.glob("*.fg")):
        graph, potentials = bf.read_fg(path)
        assert all((table > -np.inf).any() for table in potentials), path
        assert graph.num_given == len(potentials)
    graph, potentials = bf.read_fg(folder / "testfast.fg")
    exact = enumerate_exact(graph, flat(graph, potentials), 1.0)
    printed = re.findall(r"\(\{x(\d+)\}, \((\S+), (\S+)\)\)", (folder / "testfast.out").read_text())[:16]
    for variable, *marginal in printed:
        start = graph.table_offsets[graph.single_regions[int(variable)]]
        assert exact.marginals[start : start + 2] == pytest.approx([float(p) for p in marginal], rel=1e-3)
