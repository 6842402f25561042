"""Checkpoints: a resumed run has the bits of an unbroken one; those of other runs are refused."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from learning_models import random_problem

import blendfield as bf
from blendfield.formats.safetensors import TensorFile, write_tensors

CASES = [
    {"epsilon": 1.0},
    {"epsilon": 0.05, "counting_numbers": "cover"},
    {"epsilon": 0.0},
    {"epsilon": 0.3, "l1": 0.2, "sign": {"": ">=0"}, "acceleration": None},
    {"epsilon": 0.5, "dtype": "float32"},
    {"epsilon": 0.5, "sweeps": 3, "restart_messages": True},
    {"epsilon": 1.0, "counting_numbers": "bethe"},
]


def problem(case, seed=0, **options):
    return random_problem(seed, chains=case.get("counting_numbers") == "bethe", **options)[0]


def assert_same_bits(one, other):
    assert one.weights_.tobytes() == other.weights_.tobytes()
    assert (one.primal_, one.dual_, one.gap_) == (other.primal_, other.dual_, other.gap_)
    assert one.stop_reason_ == other.stop_reason_
    for name in one.history_.keys() - {"seconds"}:
        np.testing.assert_array_equal(one.history_[name], other.history_[name])


@pytest.mark.parametrize("stop", [0, 3, 17, 20, 44])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_resume_has_the_bits_of_an_unbroken_run(case, stop, tmp_path):
    samples = problem(case)
    keep = {"checkpoint_every": 10, "checkpoint": tmp_path / "a"}
    options = {"C": 0.5, "tolerance": 0.0, **case}
    unbroken = bf.BlendedLearner(max_iterations=60, **options).fit(samples, **keep)
    keep["checkpoint"] = tmp_path / "b"
    broken = bf.BlendedLearner(max_iterations=stop, threads=1, **options).fit(samples, **keep)
    assert broken.n_iter_ <= stop
    resumed = bf.BlendedLearner(max_iterations=60, threads=2, **options).fit(samples, **keep, resume=True)
    assert_same_bits(resumed, unbroken)
    assert (np.diff(resumed.history_["seconds"]) >= 0).all()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_the_clock_does_not_change_the_course(tmp_path):
    samples = problem({})
    runs = [
        bf.BlendedLearner(0.3, max_iterations=40).fit(
            samples, checkpoint=tmp_path / "a", checkpoint_every=8, checkpoint_seconds=seconds
        )
        for seconds in (0.0, 1000.0)
    ]
    assert_same_bits(*runs)


def test_the_primal_does_not_rise_at_checkpoints(tmp_path):
    learner = bf.BlendedLearner(0.1, 0.1, max_iterations=200).fit(
        problem({}, seed=3), checkpoint=tmp_path / "a", checkpoint_every=5
    )
    assert (np.diff(learner.history_["primal"]) <= 1e-11 * learner.primal_).all()


def test_resume_without_a_checkpoint_begins(tmp_path):
    samples = problem({})
    learner = bf.BlendedLearner(max_iterations=5).fit(samples, checkpoint=tmp_path / "a", resume=True)
    assert learner.n_iter_ == 5
    with pytest.raises(bf.OptionError, match="resume needs"):
        bf.BlendedLearner().fit(samples, resume=True)
    with pytest.raises(bf.OptionError, match="does not exist"):
        bf.BlendedLearner().fit(samples, checkpoint=tmp_path / "no" / "a")
    for name, value in {"checkpoint": 3, "checkpoint_every": 0, "checkpoint_seconds": -1, "resume": "yes"}.items():
        with pytest.raises(bf.OptionError, match=name):
            bf.BlendedLearner().fit(samples, **{"checkpoint": tmp_path / "a", name: value})


OTHERS = {
    "epsilon": ({"epsilon": 0.7}, "epsilon was 1.0, here it is 0.7"),
    "C": ({"C": {"": 2.0}}, "C was 1.0"),
    "numbers": ({"counting_numbers": "cover"}, 'counting_numbers was "ones", here it is "cover"'),
    "sweeps": ({"sweeps": 2}, "sweeps was 1"),
    "checkpoint_every": ({"every": 4}, "checkpoint_every was 5"),
    "fewer samples": ({"samples": lambda given: given[:2]}, "3 samples, here are 2"),
    "other labels": (
        {
            "samples": lambda given: [
                given[0],
                bf.Sample(given[1].graph, given[1].features, 0 * given[1].labels),
                given[2],
            ]
        },
        "sample 1",
    ),
    "weight": (
        {
            "samples": lambda given: [
                *given[:2],
                bf.Sample(given[2].graph, given[2].features, given[2].labels, weight=2),
            ]
        },
        "sample 2",
    ),
    "blocks": ({"samples": lambda given: problem({}, size=4)}, "its block of weights was"),
}


@pytest.mark.parametrize("other", OTHERS)
def test_checkpoints_of_other_runs_are_refused(other, tmp_path):
    changes, words = OTHERS[other]
    samples = problem({})
    path = tmp_path / "a"
    bf.BlendedLearner(epsilon=1, max_iterations=7).fit(samples, checkpoint=path, checkpoint_every=5)
    content = path.read_bytes()
    changed = dict(changes)
    samples = changed.pop("samples", lambda given: given)(samples)
    every = changed.pop("every", 5)
    learner = bf.BlendedLearner(**{"max_iterations": 9, **changed})
    with pytest.raises(bf.CheckpointError, match=words):
        learner.fit(samples, checkpoint=path, checkpoint_every=every, resume=True)
    assert path.read_bytes() == content
    # Limits may differ, and 1 is 1.0.
    bf.BlendedLearner(1.0, C=1, tolerance=1e-9, time_limit=100.0, max_iterations=9).fit(
        problem({}), checkpoint=path, checkpoint_every=5, resume=True
    )


def test_damaged_checkpoints_are_refused(tmp_path):
    samples = problem({})
    path = tmp_path / "a"
    learner = bf.BlendedLearner(max_iterations=12)
    learner.fit(samples, checkpoint=path, checkpoint_every=5).save(tmp_path / "model")
    content = path.read_bytes()
    file = TensorFile(path)
    arrays, metadata = {name: file[name] for name in file}, file.metadata

    def resume():
        learner.fit(samples, checkpoint=path, checkpoint_every=5, resume=True)

    for length in (0, 7, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(bf.FileFormatError):
            resume()
    changes = [
        ({"format_version": "7"}, {}, "newer"),
        ({"state": "{}"}, {}, "expected a tensor"),
        ({"state": '{"pairs": []}'}, {}, "incomplete"),
        ({}, {"state.messages.0": np.zeros(3)}, "state"),
        ({}, {"samples": np.zeros((3, 2), np.uint8)}, "samples"),
    ]
    for texts, tensors, words in changes:
        write_tensors(path, arrays | tensors, metadata | texts)
        with pytest.raises(bf.FileFormatError, match=words):
            resume()
    path.write_bytes((tmp_path / "model").read_bytes())
    with pytest.raises(bf.FileFormatError, match=r"expected a file of format 'blendfield.checkpoint'"):
        resume()


def test_killed_runs_go_on(tmp_path):
    """benchmarks/kills.py in small: SIGKILL at random moments, also during writes."""
    script = Path(__file__).parents[2] / "benchmarks" / "kills.py"
    output = tmp_path / "kills.json"
    command = [
        sys.executable,
        str(script),
        "--kills=2",
        "--side=12",
        "--count=2",
        "--iterations=30",
        f"--output={output}",
    ]
    subprocess.run(command, check=True, capture_output=True)
    result = json.loads(output.read_text())
    assert result["kills"] == 2
    assert result["same weights at the end"]
