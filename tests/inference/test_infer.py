"""The function `infer` as a whole: options, stops, lists, memory, results."""

import itertools
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inference_models import INF, chain, check_sound, complete, grid

import blendfield as bf
from blendfield.inference import memory
from blendfield.inference.anderson import History
from blendfield.testing import random_region_graph, random_tables

WRONG_OPTIONS = {
    "epsilon": [np.nan, -1.0, INF, "1", None, True, 1e-300, 1e200, [1.0], 10**400],
    "method": ["loopy", None, 3],
    "max_iterations": [-1, 2.0, "10", None, True],
    "tolerance": [-1e-6, np.nan, INF, "small", None],
    "time_limit": [-1, np.nan, "1", True],
    "callback": [3, "print"],
    "threads": [0, -1, 1.5, "2", True, 10**9],
    "dtype": ["float16", "int32", None, 3, "double precision"],
    "backend": ["quantum", None, 3],
    "acceleration": ["newton", 3, True],
    "certificate_every": [0, -1, 1.5, "never", None, True],
    "damping": [0.5, 0, "none"],  # not for norm-product
    "restarts": [-1, 1.5, None, True],
    "tighten": [-1, 1.5, None, True, 1],
    "memory_limit": [-1, 1e9, "8 GiB", True],
}


@pytest.mark.parametrize(("name", "value"), [(name, v) for name, values in WRONG_OPTIONS.items() for v in values])
def test_wrong_options(name, value):
    graph, tables = chain()
    with pytest.raises(bf.OptionError, match=name):
        bf.infer(graph, tables, **{name: value})


def test_unknown_names_list_the_known():
    graph, tables = chain()
    with pytest.raises(bf.OptionError, match="'norm-product'"):
        bf.infer(graph, tables, method="guess")
    with pytest.raises(bf.OptionError, match="'reference', 'cpu' or 'cuda'"):
        bf.infer(graph, tables, backend="tpu")


@pytest.mark.parametrize("options", [{"memory": 1}, {"memory": 2.5}, {"regularisation": -1}, {"max_bytes": "all"}])
def test_wrong_anderson(options):
    with pytest.raises(bf.OptionError, match=next(iter(options))):
        bf.Anderson(**options)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("twos", "twos"),
        (np.ones(3), "3"),
        ([np.nan] * 7, "region 0|finite|NaN|nan"),
        ([-1.0, 1, 1, 1, 1, 1, 1], "region 0 is an outer region"),
        (None, "counting numbers"),
        (3.0, "counting numbers"),
    ],
)
def test_wrong_counting_numbers(spec, message):
    graph, tables = chain()
    with pytest.raises(bf.CountingNumberError, match=message):
        bf.infer(graph, tables, counting_numbers=spec)


def test_wrong_graphs():
    for wrong in (None, 3, "graph", {}, [None], [bf.RegionGraph([2], []), 3]):
        with pytest.raises(bf.GraphError, match="RegionGraph"):
            bf.infer(wrong, [])


def test_the_least_models(backend):
    for regions in ([], [(0,)]):
        result = bf.infer(bf.RegionGraph([3], regions), [[1.0, 2.0, 0.5]] if regions else [], backend=backend)
        assert result.converged
        np.testing.assert_allclose(result.upper, np.log(np.exp([1, 2, 0.5]).sum()) if regions else np.log(3))
        check_sound(result)
    empty = bf.infer(bf.RegionGraph([], []), [], backend=backend)
    assert (empty.upper, empty.lower, len(empty.labels), len(empty.messages)) == (0.0, 0.0, 0, 0)
    lonely = bf.infer(bf.RegionGraph([1, 1], [(0, 1)]), [[[3.0]]], epsilon=0, backend=backend)
    assert lonely.upper == lonely.lower == lonely.score == 3.0


def test_stop_reasons(backend):
    graph, tables = complete(5, 3, 0, 3.0)
    options = {"backend": backend, "tolerance": 0.0}
    result = bf.infer(graph, tables, max_iterations=7, **options)
    assert (result.stop_reason, result.iterations, result.converged) == ("max_iterations", 7, False)
    assert result.history["iteration"].tolist() == [1, 2, 4, 7]
    check_sound(result)
    result = bf.infer(graph, tables, max_iterations=0, **options)
    assert (result.stop_reason, result.iterations) == ("max_iterations", 0)
    assert result.history["iteration"].tolist() == [0]
    assert np.isfinite(result.gap)
    result = bf.infer(graph, tables, time_limit=0, **options)
    assert (result.stop_reason, result.iterations) == ("time_limit", 0)
    result = bf.infer(graph, tables, callback=lambda progress: progress.iteration >= 4, **options)
    assert (result.stop_reason, result.iterations) == ("callback", 4)
    result = bf.infer(*grid(3), max_iterations=100_000, **options)
    assert result.stop_reason == "stalled" or result.gap == 0
    assert result.iterations < 2000
    result = bf.infer(graph, tables, backend=backend)
    assert (result.stop_reason, result.converged) == ("converged", True)
    result = bf.infer(graph, tables, backend=backend, epsilon=0, max_iterations=3)
    assert (result.stop_reason, result.iterations) == ("max_iterations", 3)
    assert result.gap >= 0
    check_sound(result)


def test_forests_before_their_only_sweep(backend):
    graph, tables = chain()
    result = bf.infer(graph, tables, counting_numbers="bethe", max_iterations=0, backend=backend)
    assert not result.certified
    assert result.upper == INF
    assert np.isfinite(result.lower)
    result = bf.infer(graph, tables, counting_numbers="bethe", epsilon=0, time_limit=0, backend=backend)
    assert not result.certified
    result = bf.infer(graph, tables, counting_numbers="bethe", tolerance=0, dtype="float32", backend=backend)
    assert result.iterations == 1


def test_time_limit(backend):
    graph, tables = complete(8, 3, 0, 5.0)
    started = time.perf_counter()
    result = bf.infer(graph, tables, tolerance=0, max_iterations=10**9, time_limit=0.2, epsilon=0.5, backend=backend)
    assert result.stop_reason in ("time_limit", "stalled") or result.gap == 0
    assert time.perf_counter() - started < 5
    check_sound(result)


def test_callback_sees_the_history(backend):
    seen = []
    result = bf.infer(*grid(3, 2, 0, 3.0), callback=seen.append, backend=backend)
    assert [p.iteration for p in seen] == result.history["iteration"].tolist()
    np.testing.assert_array_equal([p.upper for p in seen], result.history["upper"])
    assert all(p.gap >= 0 and p.seconds >= 0 for p in seen)

    def fails(progress):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        bf.infer(*grid(3), callback=fails, backend=backend)


@pytest.mark.parametrize("every", [1, 3])
def test_certificates_by_count(backend, every):
    for epsilon in (1.0, 0.0):
        result = bf.infer(
            *complete(5, 2, 0, 3.0),
            epsilon=epsilon,
            certificate_every=every,
            max_iterations=9,
            tolerance=0,
            backend=backend,
        )
        assert result.gap == 0 or result.iterations == 9
        assert result.history["iteration"].tolist() == list(range(every, result.iterations + 1, every))


@pytest.mark.parametrize("epsilon", [1.0, 0.0])
@pytest.mark.parametrize("numbers", ["ones", "trw"])
def test_interrupted_by_the_callback(backend, epsilon, numbers):
    def interrupt(progress):
        if progress.iteration >= 4:
            raise KeyboardInterrupt

    result = bf.infer(
        *complete(5, 2, 0, 3.0),
        epsilon=epsilon,
        counting_numbers=numbers,
        callback=interrupt,
        tolerance=0,
        backend=backend,
    )
    assert result.stop_reason == "interrupted"
    assert 4 <= result.iterations <= 10
    check_sound(result)


def test_interrupted_by_a_signal(backend):
    started = threading.Event()
    threading.Thread(target=lambda: (started.wait(), time.sleep(0.7), os.kill(os.getpid(), signal.SIGINT))).start()
    graph, tables = complete(6, 3, 0, 5.0)
    bf.infer(graph, tables, backend=backend, max_iterations=1)  # everything is imported: sweeps begin at once
    result = bf.infer(
        graph,
        tables,
        epsilon=0.01,
        tolerance=0,
        max_iterations=10**9,
        certificate_every=10**8,
        time_limit=60,
        callback=None,
        backend=backend,
        initial=(started.set(), None)[1],
    )
    assert result.stop_reason == "interrupted"
    assert result.history["seconds"][-1] < 30
    check_sound(result)


def test_lists_equal_singles(backend):
    rng = np.random.default_rng(0)
    graphs = [random_region_graph(rng, 3), chain()[0], bf.RegionGraph([2, 3], []), random_region_graph(rng, 2)]
    tables = [random_tables(rng, g) for g in graphs]
    numbers = ["ones", "bethe", "cover", rng.uniform(0.5, 1, graphs[3].num_regions)]
    evidence = [{3: 1}, None, {1: 2}, None]
    options = {"backend": backend, "tolerance": 1e-9}
    for epsilon in (0.5, 0.0):
        together = bf.infer(graphs, tables, epsilon, numbers, evidence=evidence, **options)
        for k, result in enumerate(together):
            alone = bf.infer(graphs[k], tables[k], epsilon, numbers[k], evidence=evidence[k], **options)
            scale = 1e-9 * max(1, abs(alone.upper)) if alone.converged else 1e-3
            assert abs(result.upper - alone.upper) <= 3 * scale
            assert abs(result.lower - alone.lower) <= 3 * scale
            assert result.converged or not alone.converged
            assert result.certified
            assert result.messages.edges == alone.messages.edges
            assert len(result.beliefs) == graphs[k].num_regions
            np.testing.assert_array_equal(result.labels, alone.labels)
            assert abs(result.score - alone.score) <= 1e-9
            if epsilon > 0:
                np.testing.assert_allclose(result.beliefs.flat, alone.beliefs.flat, atol=1e-3)
            assert result.region_gaps().shape == (graphs[k].num_regions,)
            np.testing.assert_array_equal(result.counting_numbers, alone.counting_numbers)
            check_sound(result)
        again = bf.infer(graphs, tables, epsilon, numbers, evidence=evidence, initial=together, **options)
        for first, second in zip(together, again, strict=True):
            assert second.upper <= first.upper + 1e-8


def test_lists_of_one_and_none(backend):
    graph, tables = grid(3)
    (result,) = bf.infer([graph], [tables], backend=backend)
    assert abs(result.upper - bf.infer(graph, tables, backend=backend).upper) <= 1e-5
    assert bf.infer([], [], backend=backend) == []
    many = bf.infer((graph,) * 3, (tables,) * 3, counting_numbers=np.ones(graph.num_regions), backend=backend)
    assert len({r.upper for r in many}) == 1


def test_one_hard_model_does_not_spoil_the_others(backend):
    graph, tables = grid(3)
    with pytest.warns(bf.BlendfieldWarning, match="model 1"):
        good, loopy = bf.infer([graph, graph], [tables, tables], counting_numbers=["ones", "bethe"], backend=backend)
    assert good.converged
    assert good.certified
    assert not loopy.certified
    assert np.isnan(loopy.gap)
    check_sound(good)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"potentials": [[None] * 3]}, bf.PotentialError, "length 2"),
        ({"potentials": np.zeros(4)}, bf.PotentialError, "list of length 2"),
        ({"potentials": [[None] * 3, [None]]}, bf.PotentialError, "model 1: .*length"),
        ({"evidence": [{}]}, bf.PotentialError, "evidence.*2 models"),
        ({"evidence": [{}, {9: 0}]}, bf.PotentialError, "model 1: .*variable 9"),
        ({"initial": [None, 3]}, bf.PotentialError, "model 1: initial"),
        ({"counting_numbers": ["ones"]}, bf.CountingNumberError, "2 models"),
        ({"counting_numbers": ["ones", [1.0]]}, bf.CountingNumberError, "model 1: "),
    ],
)
def test_wrong_lists(changes, error, message):
    graph, _ = chain()
    arguments = {"potentials": [[None] * 3] * 2, **changes}
    with pytest.raises(error, match=message):
        bf.infer([graph, graph], **arguments)


def test_too_little_memory(monkeypatch, backend):
    graph, tables = grid(3)
    monkeypatch.setattr(memory, "available_bytes", lambda: 1000)
    with pytest.raises(bf.NotEnoughMemoryError, match=r"about .* of memory, but only 1000 bytes is available"):
        bf.infer(graph, tables, backend=backend)
    monkeypatch.setattr(memory, "available_bytes", lambda: None)
    assert bf.infer(graph, tables, backend=backend).converged


def test_tables_that_cannot_be_allocated():
    huge = bf.RegionGraph([3] * 26, [tuple(range(25)), tuple(range(1, 26))])
    with pytest.raises(bf.NotEnoughMemoryError, match="TiB"):
        bf.infer(huge, [None, None])


def test_allocation_that_fails_late(monkeypatch):
    def fail(*arguments):
        raise MemoryError

    monkeypatch.setattr(History, "__init__", fail)
    with pytest.raises(bf.NotEnoughMemoryError, match="allocation failed"):
        bf.infer(*grid(3))


def test_memory_of_this_machine(monkeypatch, tmp_path):
    available = memory.available_bytes()
    assert available is None or available > 0
    assert memory.in_words(1000) == "1000 bytes"
    assert memory.in_words(3 * 2**30) == "3.0 GiB"
    assert memory.in_words(2**70) == "1048576.0 PiB"
    real = memory.Path

    def elsewhere(name):
        return real(str(tmp_path) + str(name))

    monkeypatch.setattr(memory, "Path", elsewhere)
    assert memory.available_bytes() is not None  # os.sysconf
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("max\n")
    assert memory._control_group() is None
    (group / "memory.max").write_text("5000\n")
    (group / "memory.current").write_text("2000\n")
    (group / "memory.stat").write_text("anon 7\ninactive_file 500\n")
    assert memory.available_bytes() == 3500
    monkeypatch.setattr(memory.os, "sysconf", lambda name: (_ for _ in ()).throw(ValueError))
    assert memory._system() is None


def test_history_is_capped(backend):
    assert bf.Anderson().slots(1000) == 5
    assert bf.Anderson(max_bytes=7000).slots(1000) == 3
    assert bf.Anderson(max_bytes=4999).slots(1000) == 0
    assert bf.Anderson().slots(1000, available=5000) == 2
    assert bf.Anderson().slots(0) == 0
    graph, tables = grid(3)
    plain = bf.infer(graph, tables, acceleration=None, backend=backend)
    capped = bf.infer(graph, tables, acceleration=bf.Anderson(max_bytes=0), backend=backend)
    np.testing.assert_allclose(capped.history["upper"], plain.history["upper"], rtol=1e-12)


def test_the_result(backend):
    graph, tables = grid(3)
    result = bf.infer(graph, tables, counting_numbers="cover", epsilon=0.5, backend=backend)
    assert repr(result).startswith("Result(upper=")
    assert len(repr(result).splitlines()) <= 2
    assert "not certified" not in repr(result)
    assert result.epsilon == 0.5
    assert result.counting_numbers.shape == (graph.num_regions,)
    assert result.graph is graph
    beliefs = result.beliefs
    assert len(beliefs) == graph.num_regions
    assert beliefs[0].shape == (2, 2)
    assert beliefs[-1].shape == (2,)
    assert np.shares_memory(beliefs[3], beliefs.flat)
    assert [b.shape for b in beliefs[-2:]] == [(2,), (2,)]
    assert len(list(beliefs)) == len(beliefs)
    assert "21 regions" in repr(beliefs)
    with pytest.raises(IndexError):
        beliefs[graph.num_regions]
    messages = result.messages
    assert len(messages) == 24
    assert set(messages) == {(c, p) for p in range(graph.num_regions) for c in graph.children[p]}
    assert "24 edges" in repr(messages)
    start = 0
    for child, parent in messages.edges:
        np.testing.assert_array_equal(messages[child, parent], messages.values[start : start + 2])
        start += 2
    for wrong in ((0, 0), (99, 0), 3, (1, 2, 3), "ab", (None, 0)):
        with pytest.raises(KeyError):
            messages[wrong]
    for edge, table in ((e, messages[e]) for e in messages):
        assert abs(table.mean()) < 1e-12, edge


def test_results_can_be_pickled(backend):
    graph, tables = grid(3)
    result = bf.infer([graph, graph], [tables, tables], backend=backend)[1]
    copy = pickle.loads(pickle.dumps(result))
    assert copy.upper == result.upper
    np.testing.assert_array_equal(copy.beliefs.flat, result.beliefs.flat)
    np.testing.assert_array_equal(copy.messages.values, result.messages.values)
    np.testing.assert_array_equal(copy.region_gaps(), result.region_gaps())
    warm = bf.infer(graph, tables, initial=copy, backend=backend)
    assert warm.iterations <= 2


def test_runs_are_repeatable(backend):
    first, second = (bf.infer(*complete(5, 3, 0, 3.0), epsilon=0.2, backend=backend) for _ in range(2))
    for name in ("iteration", "upper", "lower"):
        np.testing.assert_array_equal(first.history[name], second.history[name])
    np.testing.assert_array_equal(first.messages.values, second.messages.values)


def test_progress_is_monotone_over_many_components(backend):
    """Mixing weights are shared by all segments; each one's upper bound must fall all the same."""
    rng = np.random.default_rng(1)
    graph = random_region_graph(rng, 2, parts=3)
    tables = random_tables(rng, graph, scale=3.0)
    result = bf.infer(graph, tables, counting_numbers="cover", backend=backend, certificate_every=1)
    assert (np.diff(result.history["upper"]) <= 0).all()
    at_messages = bf.infer(graph, tables, counting_numbers="cover", backend=backend, initial=result, max_iterations=0)
    np.testing.assert_allclose(at_messages.upper, result.upper, rtol=1e-13)


NUMBERS = st.floats(-5, 5, width=32) | st.just(-INF)
ODD = st.sampled_from([None, np.nan, INF, "x", -1, 0, 1, 2.5, 1e300, True, [], {}, 1j, b"y", np.float32(1)])


@st.composite
def calls(draw):
    """(graph, potentials, options): mostly right, sometimes odd."""
    cardinalities = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    scopes = [s for k in (1, 2, 3) for s in itertools.combinations(range(len(cardinalities)), k)]
    regions = draw(st.lists(st.sampled_from(scopes), unique=True, max_size=5))
    graph = bf.RegionGraph(cardinalities, regions)
    potentials = [
        draw(
            st.lists(NUMBERS, min_size=int(size), max_size=int(size)).map(lambda v, r=r: np.reshape(v, graph.shape(r)))
        )
        for r, size in enumerate(graph.table_sizes)
    ]
    if draw(st.integers(0, 4)) == 0:
        potentials[draw(st.integers(0, len(potentials) - 1))] = draw(ODD)
    if draw(st.integers(0, 9)) == 0:
        potentials = draw(ODD)
    options = {"max_iterations": draw(st.integers(0, 40))}
    options["epsilon"] = draw(st.sampled_from([0, 0.0, 1.0, 0.01, 1e-9, 1e-90, 1e90]) | st.floats(0, 3))
    names = st.sampled_from(["ones", "cover", "cover-outer", "bethe"])
    weights = st.lists(st.sampled_from([0.0, 1.0, 0.3, -0.5]), min_size=graph.num_regions, max_size=graph.num_regions)
    options["counting_numbers"] = draw(names | weights)
    if draw(st.booleans()):
        options["evidence"] = draw(st.dictionaries(st.integers(-1, 4), st.integers(-1, 3), max_size=2))
    options["dtype"] = draw(st.sampled_from(["float64", "float32"]))
    options["acceleration"] = draw(st.sampled_from([None, "anderson"]))
    if draw(st.integers(0, 4)) == 0:
        options[draw(st.sampled_from(["tolerance", "time_limit", "threads", "evidence", "initial", "epsilon"]))] = draw(
            ODD
        )
    return graph, potentials, options


@pytest.mark.filterwarnings("ignore::blendfield.BlendfieldWarning")
@settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(calls())
def test_only_our_errors_come_out(backend, call):
    graph, potentials, options = call
    if backend == "reference" and options["epsilon"] == 1e-90:
        options["epsilon"] = 1e-9  # its softmax does not guard against rounding below that
    try:
        result = bf.infer(graph, potentials, backend=backend, **options)
    except bf.BlendfieldError:
        return
    check_sound(result)
    if result.certified:
        assert not np.isnan(result.upper)
        assert result.score <= result.upper + 1e-3 * max(1, abs(result.upper))


def test_interrupt_in_a_script():
    """Ctrl-C in an interpreter of its own: the result comes back, the process lives."""
    script = (
        "import itertools, os, signal, threading, time, numpy as np, blendfield as bf\n"
        "g = bf.RegionGraph([3] * 9, list(itertools.combinations(range(9), 2)))\n"
        "t = 5 * np.random.default_rng(0).standard_normal(int(g.table_offsets[-1]))\n"
        "bf.infer(g, t, max_iterations=1)  # everything is imported\n"
        "threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "r = bf.infer(g, t, 0.001, tolerance=0, max_iterations=10**9, certificate_every=10**8, time_limit=60)\n"
        "print(r.stop_reason, r.lower <= r.upper)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100)
    assert done.stdout.split() == ["interrupted", "True"], done.stderr
