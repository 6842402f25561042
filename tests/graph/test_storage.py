import os
import stat

import numpy as np
import pytest
from graph_strategies import edge_list, region_graphs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blendfield.errors import FileFormatError
from blendfield.graph import RegionGraph

in_one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, database=None)


@in_one_folder
@given(graph=region_graphs())
def test_roundtrip(tmp_path, graph):
    graph.save(tmp_path / "graph")
    again = RegionGraph.load(tmp_path / "graph")
    assert again.cardinalities.tolist() == graph.cardinalities.tolist()
    assert again.regions == graph.regions
    assert edge_list(again) == edge_list(graph)
    assert again.num_given == graph.num_given
    assert again.table_offsets.tolist() == graph.table_offsets.tolist()
    assert os.listdir(tmp_path) == ["graph"]


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "graph.npz"
    RegionGraph([2, 3, 2], [(0, 1), (2, 1)]).save(path)
    return path


def rewrite(path, **changes):
    with np.load(path) as archive:
        arrays = dict(archive)
    arrays.update(changes)
    with open(path, "wb") as file:
        np.savez(file, **{name: array for name, array in arrays.items() if array is not None})


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        RegionGraph.load(tmp_path / "nothing.npz")
    with pytest.raises(FileNotFoundError):
        RegionGraph([2], []).save(tmp_path / "no" / "graph.npz")


def test_ordinary_permissions(saved, tmp_path):
    (tmp_path / "plain").write_text("")
    assert stat.S_IMODE(saved.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def test_failed_save_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()

    def full(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="disk full"):
        RegionGraph([2], []).save(saved)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


@in_one_folder
@given(st.data())
def test_truncated_or_damaged(saved, data):
    """A damaged file is an error or, where the damage hits padding, the same graph; never a broken graph."""
    RegionGraph([2, 3, 2], [(0, 1), (2, 1)]).save(saved)
    content = bytearray(saved.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content = content[:place]
    else:
        content[place] ^= data.draw(st.integers(1, 255))
    saved.write_bytes(content)
    try:
        graph = RegionGraph.load(saved)
    except FileFormatError:
        return
    assert graph.regions == [(0, 1), (2, 1), (0,), (1,), (2,)]


def test_files_of_other_kinds(tmp_path):
    path = tmp_path / "file"
    for content in (b"", b"hello", b"PK\x03\x04 no archive"):
        path.write_bytes(content)
        with pytest.raises(FileFormatError, match="not a region graph"):
            RegionGraph.load(path)
    with open(path, "wb") as file:
        np.save(file, np.arange(3))
    with pytest.raises(FileFormatError):
        RegionGraph.load(path)
    with open(path, "wb") as file:
        np.save(file, np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(FileFormatError):
        RegionGraph.load(path)


damages = {
    "kind": ({"kind": np.array("other")}, "expected a blendfield.RegionGraph"),
    "version": ({"version": np.array(99)}, "expected version 1, got '99'"),
    "missing": ({"edges": None}, "not a region graph"),
    "pickled": ({"edges": np.array([None, {}], dtype=object)}, "not a region graph"),
    "floats": ({"cardinalities": np.array([2.0, 3.0, 2.0])}, "expected integers in cardinalities"),
    "offsets": ({"region_offsets": np.array([0, 2, 4, 3, 6, 7])}, "region_offsets"),
    "no offsets": ({"region_offsets": np.array([], int)}, "region_offsets"),
    "offsets beyond": ({"region_offsets": np.array([0, 2, 4, 5, 6, 70])}, "region_offsets"),
    "variables": ({"region_variables": np.array([0, 1, 2, 1, 0, 1, 9])}, "names variable 9"),
    "missing singles": (
        {
            "region_offsets": np.array([0, 2, 4]),
            "region_variables": np.array([0, 1, 2, 1]),
            "edges": np.zeros((0, 2), int),
        },
        "missing",
    ),
    "edges": ({"edges": np.array([[0, 4]])}, "edge 0"),
    "num_given": ({"num_given": np.array(6)}, "num_given"),
    "num_given vector": ({"num_given": np.array([1])}, "num_given"),
}


@pytest.mark.parametrize(("changes", "message"), damages.values(), ids=damages.keys())
def test_wrong_contents(saved, changes, message):
    rewrite(saved, **changes)
    with pytest.raises(FileFormatError, match=message):
        RegionGraph.load(saved)
