"""train, predict, evaluate and show of learned models."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import blendfield as bf
from blendfield.cli import main
from blendfield.cli.configuration import read_configuration
from blendfield.estimators import StructuredClassifier

CONFIG = """
[data]
train = "train.npz"
[model]
kind = "chain"
C = 0.5
[training]
tolerance = 1e-6
[output]
model = "model.safetensors"
checkpoint = "run.checkpoint"
checkpoint_every = 5
checkpoint_seconds = 0
"""


def structures(kind, seed=0, count=12):
    """Noisy features of labels that like to stay the same."""
    rng = np.random.default_rng(seed)
    shapes = rng.integers(2, 5, (count, 2)) if kind == "grid" else rng.integers(1, 9, (count, 1))
    sizes = shapes.prod(axis=1)
    labels = np.concatenate([np.minimum(2, np.cumsum(rng.random(n) < 0.3)) for n in sizes])
    arrays = {"features": np.eye(3)[labels] + rng.standard_normal((len(labels), 3)), "labels": labels}
    if kind == "grid":
        return {"shapes": shapes, **arrays}
    if kind == "chain":
        return {"lengths": sizes, **arrays}
    edges = [[(i, i + 1) for i in range(n - 1)] for n in sizes]
    flat = np.array([edge for own in edges for edge in own]).reshape(-1, 2)
    return {"nodes": sizes, "edges": flat, "edge_counts": [len(own) for own in edges], **arrays}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Data of chains and a configuration, in the working directory."""
    np.savez(tmp_path / "train.npz", **structures("chain"))
    np.savez(tmp_path / "test.npz", **structures("chain", seed=1))
    (tmp_path / "config.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def change(folder, old, new):
    text = (folder / "config.toml").read_text()
    assert old in text
    (folder / "config.toml").write_text(text.replace(old, new))


def fault(arguments, capsys):
    """The one line that a command leaves which must fail, and nothing in the folder."""
    before = set(os.listdir())
    capsys.readouterr()
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("blendfield: ")
    assert err.count("\n") == 1
    assert set(os.listdir()) == before
    return err


@pytest.mark.parametrize("kind", ["chain", "grid", "graph"])
def test_the_same_as_from_python(kind, folder, capsys):
    for name, seed in (("train", 0), ("test", 1)):
        np.savez(folder / f"{name}.npz", **structures(kind, seed))
    change(folder, 'kind = "chain"', f'kind = "{kind}"')
    change(folder, "1e-6", "1e-3")
    assert main(["train", "config.toml", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["converged"]
    assert 0 <= facts["gap"] <= 1e-3 * facts["primal"]
    model = StructuredClassifier.load("model.safetensors")
    assert type(model).__name__ == f"{kind.capitalize()}Classifier"
    assert len(model.learner_.weights_) == facts["weights"]
    assert main(["predict", "model.safetensors", "test.npz", "--output", "found.npz"]) == 0
    assert main(["evaluate", "model.safetensors", "test.npz", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    truth = structures(kind, 1)["labels"]
    with np.load("found.npz") as found:
        assert scores["accuracy"] == pytest.approx((found["labels"] == truth).mean())
        np.testing.assert_allclose(found["marginals"].sum(axis=1), 1.0)
        np.testing.assert_array_equal(found["classes"][found["marginals"].argmax(axis=1)], found["labels"])
        labels = found["labels"].tolist()
        assert (found["gaps"] >= 0).all()
    assert main(["predict", "model.safetensors", "test.npz"]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert [int(line) for line in lines if line] == labels
    assert main(["predict", "model.safetensors", "test.npz", "-p", "-o", "found.txt"]) == 0
    first = (folder / "found.txt").read_text().split("\n")[0].split("\t")
    assert first[0] == str(labels[0])
    assert sum(float(field.partition(":")[2]) for field in first[1:]) == pytest.approx(1, abs=1e-4)


def test_best_labels_instead_of_probable_ones(folder, capsys):
    assert main(["train", "config.toml"]) == 0
    assert main(["predict", "model.safetensors", "test.npz", "--epsilon", "0", "-o", "best.npz"]) == 0
    model = StructuredClassifier.load("model.safetensors")
    arrays = structures("chain", 1)
    X = np.split(arrays["features"], np.cumsum(arrays["lengths"])[:-1])
    best = [inferred.result.score for inferred in model.infer(X, epsilon=0)]
    with np.load("best.npz") as found:
        np.testing.assert_allclose(found["scores"], best)
    assert "expected an epsilon > 0" in fault(
        ["predict", "model.safetensors", "test.npz", "--epsilon", "0", "-p"], capsys
    )


def test_a_run_in_two_parts_is_the_same_run(folder, capsys):
    assert main(["train", "config.toml", "--output", "whole.safetensors"]) == 0
    os.remove("run.checkpoint")
    assert main(["train", "config.toml", "--max-iterations", "7", "--threads", "1"]) == 1
    assert "max_iterations after 7 iterations" in capsys.readouterr().out
    assert main(["train", "config.toml", "--resume"]) == 0
    one, two = (StructuredClassifier.load(name).learner_ for name in ("whole.safetensors", "model.safetensors"))
    assert one.weights_.tobytes() == two.weights_.tobytes()
    change(folder, "C = 0.5", "C = 0.6")
    assert "a checkpoint of another run: C was 0.5, here it is 0.6" in fault(
        ["train", "config.toml", "--resume"], capsys
    )
    whole = (folder / "run.checkpoint").read_bytes()
    (folder / "run.checkpoint").write_bytes(whole[:-5])
    assert "is cut off" in fault(["train", "config.toml", "--resume"], capsys)


def test_ctrl_c_keeps_the_best_weights(folder):
    rng = np.random.default_rng(0)
    shapes = np.full((40, 2), 24)
    features = rng.standard_normal((40 * 24 * 24, 4))
    np.savez(folder / "train.npz", shapes=shapes, features=features, labels=rng.integers(0, 5, len(features)))
    change(folder, 'kind = "chain"', 'kind = "grid"\nepsilon = 0.1')
    change(folder, "tolerance = 1e-6", "tolerance = 0")
    process = subprocess.Popen(
        [sys.executable, "-m", "blendfield", "train", "config.toml"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    until = time.monotonic() + 60
    while not (folder / "run.checkpoint").exists() and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert b"stopped  interrupted" in out
    assert err == b""
    assert np.isfinite(StructuredClassifier.load(folder / "model.safetensors").learner_.primal_)


def test_names_of_attributes_are_kept(folder, capsys):
    (folder / "train.txt").write_text("X\tyes\tsize:2\nY\tno\n\nX\tyes\n")
    (folder / "test.txt").write_text("?\tyes\tnever seen\n?\tno\n")
    change(folder, "train.npz", "train.txt")
    assert main(["train", "config.toml"]) == 0
    assert StructuredClassifier.load("model.safetensors").feature_names_in_ == ["yes", "size", "no"]
    capsys.readouterr()
    assert main(["predict", "model.safetensors", "test.txt"]) == 0
    assert capsys.readouterr().out == "X\nY\n"
    assert main(["show", "model.safetensors"]) == 0
    shown = capsys.readouterr().out
    assert "yes -> X" in shown
    assert "labels      2: X Y" in shown
    assert main(["show", "model.safetensors", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["features"] == 3
    assert [block["name"] for block in facts["blocks"]] == ["nodes", "transitions"]
    np.savez(folder / "grid.npz", **structures("grid"))
    assert "holds structures of kind 'grid'" in fault(["evaluate", "model.safetensors", "grid.npz"], capsys)
    change(folder, "train.txt", "train.npz")
    assert main(["train", "config.toml"]) == 0
    assert "was trained on a .npz file" in fault(["predict", "model.safetensors", "test.txt"], capsys)
    assert "labels are integers; got strings" in fault(["evaluate", "model.safetensors", strings(folder)], capsys)


def strings(folder):
    arrays = structures("chain")
    np.savez(folder / "strings.npz", **{**arrays, "labels": arrays["labels"].astype(str)})
    return "strings.npz"


def test_a_validation_set(folder, capsys):
    change(folder, 'train = "train.npz"', 'train = "train.npz"\nvalidation = "test.npz"')
    change(folder, "[training]", "[training]\nvalidation_every = 2\npatience = 2")
    assert main(["train", "config.toml"]) == 0
    assert "% on the validation set" in capsys.readouterr().out


def test_show_tells_weights_of_other_learners(folder, capsys):
    graph = bf.chain_graph(2, 2)
    sample = bf.Sample(graph, [(0, 0, np.eye(2)), (1, 1, [0.0, 1.0])], [0, 0])
    bf.BlendedLearner(tolerance=1e-3).fit([sample]).save("plain.safetensors")
    assert main(["show", "plain.safetensors"]) == 0
    out = capsys.readouterr().out
    assert "(triples): triples 2" in out
    assert "BlendedLearner" in out
    (folder / "cut.safetensors").write_bytes((folder / "plain.safetensors").read_bytes()[:-3])
    assert "cut off" in fault(["show", "cut.safetensors"], capsys)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[training]", "[trainig]", "[trainig] is unknown; did you mean 'training'?"),
        ("tolerance", "tolerence", "[training] has no key 'tolerence'; did you mean 'tolerance'?"),
        ("tolerance = 1e-6", "epsilon = 1", "[training] has no key 'epsilon'; it belongs to [model]"),
        ("C = 0.5", "neighbours = 8", "[model] neighbours means nothing to a ChainClassifier"),
        ("C = 0.5", 'C = "x"', "C must be a number >= 0"),
        ("C = 0.5", "epsilon = -1", "epsilon must be a temperature >= 0"),
        ("C = 0.5", 'loss = "hinge"', "loss 'hinge' is unknown"),
        ('"chain"', '"tree"', "[model] kind 'tree' is unknown; expected one of 'chain', 'grid', 'graph'"),
        ("C = 0.5", "C = ", "config.toml: no TOML: Invalid value (at line 6"),
        ('train = "train.npz"', "", "[data] lacks the key 'train'"),
        ('train = "train.npz"', "train = 3", "[data] train must be the name of a file"),
        ('model = "model.safetensors"', "", "give --output, or the key 'model' in [output]"),
        ('"model.safetensors"', '"nowhere/model"', "no such folder"),
        ("checkpoint_every = 5", "checkpoint_every = 0", "[output] checkpoint_every must be an integer >= 1"),
        ("train.npz", "absent.npz", "absent.npz: No such file"),
        ("train.npz", "bad.txt", "bad.txt:2: expected name or name:number"),
        ("", "data = 1", "data must be a section"),
    ],
)
def test_configurations_that_make_no_sense(folder, capsys, old, new, message):
    (folder / "bad.txt").write_text("A\tx\nB\ty:z\n")
    if old:
        change(folder, old, new)
    else:
        (folder / "config.toml").write_text(new)
    assert message in fault(["train", "config.toml"], capsys)


def test_data_that_make_no_sense(folder, capsys):
    arrays = structures("chain")
    arrays["features"][3, 1] = np.inf
    np.savez("train.npz", **arrays)
    message = fault(["train", "config.toml"], capsys)
    sample = int(np.searchsorted(np.cumsum(arrays["lengths"]), 3, side="right"))
    assert f"train.npz: sample {sample}: block 'nodes': features of region" in message
    np.savez("train.npz", **structures("grid"))
    assert "holds structures of kind 'grid'; expected 'chain'" in fault(["train", "config.toml"], capsys)
    del arrays["labels"]
    np.savez("train.npz", **arrays)
    assert "train.npz: lacks the key 'labels'" in fault(["train", "config.toml"], capsys)
    np.savez("train.npz", **structures("chain"))
    change(folder, 'checkpoint = "run.checkpoint"', "")
    assert "--resume needs --checkpoint, or the key 'checkpoint'" in fault(["train", "config.toml", "--resume"], capsys)


def test_every_key_is_an_option_of_the_classifier(folder):
    change(folder, "C = 0.5", 'C = { nodes = 1.0 }\nsign = { transitions = ">=0" }\nl1 = 0.1')
    change(folder, "[training]", '[training]\nsweeps = 2\nthreads = 1\ndtype = "float32"')
    learner = read_configuration("config.toml", {"tolerance": 0.5}).classifier._learner("ones")
    assert (learner.C, learner.sign, learner.l1) == ({"nodes": 1.0}, {"transitions": ">=0"}, 0.1)
    assert (learner.sweeps, learner.threads, learner.dtype, learner.tolerance) == (2, 1, "float32", 0.5)


def test_shards_are_learned_from(folder, capsys):
    """A folder, a pattern and files give the classifier that their source gives."""
    assert main(["shard", "config.toml", "shards", "--entries", "60"]) == 0
    assert "12 samples in" in capsys.readouterr().out
    assert main(["train", "config.toml", "-q", "--json"]) == 0
    expected = json.loads(capsys.readouterr().out)
    files = sorted(f"shards/{name}" for name in os.listdir("shards"))
    assert len(files) > 2
    for source in (["shards"], ["shards/*.safetensors"], files):
        assert main(["train", *source, "-q", "-o", "sharded.safetensors", "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert facts["converged"]
        assert abs(facts["primal"] - expected["primal"]) <= 2e-6 * expected["primal"]
        for name in ("kind", "labels", "features", "structures", "weights"):
            assert facts[name] == expected[name]
    answers = []
    for model in ("model.safetensors", "sharded.safetensors"):
        assert main(["predict", model, "test.npz"]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]
    assert main(["shard", "config.toml", "shards"]) == 2
    assert "a new or empty folder" in capsys.readouterr().err


def test_a_configuration_may_name_shards(folder, capsys):
    (folder / "train.txt").write_text("X\tyes\tsize:2\nY\tno\n\nX\tyes\n")
    (folder / "test.txt").write_text("X\tyes\tnever seen\nY\tno\n")
    change(folder, "train.npz", "train.txt")
    assert main(["shard", "config.toml", "shards"]) == 0
    change(folder, 'train = "train.txt"', 'train = "shards"\nvalidation = "test.txt"')
    assert main(["train", "config.toml", "-q", "--C", "0.1"]) == 0
    assert "% on the validation set" in capsys.readouterr().out
    model = StructuredClassifier.load("model.safetensors")
    assert model.feature_names_in_ == ["yes", "size", "no"]
    assert model.C == 0.1
    change(folder, 'validation = "test.txt"', "")
    change(folder, 'kind = "chain"', 'kind = "grid"')
    assert "holds samples of ChainClassifier; expected GridClassifier" in fault(["train", "config.toml"], capsys)
    change(folder, 'kind = "grid"', 'kind = "chain"\nepsilon = 0.5')
    assert "were written with loss = None; here it is 'hamming'" in fault(["train", "config.toml"], capsys)


def test_a_run_over_shards_in_two_parts_is_the_same_run(folder, capsys):
    assert main(["shard", "config.toml", "shards", "--entries", "60"]) == 0
    train = ["train", "shards", "-q", "--memory-limit", "20000"]
    assert main([*train, "-o", "whole.safetensors", "--checkpoint", "one"]) == 0
    assert main([*train, "-o", "parts.safetensors", "--checkpoint", "two", "--max-iterations", "3"]) == 1
    assert main([*train, "-o", "parts.safetensors", "--checkpoint", "two", "--resume"]) == 0
    one, two = (StructuredClassifier.load(name).learner_ for name in ("whole.safetensors", "parts.safetensors"))
    assert one.weights_.tobytes() == two.weights_.tobytes()
    assert "--resume needs --checkpoint" in fault(["train", "shards", "-o", "x", "--resume"], capsys)


def test_shards_of_samples_of_ones_own(folder, capsys):
    graph = bf.chain_graph(3, 2)
    rng = np.random.default_rng(0)
    samples = [
        bf.Sample(graph, [bf.TiedLinear("x", graph.single_regions, rng.standard_normal((3, 2)))], rng.integers(0, 2, 3))
        for _ in range(8)
    ]
    bf.write_shards("own", samples, entries=50)
    found = ["train", "own", "-q", "-o", "own.safetensors", "--C", "0.3", "--counting-numbers", "cover"]
    assert main([*found, "--epsilon", "0.5"]) == 0
    assert "weights of a shards model, from 8 structures" in capsys.readouterr().out
    here = bf.BlendedLearner(0.5, C=0.3, counting_numbers="cover").fit(samples)
    there = bf.BlendedLearner.load("own.safetensors")
    assert (there.C, there.epsilon, there.counting_numbers) == (0.3, 0.5, "cover")
    assert abs(here.primal_ - there.primal_) <= 2e-6 * here.primal_


def test_shards_that_make_no_sense(folder, capsys):
    assert main(["shard", "config.toml", "shards", "--entries", "60"]) == 0
    change(folder, 'kind = "chain"', 'kind = "chain"\nintercept = false')
    assert main(["shard", "config.toml", "others", "--entries", "60"]) == 0
    to = ["-o", "model.safetensors"]
    assert "shards: lacks the file to write" in fault(["train", "shards"], capsys).replace("/00000.safetensors", "")
    assert "none/*: no shard has such a name" in fault(["train", "none/*", *to], capsys)
    assert "none.safetensors: No such file" in fault(["train", "none.safetensors", *to], capsys)
    assert "expected one CONFIG.toml, or shards" in fault(["train", "config.toml", "shards"], capsys)
    message = fault(["train", "shards", "others", *to], capsys)
    assert "others/00000.safetensors: belongs to another training set than" in message
    os.mkdir("empty")
    assert "empty: no complete set of shards: 00000.safetensors is missing" in fault(["train", "empty", *to], capsys)
    os.remove("shards/00001.safetensors")
    assert "shards: no complete set of shards: 00001.safetensors is missing" in fault(["train", "shards", *to], capsys)
    whole = (folder / "others" / "00001.safetensors").read_bytes()
    (folder / "others" / "00001.safetensors").write_bytes(whole[:-5])
    assert "00001.safetensors: the file is cut off" in fault(["train", "others", *to], capsys)
