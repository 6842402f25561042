"""CRFsuite's text, and structures in .npz files."""

import gzip

import numpy as np
import pytest
from scipy.sparse import csr_array

import blendfield as bf
from blendfield.formats.crfsuite import parse_crfsuite
from blendfield.formats.structures import read_npz, read_structures

TEXT = "A\tw=the\tlength:3\nB\tw=a\\:b\tw=the\n\n\nA\tw=the\tw=the:0.5\nC\n"


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "some.txt"
    path.write_text(TEXT)
    return path


def test_items_and_attributes(text):
    found = parse_crfsuite(text)
    assert found.labels == [["A", "B"], ["A", "C"]]
    assert found.names == ["w=the", "length", "w=a:b"]
    np.testing.assert_array_equal(found.features[0].toarray(), [[1, 3, 0], [1, 0, 1]])
    np.testing.assert_array_equal(found.features[1].toarray(), [[1.5, 0, 0], [0, 0, 0]])


def test_known_and_frequent_attributes(text):
    known = parse_crfsuite(text, names=["w=a:b", "w=never", "w=the"])
    np.testing.assert_array_equal(known.features[0].toarray(), [[0, 0, 1], [1, 0, 1]])
    frequent = parse_crfsuite(text, min_frequency=2)
    assert frequent.names == ["w=the"]
    np.testing.assert_array_equal(np.concatenate([x.toarray() for x in frequent.features])[:, 0], [1, 1, 1.5, 0])


def test_other_ways_to_write_it(tmp_path, text):
    packed = tmp_path / "some.txt.gz"
    packed.write_bytes(gzip.compress(TEXT.replace("\n", "\r\n").replace("C\r", "C\t\r").encode()))
    one, two = parse_crfsuite(text), parse_crfsuite(packed)
    assert (one.labels, one.names) == (two.labels, two.names)
    assert read_structures(packed).kind == "chain"


# mtime=0: these bytes are part of the name of the test, which every worker of pytest-xdist must find the same.
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"A\tw\n\tw\n", ":2: expected a label"),
        (b"A\tw\nA\tw:x\n", ":2: expected name or name:number"),
        (b"A\tw:nan\n", ":1: expected name or name:number"),
        (b"A\tw:1:2\n", ":1: expected name or name:number"),
        (b"A\tw\n\nA\t:3\n", ":3: expected a name"),
        (b"A\tw\nA\t\xff\n", ":2: expected text in UTF-8"),
        (b"\n\n", "at least one sequence"),
        (gzip.compress(TEXT.encode(), mtime=0)[:-9], "truncated"),
    ],
)
def test_faults_name_the_line(tmp_path, content, message):
    path = tmp_path / "broken.txt"
    path.write_bytes(content)
    with pytest.raises(bf.FileFormatError, match=message):
        parse_crfsuite(path)


def chains():
    return {"lengths": [2, 1], "features": np.arange(6.0).reshape(3, 2), "labels": [0, 2, 1]}


def saved(tmp_path, arrays):
    np.savez(tmp_path / "data.npz", **{key: np.asarray(value) for key, value in arrays.items()})
    return tmp_path / "data.npz"


def test_chains_grids_and_graphs(tmp_path):
    found = read_npz(saved(tmp_path, {**chains(), "weights": [1.0, 2.0]}))
    assert found.kind == "chain"
    np.testing.assert_array_equal(found.X[1], [[4, 5]])
    assert [y.tolist() for y in found.y] == [[0, 2], [1]]
    assert found.weights.tolist() == [1, 2]
    sparse = csr_array(chains()["features"])
    parts = {f"features_{name}": getattr(sparse, name) for name in ("data", "indices", "indptr", "shape")}
    again = read_npz(saved(tmp_path, {"lengths": [2, 1], **parts}))
    assert again.y is None
    np.testing.assert_array_equal(again.X[0].toarray(), found.X[0])
    grids = read_npz(saved(tmp_path, {"shapes": [[1, 2], [1, 1]], "features": np.arange(6.0).reshape(3, 2)}))
    assert grids.kind == "grid"
    assert grids.X[0].shape == (1, 2, 2)
    edges = {"nodes": [2, 1], "edges": [[0, 1]], "edge_counts": [1, 0], "edge_features": [[3.0]]}
    graphs = read_npz(saved(tmp_path, {**edges, "features": np.zeros((3, 2))}))
    assert graphs.kind == "graph"
    assert [len(x) for x in graphs.X] == [3, 3]
    assert graphs.X[0][1].tolist() == [[0, 1]]
    assert graphs.X[1][2].shape == (0, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lengths": None}, "expected one of the keys lengths, shapes, nodes"),
        ({"nodes": [3]}, "expected one of the keys"),
        ({"lengths": [2.0, 1.0]}, "'lengths': expected integers"),
        ({"lengths": [3, 0]}, "'lengths': expected integers .* of at least 1"),
        ({"lengths": [2, 2]}, "lengths add up to 4 nodes, but features have 3 rows"),
        ({"features": None}, "'features': expected numbers .* got no such key"),
        ({"features": np.zeros(3)}, "'features': expected numbers"),
        ({"features": None, "features_data": [1.0]}, "'features_indices'"),
        ({"labels": [0, 1]}, "'labels': expected integers or strings"),
        ({"labels": [0.0, 1.0, 2.0]}, "'labels'.*float64"),
        ({"weights": [1.0, -1.0]}, "'weights': expected numbers > 0"),
        ({"lables": [0, 1, 2]}, "key 'lables' is unknown"),
        ({"labels": np.array([0, None, 1], dtype=object)}, "key 'labels': damaged, or no plain array"),
        ({"lengths": None, "nodes": [2, 1]}, "'edges': expected integers"),
        ({"lengths": None, "nodes": [2, 1], "edges": [[0, 1]], "edge_counts": [2, 0]}, "'edges': expected .*as edge"),
    ],
)
def test_faults_name_the_key(tmp_path, changes, message):
    arrays = {key: value for key, value in {**chains(), **changes}.items() if value is not None}
    with pytest.raises(bf.FileFormatError, match=message):
        read_npz(saved(tmp_path, arrays))


def test_files_that_are_no_npz(tmp_path):
    path = saved(tmp_path, chains())
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"PK\x03\x04", b"hello"):
        path.write_bytes(content)
        with pytest.raises(bf.FileFormatError, match=r"data\.npz"):
            read_npz(path)
    np.save(tmp_path / "single.npy", np.zeros(3))
    with pytest.raises(bf.FileFormatError, match="single array"):
        read_npz(tmp_path / "single.npy")
    damaged = bytearray(whole)
    damaged[whole.index(b"features") + 200] ^= 0xFF
    path.write_bytes(bytes(damaged))
    with pytest.raises(bf.FileFormatError, match="features"):
        read_npz(path)
