"""Samples in files: what is written is read, piecemeal, and damage is noticed."""

import json

import numpy as np
import pytest
import scipy.sparse

import blendfield as bf
from blendfield.formats.safetensors import TensorFile, write_tensors
from blendfield.model.digest import digests
from blendfield.model.weights import WeightLayout


def every_kind(count=6):
    """Samples with every form of features, losses and graphs."""
    rng = np.random.default_rng(0)
    grid = bf.grid_graph((2, 3), 2)
    chain = bf.RegionGraph([2, 3, 2, 2], [(0, 1), (1, 2), (1, 2, 3)])
    pairs, singles = np.arange(grid.num_given), grid.single_regions
    samples = []
    for k in range(count):
        sparse = scipy.sparse.random_array((6, 9), density=0.3, rng=rng).tocsr()
        features = [
            (0, k, rng.standard_normal((2, 2))),
            bf.TiedLinear("dense", singles, rng.standard_normal((6, 2))),
            bf.TiedLinear("sparse", singles, sparse),
            bf.FreeWeights("free", pairs, coefficients=rng.standard_normal(len(pairs))),
            bf.TableFeatures("shared", pairs, rng.standard_normal((2, 2, 2))),
            bf.TableFeatures("own", pairs, rng.standard_normal((len(pairs), 1, 2, 2))),
            bf.FixedPotentials([None] * len(pairs) + [np.array([-np.inf, 0.5])] + [None] * 5),
        ]
        labels = np.array([1, *rng.integers(0, 2, 5)])
        loss = [None, "hamming", bf.WeightedHamming([1.0, 2.0])][k % 3]
        samples.append(bf.Sample(grid, features, labels, loss, weight=1.0 + k, positions=rng.random((6, 2))))
        own = rng.standard_normal((2, 3))
        losses = [rng.random(chain.shape(r)) for r in range(chain.num_regions)]
        samples.append(bf.Sample(chain, [(0, k, own), (2, 0, 1.0)], [0, 2, -1, 1], losses))
    return samples


def test_written_and_read(tmp_path):
    samples = every_kind()
    assert bf.write_shards(tmp_path / "set", (sample for sample in samples), entries=150) > 2
    shards = bf.Shards(tmp_path / "set")
    assert len(shards) == len(samples)
    assert shards.layout == WeightLayout.of_samples(samples)
    assert shards.sizes.tolist() == [int(sample.graph.table_offsets[-1]) for sample in samples]
    np.testing.assert_array_equal(shards.digests, digests(samples))
    np.testing.assert_array_equal(digests(shards), digests(samples))
    np.testing.assert_array_equal(digests(shards[3:7]), digests(samples[3:7]))
    np.testing.assert_array_equal(digests([shards[-2]]), digests([samples[-2]]))
    for one, other in zip(shards, samples, strict=True):
        assert one.graph.num_given == other.graph.num_given
        if other.positions is not None:
            np.testing.assert_array_equal(one.positions, other.positions)
    assert "12 samples" in repr(shards)


def test_training_from_files_has_the_bits_of_memory(tmp_path):
    samples = every_kind()[::2]
    bf.write_shards(tmp_path / "set", samples, entries=100)
    here = bf.BlendedLearner(0.3).fit(samples)
    there = bf.BlendedLearner(0.3).fit(bf.Shards(tmp_path / "set"))
    assert here.weights_.tobytes() == there.weights_.tobytes()
    assert there.predict(bf.Shards(tmp_path / "set")[:1])[0].tolist() == here.predict(samples[0]).tolist()


def damaged(folder, change):
    """The first shard with other arrays or metadata."""
    path = folder / "00000.safetensors"
    file = TensorFile(path)
    tensors, metadata = dict(file), dict(file.metadata)
    described = json.loads(metadata["samples"])
    change(tensors, metadata, described)
    metadata["samples"] = json.dumps(described)
    write_tensors(path, tensors, metadata)


def first_piece(described, block):
    return next(own for own in described[0]["features"] if own["name"] == block)["pieces"][0]


def tensor(tensors, reference, change):
    tensors["changed"] = change(tensors[reference["tensor"]].copy())
    reference["tensor"] = "changed"


FAULTS = {
    "start beyond": lambda t, m, d: tensor(t, first_piece(d, "dense")["start"], lambda a: a + 1000),
    "start inside": lambda t, m, d: tensor(t, first_piece(d, "dense")["start"], lambda a: a + 1),
    "weight": lambda t, m, d: tensor(t, first_piece(d, "shared")["weight"], lambda a: a + 7),
    "base": lambda t, m, d: tensor(t, first_piece(d, "free")["base"], lambda a: a - 1),
    "row": lambda t, m, d: tensor(t, first_piece(d, "shared")["table"], lambda a: a + 7),
    "number type": lambda t, m, d: tensor(t, first_piece(d, "own")["tables"], lambda a: a.astype(np.float32)),
    "not finite": lambda t, m, d: tensor(t, first_piece(d, "own")["tables"], lambda a: a * np.nan),
    "labels": lambda t, m, d: tensor(t, d[0]["labels"], lambda a: a + 7),
    "graph": lambda t, m, d: d[0].update(graph=9),
    "form": lambda t, m, d: first_piece(d, "dense").update(form="spline"),
    "csr": lambda t, m, d: tensor(t, first_piece(d, "sparse")["features"]["csr"][1], lambda a: a + 100),
    "missing": lambda t, m, d: d[0].pop("loss"),
    "kind": lambda t, m, d: d[0]["features"][0].update(kind="free"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_damage_is_noticed(fault, tmp_path):
    bf.write_shards(tmp_path / "set", every_kind(1))
    damaged(tmp_path / "set", FAULTS[fault])
    with pytest.raises(bf.FileFormatError, match=r"00000\.safetensors: sample 0: "):
        list(bf.Shards(tmp_path / "set"))


def test_faults_of_folders(tmp_path):
    samples = every_kind(2)
    bf.write_shards(tmp_path / "set", samples, entries=1)
    with pytest.raises(bf.OptionError, match="a new or empty folder"):
        bf.write_shards(tmp_path / "set", samples)
    (tmp_path / "set" / "00001.safetensors").unlink()
    with pytest.raises(bf.FileFormatError, match=r"00001\.safetensors is missing"):
        bf.Shards(tmp_path / "set")
    (tmp_path / "empty").mkdir()
    with pytest.raises(bf.FileFormatError, match="no complete set of shards"):
        bf.Shards(tmp_path / "empty")
    with pytest.raises(bf.OptionError, match="sample 0: expected a Sample; got int"):
        bf.write_shards(tmp_path / "new", [3])
    bf.write_shards(tmp_path / "other", samples)
    damaged(tmp_path / "other", lambda t, m, d: d.pop())
    with pytest.raises(bf.FileFormatError, match="does not fit the samples"):
        bf.Shards(tmp_path / "other")
