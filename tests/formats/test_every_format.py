"""One property of all readers: whatever the factors, a labelling's score is what the file says, added up by hand."""

import itertools

import numpy as np
import pytest
from format_models import flat
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import blendfield as bf

quiet = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def factor_lists(draw):
    """(numbers of labels, [(scope, table of costs 0..9)]): equal scopes, other orders of axes, constants."""
    labels = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    scopes = draw(st.lists(st.lists(st.integers(0, len(labels) - 1), max_size=3, unique=True), max_size=5))
    factors = []
    for scope in scopes:
        shape = tuple(labels[i] for i in scope)
        size = int(np.prod(shape, dtype=int))
        costs = draw(st.lists(st.integers(0, 9), min_size=size, max_size=size))
        factors.append((scope, np.array(costs, float).reshape(shape)))
    return labels, factors


def uai(labels, factors):
    scopes = [" ".join(map(str, [len(scope), *scope])) for scope, _ in factors]
    tables = [" ".join(map(repr, [table.size, *np.exp(-table).ravel().tolist()])) for _, table in factors]
    return "\n".join(["MARKOV", str(len(labels)), " ".join(map(str, labels)), str(len(factors)), *scopes, *tables])


def fg(labels, factors):
    # Variables that no factor names would have one label only.
    factors = [*factors, *[([i], np.zeros(n)) for i, n in enumerate(labels)]]
    lines = [str(len(factors))]
    for scope, table in factors:
        values = np.exp(-table).ravel(order="F").tolist()
        lines += ["", str(len(scope)), " ".join(map(str, scope)), " ".join(map(str, table.shape)), str(table.size)]
        lines += [f"{k} {value!r}" for k, value in reversed(list(enumerate(values)))]
    return "\n".join(lines)


def wcsp(labels, factors):
    lines = [f"p {len(labels)} 3 {len(factors)} 1000", " ".join(map(str, labels))]
    for scope, table in factors:
        default = table.ravel()[0]
        listed = [(*place, cost) for place, cost in np.ndenumerate(table) if cost != default]
        lines.append(" ".join(map(str, [len(scope), *scope, int(default), len(listed)])))
        lines += [" ".join(str(int(k)) for k in row) for row in listed]
    return "\n".join(lines)


def cfn(labels, factors):
    """Every other function dense; variables and labels with names."""
    variables = [f"v{i}: [{' '.join(f'l{k}' for k in range(n))}]" for i, n in enumerate(labels)]
    functions = []
    for number, (scope, table) in enumerate(factors):
        head = f'"f{number}": {{"scope": [{", ".join(f"v{i}" for i in scope)}],'
        if number % 2:
            rows = [", ".join([*(f"l{k}" for k in place), f"{cost}"]) for place, cost in np.ndenumerate(table) if cost]
            functions.append(f'{head} "defaultcost": 0, "costs": [{", ".join(rows)}]}}')
        else:
            functions.append(f'{head} "costs": [{", ".join(map(str, table.ravel().tolist()))}]}}')
    return f"{{problem: {{p <1000}}, variables: {{{', '.join(variables)}}}, functions: {{{', '.join(functions)}}}}}"


@pytest.mark.parametrize("text", [uai, fg, wcsp, cfn])
@given(factor_lists())
@quiet
def test_scores_are_those_of_the_file(tmp_path_factory, text, model):
    labels, factors = model
    path = tmp_path_factory.mktemp("format") / f"model.{text.__name__}"
    path.write_text(text(labels, factors))
    graph, potentials = bf.read_model(path)
    assert graph.cardinalities.tolist() == labels
    scopes = [frozenset(scope) for scope, _ in factors if scope]
    assert [frozenset(r) for r in graph.regions[: len(set(scopes))]] == list(dict.fromkeys(scopes))
    scores = flat(graph, potentials)
    for labelling in itertools.product(*map(range, labels)):
        expected = -sum(table[tuple(labelling[i] for i in scope)] for scope, table in factors)
        score = 0.0
        for region, (variables, start) in enumerate(zip(graph.regions, graph.table_offsets, strict=False)):
            score += scores[start + np.ravel_multi_index([labelling[i] for i in variables], graph.shape(region))]
        assert score == pytest.approx(expected, abs=1e-9)
