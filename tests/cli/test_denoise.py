import os

import numpy as np
import pytest

from blendfield.applications.denoising.clean import clean, load_model
from blendfield.cli import main
from blendfield.datasets import pictures
from blendfield.datasets.images import read_grey

pytest.importorskip("matplotlib")
Image = pytest.importorskip("PIL.Image")

SMALL = ["denoise", "--size", "12", "--copies", "5", "--protocol", "B", "--tolerance", "1e-2", "--threads", "1"]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("denoising")
    assert main([*SMALL, "--report", str(folder)]) == 0
    return folder


def save(path, values, mode="L"):
    Image.fromarray(np.asarray(values, np.uint8)).convert(mode).save(path)
    return path


def noisy_picture(size=40):
    truth = pictures.load(size)[0].image
    seen = truth + 0.3 * np.random.default_rng(1).standard_normal(truth.shape)
    return truth, np.clip(255 * seen, 0, 255)


def test_study(report, capsys):
    assert {"index.html", "run.json", "tables.txt", "cells", "model-gaussian.safetensors"} <= set(os.listdir(report))
    capsys.readouterr()
    assert main([*SMALL, "--report", str(report)]) == 0  # everything is there already
    out, err = capsys.readouterr()
    assert "Wrong pixels: Gaussian noise, protocol B" in out
    assert str(report / "index.html") in out
    assert "blend-tied-0" in err


def test_predict_cleans_an_image_of_any_size(report, tmp_path, capsys):
    truth, seen = noisy_picture()
    image = save(tmp_path / "mine.png", seen)
    model = str(report / "model-gaussian.safetensors")
    assert main(["denoise", "predict", model, str(image)]) == 0
    target = tmp_path / "mine-clean.png"
    assert capsys.readouterr() == (f"{target}\n", "")
    found = read_grey(target)
    assert set(np.unique(found)) == {0.0, 1.0}
    assert np.mean((found > 0.5) != truth) < np.mean((seen > 127) != truth) / 2
    np.testing.assert_array_equal(found > 0.5, clean(load_model(model), read_grey(image)))
    other = tmp_path / "new" / "folder"
    assert main(["denoise", "predict", model, str(image), str(target), "-o", str(other)]) == 0
    assert sorted(os.listdir(other)) == ["mine-clean-clean.png", "mine-clean.png"]


def empty(path):
    path.write_bytes(b"")


def not_an_image(path):
    path.write_text("a letter, not an image")


def one_colour(path):
    save(path, np.full((9, 9), 200))


def transparent(path):
    save(path, noisy_picture()[1], "RGBA")


def sixteen_bits(path):
    Image.fromarray((noisy_picture()[1] * 257).astype(np.uint16)).save(path)


def huge(path):
    import zlib

    save(path, noisy_picture()[1])
    content = bytearray(path.read_bytes())
    content[16:24] = (30_000).to_bytes(4, "big") + (40_000).to_bytes(4, "big")
    content[29:33] = zlib.crc32(content[12:29]).to_bytes(4, "big")
    path.write_bytes(content)


def truncated(path):
    save(path, noisy_picture()[1])
    path.write_bytes(path.read_bytes()[:200])


def a_folder(path):
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (empty, "the file is empty"),
        (not_an_image, "not an image"),
        (one_colour, "every pixel has the same colour"),
        (transparent, "has transparency (RGBA)"),
        (sixteen_bits, "has 16 or more bits per pixel"),
        (huge, "expected at most"),
        (truncated, "damaged"),
        (a_folder, "a folder; expected an image"),
        (lambda path: None, "there is no such file"),
    ],
)
def test_wrong_images(report, tmp_path, capsys, make, message):
    """One line that begins with the name, code 2, and the good image beside it is not written either."""
    good, bad = save(tmp_path / "good.png", noisy_picture()[1]), tmp_path / "bad.png"
    make(bad)
    code = main(["denoise", "predict", str(report / "model-gaussian.safetensors"), str(good), str(bad)])
    assert_one_line(code, capsys, message, str(bad))
    assert not (tmp_path / "good-clean.png").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable to root")
def test_unreadable_image(report, tmp_path, capsys):
    bad = save(tmp_path / "bad.png", noisy_picture()[1])
    bad.chmod(0)
    code = main(["denoise", "predict", str(report / "model-gaussian.safetensors"), str(bad)])
    assert_one_line(code, capsys, "permission denied", str(bad))


@pytest.mark.parametrize("make", [one_colour, transparent, sixteen_bits, not_an_image, empty, truncated])
def test_wrong_pictures_to_learn_from(tmp_path, capsys, make):
    save(tmp_path / "a.png", 255 * pictures.load(20)[0].image)
    make(tmp_path / "b.png")
    code = main([*SMALL, "--images", str(tmp_path), "--report", str(tmp_path / "out")])
    assert_one_line(code, capsys, "b.png: ")
    assert not (tmp_path / "out").exists()


def test_pictures_of_the_user(tmp_path, capsys):
    for number, picture in enumerate(pictures.load(20)[:2]):
        save(tmp_path / f"my {number}.png", 255 * picture.image, "RGB")
    assert main([*SMALL, "--images", str(tmp_path), "--report", str(tmp_path / "out")]) == 0
    assert "my 1 (%)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--noise", "salt"], "invalid choice: 'salt'"),
        (["--noise", "gaussian", "gaussian"], "noise: expected each at most once"),
        (["--model", "big"], "invalid choice: 'big'"),
        (["--protocol", "D"], "invalid choice: 'D'"),
        (["--rivals", "nobody"], "invalid choice: 'nobody'"),
        (["--epsilon", "-1"], "expected a temperature >= 0, got '-1'"),
        (["--C", "0"], "C: expected a number > 0"),
        (["--C", "many"], "expected a number > 0, or auto, got 'many'"),
        (["--tolerance", "0"], "tolerance: expected a number > 0"),
        (["--size", "2"], "size: expected a whole number from 4"),
        (["--copies", "3"], "copies: expected a whole number from 5"),
        (["--images", "/no/such/folder"], "images: expected a folder of pictures"),
        (["--backend", "abacus"], "abacus"),
        (["--quick", "--full"], "not allowed with argument"),
        (["predict"], "the following arguments are required: MODEL, IMAGE"),
        (["predict", "/no/such/model", "a.png"], "there is no such file; expected a model"),
    ],
)
def test_wrong_knobs(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert_one_line(main(["denoise", *arguments]), capsys, message)
    assert os.listdir(tmp_path) == []


def test_other_models_are_refused(tmp_path, capsys):
    import blendfield as bf

    graph = bf.RegionGraph([2, 2], [(0, 1)])
    sample = bf.Sample(graph, [(0, 0, [[1.0, 0.0], [0.0, 1.0]])], [0, 1])
    bf.BlendedLearner(max_iterations=2).fit([sample]).save(tmp_path / "other.safetensors")
    image = save(tmp_path / "a.png", noisy_picture()[1])
    code = main(["denoise", "predict", str(tmp_path / "other.safetensors"), str(image)])
    assert_one_line(code, capsys, "expected a model of blendfield denoise")


def assert_one_line(code, capsys, message, start=""):
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err
    assert err.startswith(f"blendfield: {start}")
