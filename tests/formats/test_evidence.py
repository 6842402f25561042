import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import blendfield as bf

quiet = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize(
    ("text", "samples"),
    [
        ("0", [{}]),
        ("0\n", [{}]),
        ("2 8 1 4 0", [{8: 1, 4: 0}]),
        ("2\n8 1\n4 0\n", [{8: 1, 4: 0}]),
        ("  2\t8 1  4 0 \n", [{8: 1, 4: 0}]),
        ("1\n2 8 1 4 0\n", [{8: 1, 4: 0}]),
        ("1 2 8 1 4 0\n", [{8: 1, 4: 0}]),
        ("1\n0\n", [{}]),
        ("1 3 5", [{3: 5}]),
        ("2\n1 3 5\n2 0 0 1 1\n", [{3: 5}, {0: 0, 1: 1}]),
        ("2 1 3 5 2 0 0 1 1", [{3: 5}, {0: 0, 1: 1}]),
        # Both dialects would do: one line is one sample, several lines are several.
        ("2 0 1 3 4", [{0: 1, 3: 4}]),
        ("2\n0\n1 3 4\n", [{}, {3: 4}]),
    ],
)
def test_dialects(file, text, samples):
    assert bf.read_evidence(file("a.evid", text)) == samples


@given(st.lists(st.dictionaries(st.integers(0, 50), st.integers(0, 5), max_size=4), min_size=1, max_size=4))
@quiet
def test_round_trip(tmp_path_factory, samples):
    path = tmp_path_factory.mktemp("evidence") / "a.evid"
    bf.write_evidence(path, samples)
    assert bf.read_evidence(path) == samples
    bf.write_evidence(path, samples[0])
    assert bf.read_evidence(path) == samples[:1]


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("", 1, "the number of observed variables, or of samples, got the end of the file"),
        ("x", 1, "a number, got 'x'"),
        ("2 0 1", 1, "4 numbers, but 2 are left"),
        ("3\n1 0 1\n1 0\n", 2, "6 numbers, but 5 are left"),
        ("1 0 -1", 1, "the variable and the label of 1 observations, got '-1'"),
        ("2\n1 1\n1 0\n", 3, "the label 1 of variable 1 once more, got '0'"),
        ("1\n3 1\n", 2, "a variable from 0 to 1, got '3'"),
        ("1\n0 2\n", 2, "a label of variable 0 from 0 to 1, got '2'"),
    ],
)
def test_faults(file, text, line, expected):
    path = file("bad.evid", text)
    graph = bf.RegionGraph([2, 3], [])
    with pytest.raises(bf.FileFormatError, match=re.escape(f"{path}:{line}: expected {expected}")):
        bf.read_evidence(path, graph)


def test_evidence_of_infer(file):
    graph = bf.RegionGraph([2, 3], [(0, 1)])
    (evidence,) = bf.read_evidence(file("a.evid", "1 1 2"), graph)
    assert bf.infer(graph, [None], evidence=evidence).labels[1] == 2
