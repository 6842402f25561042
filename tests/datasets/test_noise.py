import numpy as np
import pytest

from blendfield.datasets.noise import BIMODAL, GAUSSIAN, FlipNoise

GRID = np.linspace(-3, 4, 700_001)


def densities(noise):
    return np.exp(noise.log_likelihood(GRID))


@pytest.mark.parametrize("noise", [GAUSSIAN, BIMODAL])
def test_densities_integrate_to_one(noise):
    np.testing.assert_allclose(np.trapezoid(densities(noise), GRID, axis=0), 1, atol=1e-6)


def test_floors_without_context():
    """The errors (in %) that no method reaches which looks at one pixel only, at equal priors."""
    step = GRID[1] - GRID[0]
    for noise, threshold_floor, bayes_floor in ((GAUSSIAN, 4.78, 4.78), (BIMODAL, 22.03, 11.88)):
        density = densities(noise)
        bayes = 50 * np.sum(density.min(axis=1)) * step
        below = np.cumsum(density, axis=0) * step  # distribution functions
        threshold = 50 * np.min(1 - below[:, 0] + below[:, 1])
        assert bayes == pytest.approx(bayes_floor, abs=0.006)
        assert threshold == pytest.approx(threshold_floor, abs=0.006)


@pytest.mark.parametrize("noise", [GAUSSIAN, BIMODAL])
def test_samples_have_the_moments_of_the_mixture(noise):
    generator = np.random.default_rng(5)
    for label in (0, 1):
        seen = noise.sample(np.full(200_000, label), generator)
        means, deviations = np.array(noise.means[label]), np.array(noise.deviations[label])
        assert seen.mean() == pytest.approx(means.mean(), abs=0.003)
        assert seen.var() == pytest.approx((deviations**2).mean() + means.var(), rel=0.02)


def test_samples_depend_on_the_seed_alone():
    labels = np.arange(12).reshape(3, 4) % 2
    one, two, other = (BIMODAL.sample(labels, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, two)
    assert one.shape == (3, 4)
    assert not np.array_equal(one, other)


def test_flips():
    noise = FlipNoise(0.2)
    labels = np.arange(100_000) % 2
    seen = noise.sample(labels, np.random.default_rng(0))
    assert np.mean(seen != labels) == pytest.approx(0.2, abs=0.005)
    np.testing.assert_allclose(np.exp(noise.log_likelihood(np.array([0.0, 1.0]))), [[0.8, 0.2], [0.2, 0.8]])
