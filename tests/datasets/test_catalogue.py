import hashlib
import zipfile

import numpy as np
import pytest

import blendfield as bf
from blendfield import datasets
from blendfield.datasets import conll2000
from blendfield.datasets.catalogue import DataFile, DatasetInfo, find, read_arrays

OUTSIDE = [name for name in datasets.names() if datasets.info(name).files]


def test_every_set_is_described():
    assert set(OUTSIDE) == {"binary_images", "letters", "snakes", "conll2000"}
    for name in datasets.names():
        info = datasets.info(name)
        assert info.name == name
        assert info.title
        assert info.licence
        assert info.citation
        assert info.size > 0
        assert name in str(info)
        assert info.licence in str(info)


def test_unknown_name():
    with pytest.raises(bf.OptionError, match=r"expected one of pictures, binary_images.*got 'leters'"):
        datasets.load("leters")


@pytest.mark.parametrize("name", OUTSIDE)
def test_message_says_where_to_put_files(name, tmp_path, monkeypatch):
    monkeypatch.delenv("BLENDFIELD_DATA", raising=False)
    path = datasets.info(name).files[0].path
    assert not datasets.is_present(datasets.info(name))
    with pytest.raises(bf.DataNotFoundError, match=rf"{name}: set the environment variable BLENDFIELD_DATA.*{path}"):
        datasets.load(name)
    monkeypatch.setenv("BLENDFIELD_DATA", str(tmp_path))
    assert not datasets.is_present(datasets.info(name))
    with pytest.raises(FileNotFoundError, match=f"put the file at {tmp_path / path}"):
        datasets.load(name)


def test_checksum(tmp_path, monkeypatch):
    monkeypatch.setenv("BLENDFIELD_DATA", str(tmp_path))
    (tmp_path / "file").write_bytes(b"whole")
    digest = hashlib.sha256(b"whole").hexdigest()
    info = DatasetInfo("set", "a set", 1, "MIT", "us", (DataFile("file", digest),))
    assert datasets.is_present(info)
    assert find(info) == tmp_path / "file"
    (tmp_path / "file").write_bytes(b"half")
    with pytest.raises(bf.FileFormatError, match="damaged, or not the version of set"):
        find(info)


def test_no_pickles(tmp_path):
    np.savez(tmp_path / "evil.npz", a=np.array([{}], dtype=object))
    np.savez(tmp_path / "other.npz", b=np.zeros(3))
    for name in ("evil.npz", "other.npz"):
        with pytest.raises(bf.FileFormatError, match=r"expected an .npz file with the arrays a"):
            read_arrays(tmp_path / name, ("a",))


def test_sentences(tmp_path, monkeypatch):
    assert conll2000.parse("\na DT B-NP\ncat NN I-NP\n\n\nsat VBD B-VP", "x") == [
        (["a", "cat"], ["DT", "NN"], ["B-NP", "I-NP"]),
        (["sat"], ["VBD"], ["B-VP"]),
    ]
    assert conll2000.parse("", "x") == []
    with pytest.raises(bf.FileFormatError, match="file, line 2: expected `word tag chunk`, got 'cat NN'"):
        conll2000.parse("a DT B-NP\ncat NN\n", "file")
    archive = tmp_path / "conll2000" / "conll2000.zip"
    archive.parent.mkdir()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("conll2000/train.txt", "a DT B-NP\n")
    monkeypatch.setenv("BLENDFIELD_DATA", str(tmp_path))
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    monkeypatch.setattr(
        conll2000, "INFO", DatasetInfo("conll2000", "", 1, "", "", (DataFile("conll2000/conll2000.zip", digest),))
    )
    assert conll2000.load() == [(["a"], ["DT"], ["B-NP"])]
    with pytest.raises(bf.FileFormatError, match=r"expected a zip file with conll2000/test.txt"):
        conll2000.load("test")
