"""Learned models in files: the same learner comes back, and nothing else is taken for one."""

import numpy as np
import pytest
from learning_models import random_problem

import blendfield as bf
from blendfield.formats.safetensors import TensorFile, write_tensors
from blendfield.learning.prediction import Predictor


@pytest.fixture(scope="module")
def learned():
    samples, _ = random_problem(0)
    options = {"C": {"": 0.5, None: 2.0}, "sign": None, "time_limit": np.inf, "callback": lambda progress: None}
    return samples, bf.BlendedLearner(0.5, counting_numbers="cover", max_iterations=20, **options).fit(samples)


def test_round_trip(learned, tmp_path):
    samples, learner = learned
    learner.save(tmp_path / "model.safetensors")
    again = bf.BlendedLearner.load(tmp_path / "model.safetensors")
    assert type(again) is bf.BlendedLearner
    assert again.weights_.tobytes() == learner.weights_.tobytes()
    assert again.layout_ == learner.layout_
    assert again.callback is None
    for name, value in vars(learner).items():
        if name in ("weights_", "callback", "layout_"):
            continue
        np.testing.assert_equal(getattr(again, name), value)
    for one, other in zip(again.predict(samples), learner.predict(samples), strict=True):
        np.testing.assert_array_equal(one, other)
    again.fit(samples, initial=again)  # it can go on
    assert type(Predictor.load(tmp_path / "model.safetensors")) is bf.BlendedLearner


def test_counting_numbers_as_arrays(tmp_path):
    graph = bf.chain_graph(3, 2)
    sample = bf.Sample(graph, [(0, 0, [[1.0, 0.0], [0.0, 1.0]])], [0, 1, 1])
    numbers = [np.full(graph.num_regions, 0.5), np.ones(graph.num_regions)]
    learner = bf.BlendedLearner(counting_numbers=numbers, max_iterations=3).fit([sample, sample])
    learner.save(tmp_path / "model")
    again = bf.BlendedLearner.load(tmp_path / "model")
    np.testing.assert_array_equal(again.counting_numbers, numbers)


def test_unfitted_and_unsavable(tmp_path, learned):
    with pytest.raises(bf.NotFittedError):
        bf.BlendedLearner().save(tmp_path / "model")
    learner = learned[1]
    learner.oddity_ = print
    with pytest.raises(bf.OptionError, match="oddity_"):
        learner.save(tmp_path / "model")
    del learner.oddity_
    assert not list(tmp_path.iterdir())


def damaged(path, tensors=None, **metadata):
    """The file with some of its metadata or arrays replaced (None: taken out)."""
    file = TensorFile(path)
    arrays = {name: file[name] for name in file} | (tensors or {})
    texts = {**file.metadata, **metadata}
    write_tensors(
        path,
        {name: array for name, array in arrays.items() if array is not None},
        {key: text for key, text in texts.items() if text is not None},
    )


TRIPLES = '{"name": "", "kind": "triples", "shape": [5]}'
WRONG = {
    "another kind": ({"format": "blendfield.checkpoint"}, "expected a file of format"),
    "newer": ({"format_version": "2"}, "newer blendfield"),
    "another learner": ({"learner": "Oracle"}, "Oracle"),
    "blocks missing": ({"blocks": None}, "lack 'blocks'"),
    "blocks": ({"blocks": '[{"name": "a", "kind": "linear", "shape": [2]}]'}, "blocks"),
    "blocks twice": ({"blocks": f"[{TRIPLES}, {TRIPLES}]"}, "blocks"),
    "more weights": ({"blocks": '[{"name": "", "kind": "triples", "shape": [6]}]'}, r"float64 \[6\]"),
    "options": ({"options": '{"pairs": [["epsilon", -1]]}'}, "epsilon"),
    "unknown option": ({"options": '{"pairs": [["depth", 3]]}'}, "no option 'depth'"),
    "no options": ({"options": "[]"}, "options must be"),
    "record": ({"record": '{"pairs": [["predict", 3]]}'}, "predict"),
    "weights in record": ({"record": '{"pairs": [["weights_", 3]]}'}, "weights_"),
    "weights missing": ({"tensors": {"weights": None}}, "missing"),
    "weights nan": ({"tensors": {"weights": np.full(5, np.nan)}}, "NaN"),
    "weights float32": ({"tensors": {"weights": np.zeros(5, np.float32)}}, "float64"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_files_are_refused(case, learned, tmp_path):
    changes, words = WRONG[case]
    path = tmp_path / "model"
    learned[1].save(path)
    damaged(path, **changes)
    with pytest.raises(bf.FileFormatError, match=words) as caught:
        bf.BlendedLearner.load(path)
    assert str(path) in str(caught.value)


def test_truncated_and_absent_files(learned, tmp_path):
    path = tmp_path / "model"
    learned[1].save(path)
    content = path.read_bytes()
    for length in range(0, len(content), 97):
        path.write_bytes(content[:length])
        with pytest.raises(bf.FileFormatError):
            bf.BlendedLearner.load(path)
    with pytest.raises(FileNotFoundError):
        bf.BlendedLearner.load(tmp_path / "absent")
