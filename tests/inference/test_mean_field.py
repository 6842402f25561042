"""method="mean-field": coordinate ascent over products of distributions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inference_models import INF, chain, check_sound, complete, grid

import blendfield as bf
from blendfield.backends.mean_field import FieldProgram, compile_mean_field, variable_classes
from blendfield.testing import enumerate_exact, random_forest, random_region_graph, random_tables

FIELD = {"method": "mean-field"}


def value_of(graph, tables, beliefs, epsilon):
    """F of a product of distributions, by its definition."""
    value = 0.0
    for r, region in enumerate(graph.regions):
        table = np.asarray(tables[r])
        q = np.asarray(beliefs[r])
        value += (q * np.where(q > 0, table, 0.0)).sum()
        if len(region) == 1:
            value -= epsilon * (q[q > 0] * np.log(q[q > 0])).sum()
    return value


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1.0, 0.3, 0.0]), st.sampled_from([0.0, 0.3]))
def test_lower_is_a_bound_and_the_value_of_its_product(seed, epsilon, forbidden):
    rng = np.random.default_rng(seed)
    graph = random_region_graph(rng, 3)
    flat = random_tables(rng, graph, forbidden=forbidden)
    exact = enumerate_exact(graph, flat, epsilon)
    result = bf.infer(graph, flat, epsilon, restarts=1, **FIELD)
    check_sound(result)
    assert result.lower <= exact.value + 1e-9 * (1 + abs(exact.value))
    assert result.lower >= result.score
    assert (result.upper, result.gap, result.certified) == (INF, INF, True)
    assert (result.history["lower"][1:] >= result.history["lower"][:-1]).all()
    if np.isfinite(result.lower):
        tables = [flat[graph.table_offsets[r] : graph.table_offsets[r + 1]] for r in range(graph.num_regions)]
        tables = [table.reshape(graph.shape(r)) for r, table in enumerate(tables)]
        value = value_of(graph, tables, result.beliefs, epsilon)
        assert value <= result.lower + 1e-9
        assert max(value, result.score) == pytest.approx(result.lower, abs=1e-9)


@pytest.mark.parametrize("epsilon", [1.0, 0.4, 0.0])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_backends_agree(epsilon, dtype):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        graph = random_region_graph(rng, 3, parts=2)
        tables = random_tables(rng, graph, forbidden=0.2 if seed % 2 else 0.0).astype(dtype)
        parts = FieldProgram(graph, tables, epsilon, variable_classes(graph), np.zeros(graph.num_variables, int), 1)
        fields = [compile_mean_field(name, parts, 2) for name in ("reference", "cpu")]
        for _ in range(4):
            changes = [field.sweep(np.array([True])) for field in fields]
            np.testing.assert_allclose(changes[0], changes[1], atol=1e-9)
            for first, second in zip(*(field.value() for field in fields), strict=True):
                np.testing.assert_allclose(first, second, atol=1e-9)
        np.testing.assert_allclose(fields[0].beliefs(), fields[1].beliefs(), atol=1e-6)
        assert fields[0].beliefs().dtype == fields[1].beliefs().dtype == dtype


def test_no_sweep_lowers_the_value():
    for seed in range(5):
        graph, tables = complete(6, 3, seed, 2.0)
        flat = np.concatenate([table.ravel() for table in tables] + [np.zeros(18)])
        program = FieldProgram(graph, flat, 0.7, variable_classes(graph), np.zeros(6, np.int32), 1)
        field = compile_mean_field("cpu", program, None)
        values = []
        for _ in range(20):
            values.append(field.value()[0][0])
            field.sweep(np.array([True]))
        assert (np.diff(values) >= -1e-12).all()


def test_variables_of_a_class_share_no_region():
    graph = random_region_graph(np.random.default_rng(2), 3, num_variables=8)
    classes = variable_classes(graph)
    for region in graph.regions:
        assert len({classes[i] for i in region}) == len(region)


def test_is_exact_without_larger_regions(backend):
    graph = bf.RegionGraph([2, 3, 4], [])
    tables = [np.array([0.0, 1.0]), np.array([1.0, -INF, 0.5]), np.arange(4.0)]
    result = bf.infer(graph, tables, backend=backend, **FIELD)
    assert result.lower == pytest.approx(sum(np.log(np.exp(table).sum()) for table in tables), abs=1e-12)
    assert result.converged


@pytest.mark.parametrize("epsilon", [1.0, 0.0])
def test_a_model_does_not_depend_on_its_company(epsilon):
    models = [complete(5, 3, 1), chain(6, 2, 2), grid(3, 2, 3)]
    graphs, tables = [m[0] for m in models], [m[1] for m in models]
    together = bf.infer(graphs, tables, epsilon, restarts=3, **FIELD)
    for graph, table, result in zip(graphs, tables, together, strict=True):
        alone = bf.infer(graph, table, epsilon, restarts=3, **FIELD)
        assert result.lower == pytest.approx(alone.lower, rel=1e-14)  # bounds are looked at at other times
        np.testing.assert_array_equal(result.beliefs.flat, alone.beliefs.flat)
        np.testing.assert_array_equal(result.labels, alone.labels)


def test_same_bits_for_any_number_of_threads():
    graph, tables = grid(80, 4, 0)
    results = [bf.infer(graph, tables, threads=n, max_iterations=20, **FIELD) for n in (1, 2, 3)]
    for result in results[1:]:
        assert result.lower == results[0].lower
        np.testing.assert_array_equal(result.beliefs.flat, results[0].beliefs.flat)


def test_restarts_leave_a_symmetric_saddle():
    """Equal labels are rewarded and no label is preferred: uniform is a fixed point and a poor one."""
    graph = bf.grid_graph((5, 5), 2)
    tables = [2.0 * np.eye(2)] * graph.num_given
    stuck = bf.infer(graph, tables, restarts=0, **FIELD)
    free = bf.infer(graph, tables, restarts=2, **FIELD)
    assert stuck.beliefs[-1][0] == pytest.approx(0.5)
    assert free.beliefs[-1].max() > 0.9
    assert free.lower > stuck.lower


def test_hard_constraints_are_kept():
    """Neighbours must differ: the uniform product is forbidden, and so must not be reported."""
    graph = bf.chain_graph(7, 3)
    tables = [np.where(np.eye(3) > 0, -INF, 0.0)] * 6
    result = bf.infer(graph, tables, **FIELD)
    assert result.lower == pytest.approx(max(result.lower, 0.0))
    assert np.isfinite(result.score)
    for r in range(6):
        assert np.trace(result.beliefs[r]) == 0.0


def test_evidence_and_start():
    graph, tables = grid(3, 3)
    observed = bf.infer(graph, tables, evidence={4: 2}, **FIELD)
    assert observed.labels[4] == 2
    assert observed.beliefs[int(graph.single_regions[4])][2] == 1.0
    result = bf.infer(graph, tables, tolerance=1e-9, **FIELD)
    again = bf.infer(graph, tables, initial=result, tolerance=1e-9, **FIELD)
    assert again.lower == pytest.approx(result.lower, abs=1e-9)
    assert again.iterations <= 2
    messages = bf.infer(graph, tables, max_iterations=2).messages
    with pytest.raises(bf.PotentialError, match="initial: mean field starts from a Result"):
        bf.infer(graph, tables, initial=messages, **FIELD)
    with pytest.raises(bf.PotentialError, match="model 1: initial"):
        bf.infer([graph, graph], [tables, tables], initial=[None, messages], **FIELD)


def test_forests_are_not_exact_but_close():
    rng = np.random.default_rng(0)
    graph = random_forest(rng)
    tables = random_tables(rng, graph, scale=0.2)
    result = bf.infer(graph, tables, **FIELD)
    assert 0 < enumerate_exact(graph, tables, 1.0).value - result.lower < 0.5


def test_stopping():
    graph, tables = grid(4, 3, scale=3.0)
    seen = []
    result = bf.infer(graph, tables, callback=lambda p: seen.append(p) or len(seen) == 2, tolerance=0, **FIELD)
    assert result.stop_reason == "callback"
    assert len(seen) == 2
    assert bf.infer(graph, tables, max_iterations=1, **FIELD).stop_reason == "max_iterations"
    assert bf.infer(graph, tables, time_limit=0.0, **FIELD).stop_reason == "time_limit"
    none = bf.infer(graph, tables, max_iterations=0, **FIELD)
    assert none.iterations == 0
    assert np.isfinite(none.lower)

    def interrupt(progress):
        raise KeyboardInterrupt

    result = bf.infer(graph, tables, callback=interrupt, **FIELD)
    assert result.stop_reason == "interrupted"
    assert np.isfinite(result.lower)


def test_memory_limit():
    graph, tables = grid(4, 3)
    with pytest.raises(bf.NotEnoughMemoryError, match="mean field would need about"):
        bf.infer(graph, tables, memory_limit=100, **FIELD)
