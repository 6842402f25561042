import os

import numpy as np
import pytest

import blendfield as bf
from blendfield.datasets.images import image_files, read_grey

Image = pytest.importorskip("PIL.Image")


def checkerboard(height=6, width=9):
    return np.indices((height, width)).sum(axis=0) % 2 * 255


def save(path, mode="L", pixels=None):
    pixels = checkerboard() if pixels is None else pixels
    Image.fromarray(pixels.astype(np.uint8)).convert(mode).save(path)
    return path


@pytest.mark.parametrize("mode", ["L", "1", "P", "RGB"])
def test_pictures_become_grey(tmp_path, mode):
    values = read_grey(save(tmp_path / "a.png", mode))
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, checkerboard() / 255)


def sixteen_bits(path):
    Image.fromarray((checkerboard() * 257).astype(np.uint16)).save(path)


def huge(path):
    """The header of a picture of 10^9 pixels: refused before anything is unpacked."""
    save(path)
    content = bytearray(path.read_bytes())
    content[16:24] = (30_000).to_bytes(4, "big") + (40_000).to_bytes(4, "big")
    import zlib

    content[29:33] = zlib.crc32(content[12:29]).to_bytes(4, "big")
    path.write_bytes(content)


def transparent_palette(path):
    save(path, "P")
    with Image.open(path) as image:
        image.save(path, transparency=0)


def half(path):
    save(path, pixels=np.random.default_rng(0).integers(0, 256, (64, 64)))
    path.write_bytes(path.read_bytes()[:2000])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_bytes(b""), "the file is empty"),
        (lambda path: path.write_bytes(b"hello"), "not an image"),
        (lambda path: path.mkdir(), "a folder"),
        (lambda path: None, "there is no such file"),
        (lambda path: save(path, pixels=np.full((4, 4), 7)), "every pixel has the same colour"),
        (lambda path: save(path, "RGBA"), r"has transparency \(RGBA\); expected opaque grey or RGB"),
        (lambda path: save(path, "LA"), "has transparency"),
        (transparent_palette, "has transparency"),
        (sixteen_bits, "16 or more bits per pixel; expected .* 8 bits"),
        (huge, "30000 x 40000 pixels; expected at most|too large"),
        (half, "damaged"),
    ],
)
def test_what_cannot_be_used(tmp_path, make, message):
    path = tmp_path / "a.png"
    make(path)
    with pytest.raises(bf.ImageError, match=message) as caught:
        read_grey(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable(tmp_path):
    path = save(tmp_path / "a.png")
    path.chmod(0)
    with pytest.raises(bf.ImageError, match="permission denied"):
        read_grey(path)


def test_unreadable_whoever_asks(tmp_path, monkeypatch):
    def denied(*_args, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Image, "open", denied)
    with pytest.raises(bf.ImageError, match="permission denied"):
        read_grey(tmp_path / "a.png")


def test_folder(tmp_path):
    for name in ("b.png", "a.PNG", ".hidden", "notes.txt"):
        save(tmp_path / "x.png").rename(tmp_path / name)
    assert [path.name for path in image_files(tmp_path)] == ["a.PNG", "b.png"]
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "none", tmp_path / "b.png"):
        with pytest.raises(bf.OptionError, match="expected a folder of images"):
            image_files(folder)
