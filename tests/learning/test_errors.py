"""What cannot be learned from is refused before any work, with sample and region; nothing half-written stays."""

import os
import re

import numpy as np
import pytest

import blendfield as bf
from blendfield.learning import GradientTrainer, PseudoLikelihoodTrainer, SubgradientTrainer

GRAPH = bf.chain_graph(3, 2)  # regions 0 and 1 are the pairs, 2 to 4 the variables


def sample(labels=(0, 1, 0), features=None, name="a", forbidden=None, graph=GRAPH):
    """forbidden: {region: table} of known potentials."""
    rows = np.ones((graph.num_variables, 2)) if features is None else features
    blocks = [bf.TiedLinear(name, graph.single_regions, rows)]
    if forbidden is not None:
        tables = [
            None if table is None else np.asarray(table) for table in map(forbidden.get, range(graph.num_regions))
        ]
        blocks.append(bf.FixedPotentials(tables))
    return bf.Sample(graph, blocks, labels)


def pairs(labels, features=1):
    graph = bf.chain_graph(2, labels)
    return bf.Sample(graph, [bf.TiedLinear("p", [0], np.ones((1, features)))], [0, 1])


def broken(where, value):
    rows = np.ones((3, 2))
    rows[where] = value
    return rows


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: sample((0, 2, 0)), bf.LabelError, r"variable 1 \(region 3\) must be from 0 to 1.*got 2"),
        (lambda: sample((0, -2, 0)), bf.LabelError, r"variable 1 \(region 3\).*got -2"),
        (lambda: sample((0, 0.5, 0)), bf.LabelError, "labels must be integers"),
        (lambda: sample((0, 1)), bf.LabelError, r"shape \(3,\)"),
        (lambda: sample(features=broken((1, 1), np.nan)), bf.FeatureError, "block 'a': features of region 3 hold NaN"),
        (lambda: sample(features=broken((2, 0), np.inf)), bf.FeatureError, "block 'a': features of region 4 hold"),
        (lambda: bf.Sample(GRAPH, [(1, 0, [[0, np.nan], [0, 0]])]), bf.FeatureError, r"feature 0 \(region 1\)"),
        (lambda: sample(forbidden={4: [np.nan, 0]}), bf.PotentialError, "region 4"),
    ],
)
def test_samples(make, error, message):
    with pytest.raises(error, match=message):
        make()


SETS = [
    ([], bf.LabelError, "no samples"),
    ([sample(), sample(None)], bf.LabelError, "sample 1 has no labels"),
    ([sample(), sample(forbidden={3: [0, -np.inf]})], bf.LabelError, r"sample 1, region 3.*forbidden \(-inf\)"),
    ([sample(), sample(forbidden={1: [[0, 0], [-np.inf, 0]]})], bf.LabelError, "sample 1, region 1: the true label"),
    ([sample(), sample(features=np.ones((3, 5)))], bf.FeatureError, "sample 1: block 'a' has linear weights"),
    (
        [sample(), bf.Sample(GRAPH, [bf.FreeWeights("a", [2])], [0, 1, 0])],
        bf.FeatureError,
        "sample 1: block 'a' has free",
    ),
    ([pairs(2), pairs(3)], bf.FeatureError, r"sample 1: block 'p' is on regions of shape \(3, 3\)"),
    ([pairs((2, 3)), pairs((3, 2))], bf.FeatureError, r"sample 1: block 'p' is on regions of shape \(3, 2\)"),
]


@pytest.mark.parametrize(("samples", "error", "message"), SETS)
@pytest.mark.parametrize(
    "trainer",
    [
        bf.BlendedLearner(max_iterations=3),
        bf.BlendedLearner(counting_numbers="bethe", max_iterations=3),
        GradientTrainer(max_iterations=2),
        PseudoLikelihoodTrainer(max_iterations=2),
        SubgradientTrainer(max_iterations=2),
    ],
    ids=["blend", "exact", "gradient", "pseudo-likelihood", "subgradient"],
)
def test_sets_of_samples(trainer, samples, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = {"checkpoint": "run"} if isinstance(trainer, bf.BlendedLearner) else {}
    with pytest.raises(error, match=message):
        trainer.fit(samples, **options)
    assert os.listdir() == []


def test_pairs_of_other_shapes_are_refused_in_prediction_too(tmp_path):
    learner = bf.BlendedLearner(max_iterations=3).fit([pairs(2)])
    learner.save(tmp_path / "model")
    for known in (learner, bf.BlendedLearner.load(tmp_path / "model")):
        with pytest.raises(bf.FeatureError, match="sample 1: block 'p'"):
            known.predict([pairs(2), pairs(3)])
    lone = bf.Sample(bf.chain_graph(1, 2), [bf.TiedLinear("p", np.zeros(0, int), np.ones((0, 1)))], [0])
    bf.BlendedLearner(max_iterations=3).fit([lone, pairs(2), lone])  # no pair at all is no other shape


def test_checkpoints(tmp_path):
    path = tmp_path / "run"
    bf.BlendedLearner(max_iterations=3).fit([sample(), sample()], checkpoint=path, checkpoint_every=1)
    whole = path.read_bytes()

    def resume(samples, **options):
        bf.BlendedLearner(max_iterations=5, **options).fit(samples, checkpoint=path, checkpoint_every=1, resume=True)

    for samples, options, message in (
        ([sample(), sample()], {"C": 2.0}, "C was 1.0, here it is 2.0"),
        ([sample(), sample((0, 0, 0))], {}, "sample 1 is not the one it had"),
        ([sample()], {}, "it had 2 samples, here are 1"),
        ([sample(name="b"), sample(name="b")], {}, "block of weights was"),
    ):
        with pytest.raises(bf.CheckpointError, match=re.escape(message)):
            resume(samples, **options)
        assert path.read_bytes() == whole
    newer = whole.replace(b'"format_version":"1"', b'"format_version":"9"')
    assert newer != whole
    for content, message in (
        (newer, "written by a newer blendfield: format version 9"),
        *((whole[:count], "cut off") for count in (0, 7, 100, len(whole) - 1)),
        (whole + b"x", "goes on after the last array"),
    ):
        path.write_bytes(content)
        with pytest.raises(bf.FileFormatError, match=message):
            resume([sample(), sample()])
        assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["run"]


def test_nowhere_to_write(tmp_path):
    learner = bf.BlendedLearner(max_iterations=1).fit([sample()])
    with pytest.raises(FileNotFoundError, match="no such folder") as fault:
        learner.save(tmp_path / "absent" / "model")
    assert fault.value.filename == str(tmp_path / "absent")
