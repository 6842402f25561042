import numpy as np
import pytest

import blendfield as bf
from blendfield.applications.denoising import simple
from blendfield.applications.denoising.configuration import DenoisingConfiguration
from blendfield.applications.denoising.task import NOISES, base_pictures, experiments
from blendfield.datasets import pictures


def configuration(**changes):
    return DenoisingConfiguration(**({"size": 16, "copies": 10} | changes))


@pytest.mark.parametrize("protocol", ["A", "B", "C"])
@pytest.mark.parametrize("noise", ["gaussian", "bimodal"])
def test_experiments(protocol, noise):
    found = experiments(configuration(), noise, protocol)
    clean = {picture.name: picture.image for picture in pictures.load(16)}
    assert [experiment.picture for experiment in found] == list(clean)
    for experiment in found:
        assert (experiment.protocol, experiment.noise) == (protocol, noise)
        assert len(experiment.testing) == 2
        assert len(experiment.training) == (12 if protocol == "B" else 8)
        truths = [image.truth for image in experiment.training]
        mine = clean[experiment.picture]
        if protocol == "A":
            assert all(np.array_equal(truth, mine) for truth in truths)
        elif protocol == "B":
            assert not any(np.array_equal(truth, mine) for truth in truths)
            assert all(np.array_equal(image.truth, mine) for image in experiment.testing)
        else:
            assert not all(np.array_equal(truth, truths[0]) for truth in truths)
            assert all(truth.sum() == mine.sum() for truth in truths)


def test_noise_depends_on_seed_picture_and_copy_alone():
    one = experiments(configuration(), "gaussian", "A")
    again = experiments(configuration(protocols=("A",)), "gaussian", "B")
    for a, b in zip(one, again, strict=True):  # the same test images in both protocols
        np.testing.assert_array_equal([i.seen for i in a.testing], [i.seen for i in b.testing])
    other = experiments(configuration(seed=1), "gaussian", "A")
    copies = [image.seen - image.truth for e in (*one, *other) for image in (*e.training, *e.testing)]
    assert len({copy.tobytes() for copy in copies}) == len(copies)


def test_majority_stores_the_picture_in_protocol_a_only():
    a, _, c, _ = experiments(configuration(size=32), "gaussian", "A")
    for experiment in (a, c):
        assert simple.error_percent(simple.majority(experiment), [i.truth for i in experiment.testing]) == 0
    moved = experiments(configuration(size=32), "gaussian", "C")[0]
    assert simple.error_percent(simple.majority(moved), [i.truth for i in moved.testing]) > 20


def test_floors_without_context():
    """Threshold and Bayes rule make the errors that follow from the densities; blobs have 40 % foreground."""
    grid = np.linspace(-2, 3, 100_001)
    for name, noise in NOISES.items():
        experiment = experiments(configuration(size=64, copies=30), name, "A")[3]
        truth = [image.truth for image in experiment.testing]
        joint = np.exp(noise.log_likelihood(grid)) * [0.6, 0.4] * (grid[1] - grid[0])
        by_bayes = 100 * joint.min(axis=1).sum()
        by_threshold = 100 * np.min(0.6 + np.cumsum(joint[:, 1] - joint[:, 0]))
        assert simple.error_percent(simple.per_pixel_bayes(experiment), truth) == pytest.approx(by_bayes, abs=0.5)
        assert simple.error_percent(simple.threshold(experiment), truth) == pytest.approx(by_threshold, abs=0.5)


def test_threshold_is_the_best_one():
    generator = np.random.default_rng(3)
    experiment = experiments(configuration(size=8), "bimodal", "A")[1]
    seen = np.stack([image.seen for image in experiment.training])
    truth = np.stack([image.truth for image in experiment.training])
    trained = type(experiment)("", "A", "bimodal", experiment.training, experiment.training)
    least = simple.error_percent(simple.threshold(trained), truth)
    for border in generator.uniform(-0.2, 1, 200):
        assert least <= simple.error_percent(seen > border, truth) + 1e-12


def test_error_percent():
    truth = [np.array([[True, False]]), np.array([[True, True]])]
    assert simple.error_percent(truth, truth) == 0
    assert simple.error_percent([~truth[0], truth[1]], truth) == 50
    assert simple.error_percent([np.array([[1, 1]]), np.array([[1, 1]])], truth) == 25


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"noises": ("salt",)}, "noise: expected one of gaussian, bimodal; got 'salt'"),
        ({"noises": ()}, "noise: expected at least one"),
        ({"protocols": ("A", "A")}, "protocol: expected each at most once"),
        ({"protocols": ("D",)}, "protocol: expected one of A, B, C"),
        ({"model": "big"}, "model: expected one of free, tied; got 'big'"),
        ({"counting_numbers": "bethe"}, "counting numbers: expected one of ones, cover, cover-outer"),
        ({"epsilon": -1.0}, "epsilon: expected a temperature >= 0"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"C": 0.0}, "C: expected a number > 0"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"time_limit": -1.0}, "time limit"),
        ({"size": 3}, "size: expected a whole number from 4 to 1024, got 3"),
        ({"size": 5000}, "size"),
        ({"copies": 4}, "copies: expected a whole number from 5"),
        ({"copies": 7.5}, "copies"),
        ({"seed": -1}, "seed"),
        ({"threads": 0}, "threads"),
        ({"images": "/no/such/folder"}, "images: expected a folder of pictures or binary_images"),
    ],
)
def test_wrong_knobs(wrong, message):
    with pytest.raises(bf.OptionError, match=message) as caught:
        DenoisingConfiguration(**wrong)
    assert "\n" not in str(caught.value)


def test_usual_models():
    assert [configuration().model_of(protocol) for protocol in "ABC"] == ["free", "tied", "free"]
    assert configuration(model="tied").model_of("A") == "tied"


def test_own_pictures(tmp_path):
    image_module = pytest.importorskip("PIL.Image")
    for number, picture in enumerate(pictures.load(48)[:2]):
        pixels = np.where(picture.image, 250, 5).astype(np.uint8)
        image_module.fromarray(pixels).save(tmp_path / f"{number}.png")
    found = base_pictures(configuration(images=str(tmp_path), size=24))
    assert [picture.name for picture in found] == ["0", "1"]
    for mine, generated in zip(found, pictures.load(24), strict=False):
        assert np.mean(mine.image != generated.image) < 0.05
    (tmp_path / "1.png").unlink()
    with pytest.raises(bf.OptionError, match="protocol B: expected at least two pictures"):
        base_pictures(configuration(images=str(tmp_path)))
    assert len(base_pictures(configuration(images=str(tmp_path), protocols=("A",)))) == 1
    speck = np.zeros((64, 64), np.uint8)
    speck[0, 0] = 255
    image_module.fromarray(speck).save(tmp_path / "1.png")
    with pytest.raises(bf.ImageError, match="of one colour at 16 x 16 pixels"):
        base_pictures(configuration(images=str(tmp_path)))
