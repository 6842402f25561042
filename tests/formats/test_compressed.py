import gzip
import lzma
import tracemalloc

import pytest

import blendfield as bf
from blendfield.formats import compressed

TEXT = b"MARKOV\n1\n2\n0\n"


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_compressed_files(file, pack):
    """Whatever the name; streams may follow each other; what is cut off or damaged is an error, never half a text."""
    packed = pack(TEXT)
    assert compressed.read_text(file("a", packed)) == TEXT
    assert compressed.read_text(file("a", packed + packed)) == TEXT + TEXT
    for size in range(7, len(packed)):
        with pytest.raises(bf.FileFormatError, match="damaged or truncated"):
            compressed.read_text(file("a", packed[:size]))
    with pytest.raises(bf.FileFormatError, match="damaged or truncated"):
        compressed.read_text(file("a", packed + b"trailing"))


def test_padding_between_xz_streams(file):
    packed = lzma.compress(TEXT)
    assert compressed.read_text(file("a", packed + b"\0" * 8 + packed + b"\0" * 4)) == TEXT + TEXT


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_bombs_are_bounded(file, pack, monkeypatch):
    monkeypatch.setattr(compressed, "MAX_DECOMPRESSED", 10**7)
    path = file("bomb", pack(b" " * 10**8))
    tracemalloc.start()
    with pytest.raises(bf.FileFormatError, match=r"expected at most 9.5 MiB of text"):
        compressed.read_text(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6e7


def test_bzip2_is_named(file):
    with pytest.raises(bf.FileFormatError, match=r"expected plain text, .gz or .xz, got bzip2"):
        compressed.read_text(file("a.uai", b"BZh91AY"))


def test_missing_files_and_folders_are_ordinary_errors(tmp_path):
    with pytest.raises(FileNotFoundError):
        bf.read_uai(tmp_path / "nothing.uai")
    with pytest.raises(IsADirectoryError):
        bf.read_uai(tmp_path)
    with pytest.raises(FileNotFoundError):
        bf.write_uai(tmp_path / "nowhere" / "a.uai", bf.RegionGraph([2], []), [])


def test_writing_is_whole_or_nothing(tmp_path):
    path = tmp_path / "a.uai"
    path.write_text("before")
    with pytest.raises(bf.PotentialError):
        bf.write_uai(path, bf.RegionGraph([2], [(0,)]), [[0.0, float("nan")]])
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["a.uai"]
