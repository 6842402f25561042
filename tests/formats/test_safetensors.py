"""Arrays in safetensors files: round trips, the package of that name, and every way a file can be wrong."""

import json

import numpy as np
import pytest

import blendfield as bf
from blendfield.formats.plain import from_metadata, pack, to_text
from blendfield.formats.safetensors import DATA_TYPES, TensorFile, write_tensors

ARRAYS = {
    "b": np.arange(6.0).reshape(2, 3),
    "flags": np.array([True, False, True]),
    "empty": np.zeros((0, 4), dtype=np.float32),
    "scalar": np.array(-0.0),
    "odd": np.arange(5, dtype=np.int16),
    "ä / 1": np.array([np.nan, np.inf, 5e-324]),
    "transposed": np.arange(6, dtype=np.int32).reshape(2, 3).T,
}


def test_round_trip(tmp_path):
    path = tmp_path / "a.safetensors"
    for code in DATA_TYPES.values():
        ARRAYS[code] = np.array([[1, 0, 1]]).astype(code)
    write_tensors(path, ARRAYS, {"what": "a test"})
    file = TensorFile(path)
    assert file.metadata == {"what": "a test"}
    assert set(file) == set(ARRAYS)
    assert len(file) == len(ARRAYS)
    for name, array in ARRAYS.items():
        assert file[name].dtype == array.dtype
        assert file.shape(name) == array.shape
        assert file[name].tobytes() == np.ascontiguousarray(array).tobytes()
        file[name].reshape(-1)[:] = 0  # memory of its own


def test_the_safetensors_package_agrees(tmp_path):
    package = pytest.importorskip("safetensors.numpy")
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    arrays = {name: np.ascontiguousarray(array) for name, array in ARRAYS.items() if array.ndim}
    write_tensors(ours, arrays, {"what": "a test"})
    read = package.load_file(ours)
    assert set(read) == set(arrays)
    package.save_file(arrays, theirs, metadata={"key": "value"})
    file = TensorFile(theirs)
    assert file.metadata == {"key": "value"}
    for name, array in arrays.items():
        assert read[name].tobytes() == file[name].tobytes() == array.tobytes()
        assert read[name].shape == file[name].shape == array.shape


def raw(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def one(**changes):
    return {"a": {"dtype": "F64", "shape": [2], "data_offsets": [0, 16]} | changes}


WRONG = {
    "nothing": (b"", "cut off"),
    "short": (b"\x10\0\0\0\0\0\0\0{}", "cut off"),
    "huge header": (b"\xff" * 8 + b"{}", "cut off"),
    "no JSON": (raw(b"{'a'}"), "no JSON"),
    "no text": (raw(b"\xff\xfe{}"), "no JSON"),
    "a deep header": (raw(b"[" * 100_000), "no JSON"),
    "a list": (raw([]), "JSON object"),
    "a name twice": (raw(b'{"a": 1, "a": 2}'), "twice"),
    "metadata": (raw({"__metadata__": {"a": 1}}), "strings to strings"),
    "no entry": (raw({"a": 3}), "'a'"),
    "a key more": (raw(one(extra=1), bytes(16)), "'a'"),
    "dtype": (raw(one(dtype="F63"), bytes(16)), "F63"),
    "dtype list": (raw(one(dtype=["F64"]), bytes(16)), "F64"),
    "shape": (raw(one(shape=[-2]), bytes(16)), "integers"),
    "bool shape": (raw(one(shape=[True, 2]), bytes(16)), "integers"),
    "too large a shape": (raw(one(shape=[2**62]), bytes(16)), "integers"),
    "overflow": (raw(one(shape=[2**61, 2**61]), bytes(16)), "do not fit"),
    "length": (raw(one(shape=[3]), bytes(16)), "do not fit"),
    "offsets": (raw(one(data_offsets=[0]), bytes(16)), "two data_offsets"),
    "hole": (raw(one(data_offsets=[8, 24]), bytes(24)), "hole"),
    "overlap": (raw({**one(), "b": one(data_offsets=[8, 24])["a"]}, bytes(24)), "overlaps"),
    "cut": (raw(one(), bytes(15)), "cut off"),
    "more": (raw(one(), bytes(17)), "goes on"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_files_are_refused(case, tmp_path):
    content, words = WRONG[case]
    path = tmp_path / "wrong"
    path.write_bytes(content)
    with pytest.raises(bf.FileFormatError, match=words) as caught:
        TensorFile(path)
    assert str(path) in str(caught.value)


def test_every_truncation_is_refused(tmp_path):
    path = tmp_path / "a"
    write_tensors(path, {"x": np.arange(3.0)}, {})
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(bf.FileFormatError):
            TensorFile(path)


def test_what_has_no_place_is_refused(tmp_path):
    for array in (np.array([None]), np.array(["text"]), np.zeros(2, dtype=complex)):
        with pytest.raises(TypeError, match="no place"):
            write_tensors(tmp_path / "a", {"x": array}, {})
    assert not list(tmp_path.iterdir())


def test_kinds_and_versions(tmp_path):
    path = tmp_path / "a"

    def file(**metadata):
        write_tensors(path, {}, metadata)
        return TensorFile(path)

    file(format="x", format_version="2").require("x", 2)
    with pytest.raises(bf.FileFormatError, match="newer blendfield: format version 3"):
        file(format="x", format_version="3").require("x", 2)
    with pytest.raises(bf.FileFormatError, match="expected a file of format 'x'"):
        file().require("x", 1)
    for version in ("", "one", "-1", "0", "²", "9" * 5000):
        with pytest.raises(bf.FileFormatError, match="whole number"):
            file(format="x", format_version=version).require("x", 1)


def test_plain_data(tmp_path):
    value = {
        "none": None,
        "list": [1, 2.5, True, "text", {"float": "a mapping"}],
        "numbers": [float("inf"), float("-inf"), np.float64(0.1), np.int32(3)],
        "mapping": {None: 1.0, "tensor": "name", 3: np.arange(3)},
    }
    tensors = {}
    text = to_text(pack(value, "value", tensors))
    write_tensors(tmp_path / "a", tensors, {"value": text})
    read = from_metadata(TensorFile(tmp_path / "a"), "value")
    np.testing.assert_array_equal(read["mapping"].pop(3), value["mapping"].pop(3))
    assert read == value
    assert np.isnan(from_metadata_text(tmp_path, '{"float": "nan"}'))
    with pytest.raises(TypeError, match=r"value\.f"):
        pack({"f": print}, "value", {})


def from_metadata_text(folder, text):
    write_tensors(folder / "b", {}, {"value": text})
    return from_metadata(TensorFile(folder / "b"), "value")


@pytest.mark.parametrize(
    "text",
    ['{"tensor": "absent"}', '{"tensor": 1}', '{"a": 1}', '{"float": "1"}', '{"pairs": [[[], 1]]}', "{", "[" * 9999],
)
def test_damaged_plain_data_is_refused(text, tmp_path):
    with pytest.raises(bf.FileFormatError, match=str(tmp_path)):
        from_metadata_text(tmp_path, text)
    with pytest.raises(bf.FileFormatError, match="lack 'other'"):
        from_metadata(TensorFile(tmp_path / "b"), "other")
