import gzip
import json
import re

import numpy as np
import pytest
from format_models import flat

import blendfield as bf
from blendfield.testing import enumerate_exact

JSON = """{
  "problem": {"name": "test", "mustbe": "<12.10"},
  "variables": {"x": ["a", "b", "c"], "y": 2, "z": ["u", "v"]},
  "functions": {
    "dense": {"scope": ["x", "y"], "costs": [4.2, "3.67", -12.1, 7.1, -3.1, 100.2]},
    "sparse": {"scope": ["z", "x"], "defaultcost": 0.25, "costs": ["v", "a", 5, 0, 2, -1.5]},
    "again": {"scope": ["x", 2], "costs": "last"},
    "constant": {"scope": [], "costs": [2.5]},
    "last": {"scope": [0, "z"], "costs": [1, 2, 3, 4, 5, 6]}
  }
}"""

CONCISE = """{ problem {test <12.10}
variables [x[a b c] y 2 z[u v]]
# a comment
functions {
  dense {[x y] [4.2 3.67 -12.1 7.1 -3.1 100.2]}
  sparse {scope [z x] 0.25 [v a 5, u c -1.5]}
  again {[0 2] last}
  constant {[] [2.5]}
  last {scope: [x z] costs: {1, 2, 3, 4, 5, 6}}
}}
"""


@pytest.mark.parametrize("text", [JSON, CONCISE])
def test_reads_costs(file, text):
    """Regions (x, y) and (z, x); the tables over x and z are all one region, in the axes of the first."""
    graph, potentials = bf.read_cfn(file("a.cfn", text))
    assert graph.regions == [(0, 1), (2, 0), (0,), (1,), (2,)]
    # No labelling is forbidden by 100.2 alone but by what it makes the total: at least 100.2 - 1.5 + 2.5.
    dense = np.array([[4.2, 3.67], [-12.1, 7.1], [-3.1, 100.2]]) + 2.5
    expected = -dense
    expected[2, 1] = -np.inf
    np.testing.assert_allclose(potentials[0], expected, rtol=1e-14)
    sparse = np.array([[0.25, 0.25, -1.5], [5, 0.25, 0.25]])
    np.testing.assert_allclose(potentials[1], -(sparse + 2 * np.arange(1, 7).reshape(3, 2).T), rtol=1e-14)


def test_negative_costs_shift_the_bound(file):
    """A cost above the bound is allowed where others can make up for it."""
    text = "{{problem: {{p <5}}, variables: {{x: 2, y: 2}}, functions: {{f: {{[x] [{}]}}, g: {{[y] [0 -3]}}}}}}"
    _, potentials = bf.read_cfn(file("a.cfn", text.format("0 7")))
    assert potentials[0].tolist() == [0, -7]
    _, potentials = bf.read_cfn(file("b.cfn", text.format("0 8")))
    assert potentials[0].tolist() == [0, -np.inf]


def test_maximisation(file):
    """Gains are scores; those that cannot come above the bound are forbidden."""
    text = """{problem: {name: m, mustbe: ">-5.0"}, variables: {"v1": ["a", "b"], "v2": ["c", "d"]},
    functions: {"c0": {scope: [], costs: [-6.0]}, "c1": {scope: ["v1"], costs: [1.0, 0.5]},
    "c2": {scope: ["v2"], costs: [1.0, 0.5]}, "c12": {scope: ["v1", "v2"], costs: [-1.0, 0.5, -2.0, 5.5]}}}"""
    graph, potentials = bf.read_cfn(file("a.cfn", text))
    exact = enumerate_exact(graph, flat(graph, potentials), 0.0)
    assert exact.value == pytest.approx(0.5)
    assert exact.labels.tolist() == [1, 1]


def test_arithmetic_functions(file):
    text = '{problem: {p "<50"} variables: {x: 4 y: -4} functions: {f: {scope: [x y] type: ">=" params: [1 2]}}}'
    _, potentials = bf.read_cfn(file("a.cfn", text))
    for (x, y), score in np.ndenumerate(potentials[0]):
        assert score == (-np.inf if y + 1 - x > 2 else -max(0, y + 1 - x))


HEAD = "{problem: {p <9}\nvariables: {x: [a b] y: 2}\nfunctions: {\n"


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("", 1, "a bracket, got the end of the brackets"),
        ("{\n{\n", 2, "'}', got the end of the file"),
        ("{]", 1, "'}', got ']'"),
        ("{} {}", 1, "the end of the file, got a bracket"),
        ("{\n}", 2, "problem and a bracket, got the end of the brackets"),
        ("{problem {p <9} variables [] functions []} x", 1, "the end of the file, got 'x'"),
        ("}", 1, "the end of the file, got '}'"),
        ("[" * 30, 1, "at most 16 brackets in each other, got '['"),
        ("{problem: {p\n<x}\nvariables {} functions {}}", 2, "a bound such as <10.0, got '<x'"),
        ("{problem {p <9}\nvariables {x [a\na]}}", 3, "functions and a bracket, got the end of the brackets"),
        ("{problem {p <9}\nvariables {x [a\na]} functions {}}", 3, "different labels, got 'a'"),
        ("{problem {p <9}\nvariables {x 2\nx 3} functions {}}", 3, "a new name for every variable, got 'x'"),
        ("{problem {p <9}\nvariables {x 0} functions {}}", 2, "a number of labels, got '0'"),
        (HEAD + "f: {scope: [x\nw] costs: []}}}", 5, "a variable, got 'w'"),
        (HEAD + "f: {scope: [x 0] costs: []}}}", 4, "different variables in a scope, got '0'"),
        (HEAD + "f: {scope: [x] costs: [1\n2\n3]}}}", 6, "2 costs, got '3'"),
        (HEAD + "f: {scope: [x] costs: [1]}}}", 4, "2 costs, got the end of the brackets"),
        (HEAD + "f: {scope: [x] costs: [1\ntwo]}}}", 5, "a cost, got 'two'"),
        (HEAD + "f: {scope: [x] defaultcost: 1 costs: [a 1\nc 2]}}}", 5, "a label of the variable, got 'c'"),
        (HEAD + "f: {scope: [x] defaultcost: 1 costs: [0 1\n2 2]}}}", 5, "a label from 0 to 1, got '2'"),
        (HEAD + "f: {scope: [x] defaultcost: 1 costs: [0 1 1]}}}", 4, "rows of 1 labels and a cost, got the end"),
        (HEAD + "f: {scope: [x] defaultcost: 1 costs: [0 [1]]}}}", 4, "a cost, got a bracket"),
        (HEAD + "f: {scope: [x]\ncosts: g}}}", 5, "the costs of a function that has its own, got the end"),
        (HEAD + "f: {scope: [x] costs: [1 2]\nmore}}}", 5, "the end of the brackets, got 'more'"),
        (HEAD + "f: {scope: [x] costs: [1 2]}\nf: {scope: [y] costs: [1 2]}}}", 5, "a new name for every function"),
        (HEAD + "f: {scope: [x y] type: salldiff params: []}}}", 4, "a table, or one of <, <=, >, >=, =, disj, sdisj"),
        (HEAD + "f: {scope: [x y] type: >= params: [1]}}}", 4, "2 parameters of >=, got"),
    ],
)
def test_faults_name_file_line_and_expectation(file, text, line, expected):
    path = file("bad.cfn", text)
    with pytest.raises(bf.FileFormatError, match=re.escape(f"{path}:{line}: expected {expected}")):
        bf.read_cfn(path)


def test_a_table_of_two_to_the_28_is_refused_with_its_size(file):
    names = [f"v{i}" for i in range(28)]
    variables = ", ".join(f"{name}: 2" for name in names)
    function = f"{{scope [{' '.join(names)}] defaultcost 1 costs []}}"
    text = f"{{problem {{p <9}}\nvariables {{{variables}}}\nfunctions {{f {function}}}}}"
    with pytest.raises(bf.FileFormatError, match=r":3: expected tables of fewer than 2\^28 .* got one of 268435456"):
        bf.read_cfn(file("huge.cfn", text))


def test_alarm(data):
    """Scores of random labellings against the file's costs, added up by hand."""
    path = data("graphical_models") / "alarm.cfn.gz"
    content = json.loads(gzip.decompress(path.read_bytes()))
    graph, potentials = bf.read_model(path)
    assert graph.num_variables == len(content["variables"]) == 37
    rng = np.random.default_rng(0)
    domains = list(content["variables"].values())
    places = {name: i for i, name in enumerate(content["variables"])}
    for _ in range(20):
        labels = rng.integers(0, graph.cardinalities)
        cost = 0.0
        for function in content["functions"].values():
            scope = [places[name] for name in function["scope"]]
            index = np.ravel_multi_index(labels[scope], [len(domains[i]) for i in scope])
            cost += float(function["costs"][index])
        score = sum(table[tuple(labels[list(r)])] for r, table in zip(graph.regions, potentials, strict=False))
        assert score == pytest.approx(-cost, abs=1e-9)
