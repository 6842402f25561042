"""Learning by batches: where it ends, what it claims, what it refuses."""

import signal

import numpy as np
import pytest

import blendfield as bf


def images(count=24, side=8, seed=0):
    """Noisy pictures of a square, a weight per place."""
    rng = np.random.default_rng(seed)
    graph = bf.grid_graph((side, side), 2)
    pairs, singles = np.arange(graph.num_given), np.arange(graph.num_given, graph.num_regions)
    base = np.zeros((side, side), dtype=np.int64)
    base[2:6, 2:6] = 1
    label_one, ising = [[0.0, 1.0], [0.0, 1.0]], [[[1.0, -1.0], [-1.0, 1.0]]]
    samples = []
    for _ in range(count):
        x = base.ravel() + 0.3 * rng.standard_normal(base.size)
        pixel = bf.FreeWeights("pixel", singles, label_one, np.stack([x, np.ones(x.size)], axis=1))
        samples.append(bf.Sample(graph, [pixel, bf.FreeWeights("pair", pairs, ising)], base.ravel()))
    return samples


@pytest.mark.parametrize("options", [{}, {"l1": 0.5}, {"sign": {"pair": ">=0"}, "epsilon": 0.3}])
def test_comes_near_the_optimum_and_says_truly_how_near(options):
    samples = images()
    options = {"epsilon": 1.0, "C": 1.0, "counting_numbers": "cover", "random_state": 1, **options}
    best = bf.BlendedLearner(**options, tolerance=1e-8).fit(samples)
    few = bf.BlendedLearner(**options).fit_by_batches(samples, epochs=2, batches=8)
    many = bf.BlendedLearner(**options).fit_by_batches(samples, epochs=60, batches=8)
    for one in (few, many):
        assert one.primal_ >= best.dual_ - 1e-9 * best.primal_
        assert one.dual_ <= best.primal_ * (1 + 1e-9)
        assert one.gap_ == pytest.approx(one.primal_ - one.dual_)
        assert np.isnan(one.history_["primal"][:-1]).all()
        assert one.history_["primal"][-1] == one.primal_
        assert len(one.estimates_) == one.n_iter_ == len(one.history_["seconds"])
    assert few.stop_reason_ == "epochs"
    assert not few.converged_
    assert many.primal_ < few.primal_
    assert many.gap_ <= 1e-3 * many.primal_
    if "sign" in options:
        assert (many.blocks_["pair"] >= 0).all()


def test_same_bits_for_the_same_seed_and_any_threads(tmp_path):
    samples = images()
    one, two, other = (
        bf.BlendedLearner(random_state=seed, threads=threads).fit_by_batches(samples, 3, 6)
        for seed, threads in ((3, 1), (3, 2), (4, 1))
    )
    assert one.weights_.tobytes() == two.weights_.tobytes()
    assert one.weights_.tobytes() != other.weights_.tobytes()
    one.save(tmp_path / "model")
    again = bf.BlendedLearner.load(tmp_path / "model")
    np.testing.assert_array_equal(again.estimates_, one.estimates_)
    # Batches (other ones) need not stay in memory.
    limit = bf.BlendedLearner(random_state=3, memory_limit=1 << 19).fit_by_batches(samples, 3, 6)
    assert abs(limit.primal_ - one.primal_) <= 0.05 * one.primal_


def test_unobserved_labels_and_what_stops_it():
    samples = images()
    hidden = [
        bf.Sample(s.graph, s.features, np.where(np.arange(64) % 5 == k % 5, -1, s.labels))
        for k, s in enumerate(samples)
    ]
    learner = bf.BlendedLearner(random_state=0).fit_by_batches(hidden, 20, 4)
    whole = bf.BlendedLearner(random_state=0).fit(hidden)
    assert abs(learner.primal_ - whole.primal_) <= 1e-2 * whole.primal_
    seen = []
    learner.fit_by_batches(samples, 5, callback=lambda progress: seen.append(progress.epoch) or progress.epoch == 2)
    assert learner.stop_reason_ == "callback"
    assert seen == [1, 2]

    def press(progress):
        signal.raise_signal(signal.SIGINT)

    learner.fit_by_batches(samples, 5, callback=press)
    assert learner.stop_reason_ == "interrupted"
    assert np.isfinite(learner.gap_)
    assert bf.BlendedLearner(time_limit=0.0).fit_by_batches(samples).stop_reason_ == "time_limit"
    for options in ({"epsilon": 0.0}, {"soft_marginalisation": 1.0}, {"parts": 2}):
        with pytest.raises(bf.OptionError, match="fit_by_batches"):
            bf.BlendedLearner(**options).fit_by_batches(samples)
    with pytest.raises(bf.OptionError, match="epochs"):
        bf.BlendedLearner().fit_by_batches(samples, 0)
