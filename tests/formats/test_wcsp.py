import re

import numpy as np
import pytest
from format_models import flat

import blendfield as bf
from blendfield.testing import enumerate_exact

QUEENS = """4-queens 4 4 10 5
4 4 4 4
2 0 1 0 10
0 0 5
0 1 5
1 0 5
1 1 5
1 2 5
2 1 5
2 2 5
2 3 5
3 2 5
3 3 5
2 0 2 0 8
0 0 5
0 2 5
1 1 5
1 3 5
2 0 5
2 2 5
3 1 5
3 3 5
2 0 3 0 6
0 0 5
0 3 5
1 1 5
2 2 5
3 0 5
3 3 5
2 1 2 0 10
0 0 5
0 1 5
1 0 5
1 1 5
1 2 5
2 1 5
2 2 5
2 3 5
3 2 5
3 3 5
2 1 3 0 8
0 0 5
0 2 5
1 1 5
1 3 5
2 0 5
2 2 5
3 1 5
3 3 5
2 2 3 0 10
0 0 5
0 1 5
1 0 5
1 1 5
1 2 5
2 1 5
2 2 5
2 3 5
3 2 5
3 3 5
1 0 0 2
1 1
3 1
1 1 0 2
1 1
2 1
1 2 0 1
2 1
1 3 0 1
2 1
"""


def best(graph, potentials):
    return enumerate_exact(graph, flat(graph, potentials), 0.0)


def test_queens(file):
    """Two placements are left, (1, 3, 0, 2) of cost 2 and (2, 0, 3, 1) of cost 0."""
    exact = best(*bf.read_wcsp(file("queens.wcsp", QUEENS)))
    assert exact.value == 0
    assert exact.labels.tolist() == [2, 0, 3, 1]
    graph, potentials = bf.read_wcsp(
        file("queens.wcsp", QUEENS.replace("1 0 0 2\n", "0 2 0\n1 0 0 2\n", 1).replace(" 10 5\n", " 11 5\n"))
    )
    assert best(graph, potentials).value == -2  # a function without variables is a constant


def test_costs_from_the_bound_on_are_forbidden(file):
    graph, potentials = bf.read_wcsp(file("a.wcsp", "p 2 3 1 7\n2 3\n2 1 0 7 3\n0 1 6\n2 0 0\n1 1 8\n"))
    assert graph.regions[0] == (1, 0)
    assert potentials[0].tolist() == [[-np.inf, -6], [-np.inf, -np.inf], [0, -np.inf]]


def test_shared_tables(file):
    text = "p 3 3 3 10\n2 3 3\n-2 0 1 5 2\n0 1 0\n1 2 3\n2 0 2 1 -1\n1 1 4 0\n"
    graph, potentials = bf.read_wcsp(file("a.wcsp", text))
    assert graph.regions[:3] == [(0, 1), (0, 2), (1,)]
    assert potentials[0].tolist() == potentials[1].tolist() == [[-5, 0, -5], [-5, -5, -3]]
    assert potentials[2].tolist() == [-4, -4, -4]


@pytest.mark.parametrize(
    ("words", "cost"),
    [
        (">= 1 2", lambda x, y: y + 1 - x),
        ("> 1 2", lambda x, y: y + 2 - x),
        ("<= 1 2", lambda x, y: x - 1 - y),
        ("< 1 2", lambda x, y: x - y),
        ("= 1 2", lambda x, y: abs(y + 1 - x)),
    ],
)
def test_soft_inequalities(file, words, cost):
    _, potentials = bf.read_wcsp(file("a.wcsp", f"p 2 5 1 100\n5 -4\n2 0 1 -1 {words}\n"))
    for (x, y), score in np.ndenumerate(potentials[0]):
        assert score == (-np.inf if cost(x, y) > 2 else -max(0, cost(x, y)))


def test_disjunctions(file):
    _, potentials = bf.read_wcsp(file("a.wcsp", "p 2 6 1 100\n6 6\n2 0 1 -1 disj 2 3 7\n"))
    for (x, y), score in np.ndenumerate(potentials[0]):
        assert score == (0 if x >= y + 3 or y >= x + 2 else -7)
    _, potentials = bf.read_wcsp(file("b.wcsp", "p 2 6 1 100\n6 6\n2 0 1 -1 sdisj 2 3 4 5 7 9\n"))
    for (x, y), score in np.ndenumerate(potentials[0]):
        apart = x >= y + 3 or y >= x + 2 or x == 4 or y == 5
        assert score == (-7 * (x == 4) - 9 * (y == 5) if x <= 4 and y <= 5 and apart else -np.inf)


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("", 1, "the name of the problem, got the end of the file"),
        ("p 1 2\n", 1, "the number of cost functions, got the end of the file"),
        ("p 1 2 0 many\n", 1, "the upper bound on the cost, got 'many'"),
        ("p 2 2 0 9\n2\n", 2, "2 numbers, but 1 are left: a number of labels"),
        ("p 1 2 0 9\n0\n", 2, "a number of labels, got '0'"),
        ("p 1 2 1 9\n2\n1 1 0 0\n", 3, "a variable, got '1'"),
        ("p 2 2 1 9\n2 2\n2 1 1 0 0\n", 3, "different variables in a scope, got '1'"),
        ("p 1 2 1 9\n2\n1 0 -3 0\n", 3, "a default cost >= 0, got '-3'"),
        ("p 1 2 1 9\n2\n1 0 0 2\n0 1\n", 4, "4 numbers, but 2 are left: the labels and the cost of 2 tuples"),
        ("p 1 2 1 9\n2\n1 0 0 1\n2 1\n", 4, "a label from 0 to 1, got '2'"),
        ("p 1 2 1 9\n2\n1 0 0 2\n1 1\n1 2\n", 4, "the same cost for the same labels, got '1'"),
        ("p 1 2 1 9\n2\n1 0 0 -1\n", 3, "one of the 0 shared tables so far, got '-1'"),
        ("p 2 3 2 9\n2 3\n-1 0 0 0\n1 1 0 -1\n", 4, "a shared table of shape (3,), not (2,), got '-1'"),
        ("p 3 2 1 9\n2 2 2\n3 0 1 2 -1 salldiff var 1\n", 3, "a table or one of <, <=, >, >=, =, disj, sdisj (no"),
        ("p 2 2 1 9\n2 2\n2 0 1 -1 >= 1\n", 3, "2 numbers, but 1 are left: 2 parameters of >="),
        ("p 1 2 0 9\n2\n1\n", 3, "the end of the file, got '1'"),
    ],
)
def test_faults_name_file_line_and_expectation(file, text, line, expected):
    path = file("bad.wcsp", text)
    with pytest.raises(bf.FileFormatError, match=re.escape(f"{path}:{line}: expected {expected}")):
        bf.read_wcsp(path)


def test_a_table_of_two_to_the_28_is_refused_with_its_size(file):
    scope = " ".join(map(str, range(28)))
    with pytest.raises(bf.FileFormatError, match=r":3: expected tables of fewer than 2\^28 .* got one of 268435456"):
        bf.read_wcsp(file("huge.wcsp", f"p 28 2 1 9\n{'2 ' * 28}\n28 {scope} 0 0\n"))


def test_instances_of_toulbar2(data):
    """Where the best labelling found is certified, its cost is the one that was published."""
    folder = data("graphical_models")
    for path in sorted(folder.glob("*.wcsp*")):
        graph, potentials = bf.read_wcsp(path)
        assert graph.num_given == len(potentials)
        assert not any(np.isnan(table).any() or table.max() > 0 for table in potentials), path
    graph, potentials = bf.read_wcsp(folder / "example.wcsp")
    result = bf.infer(graph, potentials, epsilon=0, counting_numbers="cover", max_iterations=200)
    optimum = float((folder / "example.ub").read_text())
    assert result.score <= -optimum <= result.upper
