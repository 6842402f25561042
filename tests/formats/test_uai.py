import re

import numpy as np
import pytest
from format_models import SMALL_UAI, flat, models, same_model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import blendfield as bf
from blendfield.testing import enumerate_exact

quiet = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def test_reads_logarithms_in_file_order(file):
    graph, potentials = bf.read_uai(file("small.uai", SMALL_UAI))
    assert graph.regions == [(0, 1), (2, 1, 0), (1,), (0,), (2,)]
    assert len(potentials) == graph.num_given == 3
    assert potentials[0].tolist() == np.log([[1, 2, 3], [4, 5, 6]]).tolist()
    assert potentials[1].shape == (2, 3, 2)
    assert potentials[1].ravel().tolist() == [-np.inf, *np.log(range(1, 12)).tolist()]
    assert potentials[2].tolist() == np.log([0.5, 0.25, 0.125]).tolist()


def test_value_is_the_sum_over_labellings(file):
    """Against the file's numbers, multiplied out here: the last variable of a scope runs fastest."""
    graph, potentials = bf.read_uai(file("small.uai", SMALL_UAI))
    first, second = np.arange(1, 7).reshape(2, 3), np.arange(12).reshape(2, 3, 2)
    total = sum(first[i, j] * second[k, j, i] * 0.5 ** (j + 1) for i in range(2) for j in range(3) for k in range(2))
    assert enumerate_exact(graph, flat(graph, potentials), 1.0).value == pytest.approx(np.log(total), abs=1e-12)
    result = bf.infer(graph, potentials, counting_numbers="cover")
    assert result.upper >= np.log(total) - 1e-9


def test_equal_scopes_are_merged_in_the_axes_of_the_first(file):
    text = "MARKOV 2  2 3  3  2 0 1  1 0  2 1 0  6 1 2 3 4 5 6  2 7 8  6 1 2 3 4 5 6"
    graph, potentials = bf.read_uai(file("merged.uai", text))
    assert graph.regions[: graph.num_given] == [(0, 1), (0,)]
    expected = np.arange(1, 7).reshape(2, 3) * np.arange(1, 7).reshape(3, 2).T
    np.testing.assert_allclose(np.exp(potentials[0]), expected, rtol=1e-14)
    np.testing.assert_allclose(np.exp(potentials[1]), [7, 8], rtol=1e-14)


@pytest.mark.parametrize(
    ("scopes", "tables"), [("2 0 1  0", "4 1 1 1 1  1 2.5"), ("0 2 0 1", "1 2.5 4 1 1 1 1"), ("0 0", "1 5 1 0.5")]
)
def test_a_constant_is_part_of_score_and_value(file, scopes, tables):
    graph, potentials = bf.read_uai(file("constant.uai", f"MARKOV 2 2 2 2 {scopes} {tables}"))
    result = bf.infer(graph, potentials, counting_numbers="bethe")
    assert result.upper == pytest.approx(np.log(4 * 2.5), abs=1e-9)
    assert result.score == pytest.approx(np.log(2.5), abs=1e-12)


def test_a_model_without_variables_has_no_place_for_a_constant(file):
    graph, potentials = bf.read_uai(file("empty.uai", "MARKOV\n0\n\n0\n"))
    assert (graph.num_variables, potentials) == (0, [])
    assert bf.read_uai(file("one.uai", "MARKOV\n0\n1\n0\n1 1.0\n"))[1] == []
    with pytest.raises(bf.FileFormatError, match="expected a variable"):
        bf.read_uai(file("two.uai", "MARKOV\n0\n1\n0\n1 2.0\n"))


def test_variables_without_factors(file):
    graph, potentials = bf.read_uai(file("isolated.uai", "MARKOV\n3\n2 3 4\n0\n"))
    assert graph.cardinalities.tolist() == [2, 3, 4]
    assert bf.infer(graph, potentials).upper == pytest.approx(np.log(24))


@pytest.mark.parametrize("name", ["model.uai", "model.uai.gz", "model.uai.xz"])
@given(models())
@quiet
def test_round_trip(tmp_path_factory, name, model):
    graph, potentials = model
    path = tmp_path_factory.mktemp("uai") / name
    bf.write_uai(path, graph, potentials)
    again, tables = bf.read_uai(path)
    assert same_model(graph, flat(graph, potentials), again, flat(again, tables), tolerance=1e-12)


@given(st.floats(-1e6, 1e6))
@quiet
def test_scores_beyond_the_range_of_probabilities_survive(tmp_path_factory, score):
    """exp(-1000) is zero and exp(1000) infinite in float64; the file holds their digits."""
    path = tmp_path_factory.mktemp("uai") / "extreme.uai"
    bf.write_uai(path, bf.RegionGraph([2], [(0,)]), [[score, -np.inf]])
    _, potentials = bf.read_uai(path)
    assert potentials[0][0] == pytest.approx(score, abs=1e-15 + 1e-12 * abs(score))
    assert potentials[0][1] == -np.inf


def test_all_regions_are_written_when_an_appended_one_has_a_score(tmp_path):
    graph = bf.RegionGraph([2, 2, 3], [(2, 0)])
    bf.write_uai(tmp_path / "a.uai", graph, [None])
    assert bf.read_uai(tmp_path / "a.uai")[0].num_given == 1
    bf.write_uai(tmp_path / "b.uai", graph, [None, None, [0.5, -1.0], None])
    again, potentials = bf.read_uai(tmp_path / "b.uai")
    assert again.regions == graph.regions
    assert potentials[2].tolist() == pytest.approx([0.5, -1.0], abs=1e-15)


def test_edges_are_those_asked_for(file):
    path = file("small.uai", SMALL_UAI)
    assert bf.read_uai(path)[0].children[1] == (0, 4)
    assert bf.read_uai(path, edges="variables")[0].children[1] == (2, 3, 4)


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("", 1, "expected MARKOV or BAYES, got the end of the file"),
        ("MARCOV\n1\n2\n0\n", 1, "expected MARKOV or BAYES, got 'MARCOV'"),
        ("MARKOV\nx", 2, "expected a number, got 'x'"),
        ("MARKOV\n2.5\n", 2, "expected the number of variables, got '2.5'"),
        ("MARKOV\n1_0\n", 2, "expected a number, got '1_0'"),
        ("MARKOV\n-1\n", 2, "expected the number of variables, got '-1'"),
        ("MARKOV\nnan\n", 2, "expected the number of variables, got 'nan'"),
        ("MARKOV\n1000000000\n2 2\n", 3, "expected 1000000000 numbers, but 2 are left: a number of labels"),
        ("MARKOV\n2\n2 0\n0\n", 3, "expected a number of labels, got '0'"),
        ("MARKOV\n2\n2 2\n", 3, "expected the number of factors, got the end of the file"),
        ("MARKOV\n2\n2 2\n3\n1 0\n", 5, "expected 3 numbers, but 2 are left: the scopes of the factors"),
        ("MARKOV\n2\n2 2\n1\n3 0 1 1\n8\n", 5, "expected the number of variables of a factor, at most 2, got '3'"),
        ("MARKOV\n2\n2 2\n1\n2 0 2\n4\n1 1 1 1", 5, "expected a variable from 0 to 1, got '2'"),
        ("MARKOV\n2\n2 2\n1\n2 1 1\n4\n1 1 1 1", 5, "expected different variables in factor 0, got '2'"),
        ("MARKOV\n1\n2\n1\n1 0\n3\n1 1 1", 6, "expected 2 entries in the table of factor 0, got '3'"),
        ("MARKOV\n1\n2\n1\n1 0\n2\n1", 7, "expected 2 entries in the table of factor 0, of which 1 are there, got the"),
        ("MARKOV\n1\n2\n1\n1 0\n2\n1 -1\n", 7, "expected a number >= 0, got '-1'"),
        ("MARKOV\n1\n2\n1\n1 0\n2\n1\ninf\n", 8, "expected a number >= 0, got 'inf'"),
        ("MARKOV\n1\n2\n1\n1 0\n2\n1 1\n1\n", 8, "expected the end of the file, got '1'"),
    ],
)
def test_faults_name_file_line_and_expectation(file, text, line, expected):
    path = file("bad.uai", text)
    with pytest.raises(bf.FileFormatError, match=re.escape(f"{path}:{line}: {expected}")):
        bf.read_uai(path)


def test_a_table_declared_larger_than_the_file_is_refused_with_its_size(file):
    """2^28 entries, and 2^60, are refused before anything is allocated."""
    for order, labels in ((28, 2), (30, 4)):
        scope = f"{order} {' '.join(map(str, range(order)))}"
        text = f"MARKOV\n{order}\n{f'{labels} ' * order}\n1\n{scope}\n{labels**order}\n1 1 1\n"
        with pytest.raises(bf.FileFormatError, match=f":7: expected {labels**order} entries .* of which 3 are there"):
            bf.read_uai(file("huge.uai", text))


def test_competition_models(data):
    """Every model of the set: read, evidence and answers fit, and writing it again changes nothing."""
    names = sorted(data("uai2014").glob("*.uai"))
    assert len(names) == 55
    for path in names:
        graph, potentials = bf.read_uai(path)
        assert len(potentials) == graph.num_given
        (evidence,) = bf.read_evidence(f"{path}.evid", graph)
        assert all(label < graph.cardinalities[i] for i, label in evidence.items())
        assert np.isfinite(bf.read_pr(f"{path}.PR"))
        if (answers := path.with_suffix(".uai.MAR")).exists():
            assert [len(marginal) for marginal in bf.read_mar(answers)] == graph.cardinalities.tolist()


def test_unpacks_xz(data):
    graph, potentials = bf.read_uai(data("graphical_models") / "GeomSurf-7-gm256.uai.xz")
    assert np.bincount(graph.region_orders[: graph.num_given]).tolist() == [0, 787, 2180, 560]
    assert all(np.isfinite(table).all() for table in potentials)
