"""One to eight shards, without the processes around them, against the local engine."""

import numpy as np
import pytest

import blendfield as bf
from blendfield.engines.local import LocalEngine
from blendfield.engines.placement import contiguous
from blendfield.engines.protocol import Request
from blendfield.engines.shard import NotHere, Present, Shard
from blendfield.engines.sums import whole
from blendfield.learning.compile import recipes_of
from blendfield.model.weights import WeightLayout

STEPS = np.array([0.1, 0.5, 1.0])


class Shards:
    """What the Ray engine does with workers, but one after the other."""

    def __init__(self, recipes, workers):
        self.count = len(recipes)
        runs = contiguous([recipe.size for recipe in recipes], workers)
        self.shards = [(Shard(self.count, 1), run) for run in runs if run]
        for shard, run in self.shards:
            shard.build({k: recipes[k] for k in run}, Present(), {})

    def ask(self, method, *arguments):
        nodes = {}
        for shard, run in self.shards:
            narrow = shard.support.narrow
            vectors = {"trial": 2, "allocate": 0, "set_epsilon": 0}.get(method, 1)
            packed = [narrow(value) if k < vectors else value for k, value in enumerate(arguments)]
            answers, _ = shard.ask(run, method, packed, {})
            nodes.update({node: shard.support.widen(answer) for node, answer in answers.items()})
        return None if method in ("allocate", "set_epsilon") else whole(nodes, self.count)


def images(kind, count=24):
    rng = np.random.default_rng(0)
    graph = bf.grid_graph((5, 5), 2)
    pairs, singles = np.arange(graph.num_given), graph.single_regions
    block = bf.FreeWeights if kind == "free" else bf.TableFeatures
    label_one = np.array([[0.0, 1.0], [0.0, 1.0]])
    samples = []
    for _ in range(count):
        labels = rng.integers(0, 2, 25)
        x = labels + 0.5 * rng.standard_normal(25)
        pixel = block("pixel", singles, label_one, np.stack([x, np.ones(25)], axis=1))
        samples.append(bf.Sample(graph, [pixel, block("pair", pairs, [[[1.0, -1.0], [-1.0, 1.0]]])], labels))
    return samples


def answers(ask, size, epsilon):
    direction = np.random.default_rng(1).standard_normal(size)
    ask("allocate", 3)
    for step in range(6):
        weights = 0.1 * step * direction
        found = ask("iterate", Request(weights, slot=step % 3, curvature=True))
        yield found.value
        if epsilon > 0:
            yield from (found.gradient, found.curvature, found.products)
    trial = ask("trial", weights, direction, STEPS, None)
    yield trial.value
    if epsilon > 0:
        yield from (trial.slope, trial.curvature)
        certificate = ask("certificate", weights, epsilon, epsilon)
        yield from (certificate.value, certificate.divergence, certificate.moments, certificate.spread)


@pytest.mark.parametrize("epsilon", [1.0, 0.1, 0.0])
@pytest.mark.parametrize("kind", ["free", "tied"])
def test_one_to_eight_shards_agree(kind, epsilon):
    samples = images(kind)
    learner = bf.BlendedLearner(epsilon)
    layout = WeightLayout.of_samples(samples)

    def recipes(least):
        return recipes_of(samples, layout, "ones", learner._options(), least)

    local = LocalEngine([recipe.build(1) for recipe in recipes(1)])
    expected = list(answers(lambda method, *rest: getattr(local, method)(*rest), layout.size, epsilon))
    first = None
    for workers in range(1, 9):
        found = list(answers(Shards(recipes(16), workers).ask, layout.size, epsilon))
        first = first or found
        for one, other, of_one_shard in zip(found, expected, first, strict=True):
            assert np.asarray(one).tobytes() == np.asarray(of_one_shard).tobytes()
            scale = max(1e-300, np.abs(other).max())
            assert np.abs(one - other).max() <= 1e-12 * scale


def test_whole_branches_are_sent():
    samples = images("tied", 32)
    layout = WeightLayout.of_samples(samples)
    recipes = recipes_of(samples, layout, "ones", bf.BlendedLearner()._options(), 16)
    assert len(recipes) == 16
    for workers in (1, 2, 4, 8):
        shards = Shards(recipes, workers)
        for shard, run in shards.shards:
            nodes, _ = shard.ask(run, "iterate", [Request(np.zeros(layout.size))], {})
            assert len(nodes) == 1


def test_a_shard_knows_what_it_has():
    samples = images("tied", 4)
    layout = WeightLayout.of_samples(samples)
    recipes = recipes_of(samples, layout, "ones", bf.BlendedLearner()._options(), 4)
    shard = Shard(4, 1)
    shard.build(dict(enumerate(recipes)), Present(), {})
    with pytest.raises(NotHere, match="expected chunks"):
        shard.ask([0, 1], "iterate", [Request(np.zeros(layout.size))], {})
    messages, _ = shard.take([1, 3])
    assert sorted(messages) == [1, 3]
    shard.build({1: recipes[1]}, Present(slots=2, weights=np.zeros(layout.size)), {1: messages[1] + 1.0})
    answers_of_messages, _ = shard.ask([0, 1, 2], "messages", [], {})
    assert len(answers_of_messages[0, 1]) == len(messages[1])
