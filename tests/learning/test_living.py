"""Living with a learner: paths, new samples, validation, what stops it, progress, logs, memory."""

import io
import logging
import math
import signal

import numpy as np
import pytest
from learning_models import random_problem

import blendfield as bf
from blendfield.inference import memory
from blendfield.learning import compile as compiling
from blendfield.learning.progress import Forecast, TrainingLine, duration


def chains(count, seed=0, noise=1.5):
    """Labels that run in stripes, seen through noise: (samples, held back)."""
    rng = np.random.default_rng(seed)
    graph = bf.chain_graph(12, 3)
    pairs, singles = np.arange(graph.num_given), np.arange(graph.num_given, graph.num_regions)
    samples = []
    for _ in range(count):
        labels = np.repeat(rng.integers(0, 3, 4), 3)
        seen = np.eye(3)[labels] + noise * rng.standard_normal((12, 3))
        junk = rng.standard_normal((12, 30))
        features = [
            bf.TiedLinear("seen", singles, np.hstack([seen, junk])),
            bf.TableFeatures("pair", pairs, np.eye(3)[None]),
        ]
        samples.append(bf.Sample(graph, features, labels))
    return samples


def test_path_is_what_single_fits_find():
    samples, _ = random_problem(0)
    learner = bf.BlendedLearner(counting_numbers="cover", tolerance=1e-8)
    path = learner.path(samples, C=[10.0, 1.0, 0.1], epsilon=[1.0, 0.3])
    assert [(one.epsilon, one.C) for one in path] == [(e, c) for e in (1.0, 0.3) for c in (10.0, 1.0, 0.1)]
    assert not hasattr(learner, "weights_")
    for one in path:
        alone = bf.BlendedLearner(one.epsilon, one.C, "cover", tolerance=1e-8).fit(samples)
        assert one.converged_
        assert abs(one.primal_ - alone.primal_) <= 2e-8 * max(1.0, abs(alone.primal_))
        assert one.dual_ <= alone.primal_ + 1e-9
    with pytest.raises(bf.OptionError, match="at least one"):
        learner.path(samples, C=[])
    with pytest.raises(bf.OptionError, match="C"):
        learner.path(samples, C=[1.0, -1.0])


def test_path_starts_warm():
    samples, _ = random_problem(1, count=6)
    learner = bf.BlendedLearner(0.3, tolerance=1e-6)
    path = learner.path(samples, C=[1.0, 0.9])
    alone = bf.BlendedLearner(0.3, 0.9, tolerance=1e-6).fit(samples)
    assert path[1].n_iter_ < alone.n_iter_


def test_new_samples_start_from_what_is_known():
    samples = chains(8)
    first = bf.BlendedLearner(tolerance=1e-6).fit(samples[:6])
    again = bf.BlendedLearner(tolerance=1e-6).fit(samples, initial=first)
    fresh = bf.BlendedLearner(tolerance=1e-6).fit(samples)
    assert abs(again.primal_ - fresh.primal_) <= 2e-6 * fresh.primal_
    assert again.history_["primal"][0] < fresh.history_["primal"][0]
    # A block that is new starts at zero, labels that are new do.
    graph = bf.chain_graph(3, 4)
    singles = np.arange(graph.num_given, graph.num_regions)
    more = bf.Sample(
        graph,
        [bf.TiedLinear("seen", singles, np.ones((3, 33))), bf.FreeWeights("new", singles)],
        [0, 1, 3],
    )
    started = bf.BlendedLearner(max_iterations=0).fit([more], initial=first)
    np.testing.assert_array_equal(started.blocks_["seen"][:3], first.blocks_["seen"])
    assert not started.blocks_["seen"][3].any()
    assert not started.blocks_["new"].any()
    other = bf.Sample(graph, [bf.FreeWeights("seen", singles)], [0, 1, 3])
    with pytest.raises(bf.OptionError, match="'seen'"):
        bf.BlendedLearner().fit([other], initial=first)


def test_validation_stops_and_keeps_the_best():
    samples = chains(40)
    train, held_back = samples[:10], samples[10:]
    options = {"epsilon": 0.3, "C": 0.01, "counting_numbers": "cover", "tolerance": 1e-9}
    learner = bf.BlendedLearner(**options, patience=3, validation_every=2)
    learner.fit(train, validation=held_back)
    assert learner.stop_reason_ == "validation"
    errors, iterations = learner.validation_["error"], learner.validation_["iteration"]
    assert len(errors) == len(iterations) == int(errors.argmin()) + 1 + 3
    assert (np.diff(iterations) >= 2).all()
    wrong = sum((y != s.labels).sum() for y, s in zip(learner.predict(held_back), held_back, strict=True))
    assert wrong / (30 * 12) == pytest.approx(errors.min(), abs=2 / 360)
    # Primal, dual and gap are those of the weights that are kept.
    assert learner.gap_ >= 0
    best = bf.BlendedLearner(**options).fit(train)
    assert learner.dual_ <= best.primal_ + 1e-9
    assert learner.primal_ >= best.primal_ - 1e-9
    assert best.validation_ is None
    with pytest.raises(bf.LabelError, match="validation sample 0 has no labels"):
        learner.fit(train, validation=[bf.Sample(train[0].graph, train[0].features)])
    with pytest.raises(bf.FeatureError, match="validation sample 0"):
        graph = train[0].graph
        learner.fit(train, validation=[bf.Sample(graph, [bf.FreeWeights("other", [0])], train[0].labels)])
    with pytest.raises(bf.OptionError, match="validation: counting_numbers"):
        numbers = [np.ones(train[0].graph.num_regions)] * 10
        bf.BlendedLearner(counting_numbers=numbers).fit(train, validation=held_back)


def test_validation_goes_on_from_a_checkpoint(tmp_path):
    samples = chains(20)
    options = {"epsilon": 0.3, "C": 0.01, "tolerance": 0.0, "validation_every": 3, "patience": 100}
    fit = {"validation": samples[10:], "checkpoint_every": 7}
    unbroken = bf.BlendedLearner(max_iterations=40, **options).fit(samples[:10], checkpoint=tmp_path / "a", **fit)
    bf.BlendedLearner(max_iterations=20, **options).fit(samples[:10], checkpoint=tmp_path / "b", **fit)
    fit["checkpoint"] = tmp_path / "b"
    learner = bf.BlendedLearner(max_iterations=40, **options)
    learner.fit(samples[:10], resume=True, **fit)
    assert learner.weights_.tobytes() == unbroken.weights_.tobytes()
    np.testing.assert_equal(learner.validation_, unbroken.validation_)
    with pytest.raises(bf.CheckpointError, match="validation"):
        learner.fit(samples[:10], resume=True, **{**fit, "validation": samples[11:]})


@pytest.mark.parametrize("epsilon", [1.0, 0.01, 0.0])
@pytest.mark.parametrize("at", [1, 2, 6, 15])
def test_ctrl_c_keeps_the_best_weights(epsilon, at):
    samples, _ = random_problem(2)

    def press(progress):
        if progress.iteration == at:
            signal.raise_signal(signal.SIGINT)

    learner = bf.BlendedLearner(epsilon, tolerance=0.0, callback=press).fit(samples)
    assert learner.stop_reason_ == "interrupted"
    assert learner.n_iter_ == at
    assert np.isfinite(learner.weights_).all()
    assert math.isfinite(learner.primal_)
    assert 0 <= learner.gap_ < math.inf
    best = bf.BlendedLearner(epsilon, tolerance=1e-6).fit(samples)
    assert learner.primal_ >= best.dual_ - 1e-9
    assert learner.dual_ <= best.primal_ + 1e-9
    learner.predict(samples)


def test_what_stopped_it():
    samples, _ = random_problem(3)
    assert bf.BlendedLearner(max_iterations=4).fit(samples).stop_reason_ == "max_iterations"
    assert bf.BlendedLearner(time_limit=0.0).fit(samples).stop_reason_ == "time_limit"
    assert bf.BlendedLearner().fit(samples).stop_reason_ == "converged"
    assert bf.BlendedLearner(callback=lambda progress: True).fit(samples).stop_reason_ == "callback"


def test_logs(caplog):
    samples, _ = random_problem(3)
    with caplog.at_level(logging.INFO, logger="blendfield"):
        bf.BlendedLearner().fit(samples)
    lines = [record.getMessage() for record in caplog.records]
    assert lines[-1].startswith("converged after")
    assert any(line.startswith("iteration ") and "gap" in line for line in lines)
    assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger("blendfield").handlers)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_on_a_terminal(monkeypatch):
    samples, _ = random_problem(3)
    terminal, pipe = Terminal(), io.StringIO()
    monkeypatch.setattr("blendfield.terminal.SECONDS_BETWEEN", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    seen = []
    for stream in (terminal, pipe):
        monkeypatch.setattr("sys.stderr", stream)
        bf.BlendedLearner(0.1, verbose=True, callback=lambda progress: seen.append(progress.seconds_left)).fit(samples)
    assert "iteration 1 " in terminal.getvalue()
    assert "gap" in terminal.getvalue()
    assert " left" in terminal.getvalue()
    assert terminal.getvalue().rsplit("\r", 2)[-2].strip() == ""  # the line is cleared
    assert pipe.getvalue() == ""
    assert math.isfinite(seen[-1])
    assert not TrainingLine(pipe).active


def test_the_time_that_is_left():
    forecast = Forecast(1e-6)
    assert forecast.seconds_left(10, 5.0, 100, None) == pytest.approx(45.0)
    assert forecast.seconds_left(10, 5.0, 100, 20.0) == pytest.approx(15.0)
    assert math.isnan(forecast.seconds_left(0, 0.0, 100, None))
    for iteration in range(1, 31):  # a digit every ten iterations
        forecast.add(iteration, 10 ** (-iteration / 10))
    assert forecast.last_iteration() == pytest.approx(60.0)
    assert forecast.seconds_left(30, 15.0, 1000, None) == pytest.approx(15.0)
    forecast.add(31, math.inf)
    assert Forecast(0.0).last_iteration() == math.inf
    assert [duration(seconds) for seconds in (4.21, 185.0, 7385.0)] == ["4.2 s", "3:05", "2:03:05"]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_memory_is_estimated(dtype):
    samples = chains(200)
    learner = bf.BlendedLearner(dtype=dtype)
    estimate = learner.memory_estimate(samples)
    assert "MiB" in str(estimate)
    layout = bf.model.WeightLayout.of_samples(samples)
    chunk = compiling.compile_training_set(samples, layout, "ones", learner._options()).chunks[0]
    chunk.allocate(8)
    for slot in range(8):
        chunk.iterate(bf.engines.Request(np.zeros(layout.size), slot=slot, curvature=True))
    held = chunk.problem.memory_bytes + 2 * chunk.potentials.tables().nbytes  # and the base
    held += sum(part.features.nbytes for part in chunk.features.matrices)
    assert 0.7 * held <= estimate.total - estimate.temporary <= 1.6 * held


def test_too_large_sets_are_refused_before_any_work(monkeypatch):
    samples = chains(3)
    learner = bf.BlendedLearner()
    total = learner.memory_estimate(samples).total
    monkeypatch.setattr(memory, "available_bytes", lambda: total - 1)
    monkeypatch.setattr(compiling, "ChunkRecipe", None)  # would fail if asked for
    with pytest.raises(bf.NotEnoughMemoryError, match="3 samples"):
        learner.fit(samples)
    with pytest.raises(bf.NotEnoughMemoryError, match="3 samples"):
        learner.path(samples)
