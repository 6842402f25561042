"""Chunks that are not kept in memory give the same answers."""

import numpy as np
import pytest
from learning_models import random_problem

import blendfield as bf
from blendfield.engines.budget import Budget
from blendfield.learning.compile import compile_training_set
from blendfield.learning.streamed import StreamedChunk
from blendfield.model.weights import WeightLayout


@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": 0.3},
        {"epsilon": 0.0, "max_iterations": 60},
        {"epsilon": 1.0, "l1": 0.3, "dtype": "float32", "tolerance": 1e-4},
        {"epsilon": 1.0, "soft_marginalisation": 0.3},
        {"epsilon": 1.0, "counting_numbers": "bethe"},
        {"epsilon": 0.5, "sweeps": 150, "restart_messages": True},
    ],
    ids=str,
)
def test_same_optimum(options):
    samples = random_problem(0, count=6, chains=options.get("counting_numbers") == "bethe")[0]
    options = {"tolerance": 1e-8, **options}
    here = bf.BlendedLearner(**options).fit(samples)
    there = bf.BlendedLearner(**options, memory_limit=1).fit(samples)
    scale = 2 * options["tolerance"] if options["epsilon"] else 1e-2
    assert abs(here.primal_ - there.primal_) <= scale * here.primal_
    assert there.dual_ <= here.primal_ * (1 + scale)


def test_unobserved_labels():
    graph = bf.chain_graph(4, 2)
    rng = np.random.default_rng(0)
    samples = [
        bf.Sample(graph, [bf.TiedLinear("x", graph.single_regions, rng.standard_normal((4, 2)))], [0, 1, -1, k % 2])
        for k in range(5)
    ]
    here = bf.BlendedLearner().fit(samples)
    there = bf.BlendedLearner(memory_limit=1).fit(samples)
    assert abs(here.primal_ - there.primal_) <= 1e-6 * here.primal_


def test_what_fits_stays_in_memory():
    samples = random_problem(0, count=40)[0]
    layout = WeightLayout.of_samples(samples)

    def chunks(limit):
        options = bf.BlendedLearner(memory_limit=limit)._options()
        return compile_training_set(samples, layout, "ones", options).chunks

    total = bf.BlendedLearner().memory_estimate(samples).total
    streamed = [isinstance(chunk, StreamedChunk) for chunk in chunks(total // 2)]
    assert len(streamed) >= 4
    assert not streamed[0]  # the first ones fit
    assert streamed[-1]
    assert not any(isinstance(chunk, StreamedChunk) for chunk in chunks(4 * total))


def test_resume_has_the_bits_of_an_unbroken_run(tmp_path):
    samples = random_problem(1, count=4)[0]
    options = {"memory_limit": 1, "tolerance": 1e-9}
    unbroken = bf.BlendedLearner(**options).fit(samples, checkpoint=tmp_path / "one", checkpoint_every=5)
    bf.BlendedLearner(**options, max_iterations=7).fit(samples, checkpoint=tmp_path / "two", checkpoint_every=5)
    resumed = bf.BlendedLearner(**options).fit(samples, checkpoint=tmp_path / "two", checkpoint_every=5, resume=True)
    assert unbroken.weights_.tobytes() == resumed.weights_.tobytes()


def test_no_limit_means_no_file():
    class Never:
        def build(self, threads, common):
            return "chunk"

    assert Budget(None).build(Never(), 1, {}) == "chunk"
