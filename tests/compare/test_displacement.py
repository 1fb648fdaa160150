"""Scale and shift, against scikit-image's warp, and the fit, against NumPy's least squares."""

import numpy as np
import pytest
from skimage.filters import gaussian
from skimage.transform import AffineTransform, warp

from alignkit.compare.displacement import Normal, displacement, displacement_terms, fit
from alignkit.compare.named_mechanisms import interval

CENTRE = (39.5, 59.5)


def smooth(seed):
    noise = np.random.default_rng(seed).normal(0, 200, (80, 120))
    return 128 + gaussian(noise, 2.5, mode="wrap")


def moved(image, scale=(1.0, 1.0), shift=(0.0, 0.0)):
    """Magnify about the centre, then shift: (x, y) each."""
    down, right = CENTRE
    about = [each - each * s + d for each, s, d in zip((right, down), scale, shift, strict=True)]
    place = AffineTransform(scale=scale, translation=about)
    return warp(image, place.inverse, order=3, mode="edge", preserve_range=True)


def found(change, count=6):
    pairs = [(image, change(image)) for image in map(smooth, range(count))]
    return displacement(
        [displacement_terms(*(each.astype(np.float32) for each in pair), CENTRE) for pair in pairs]
    )


@pytest.mark.parametrize(
    ("scale", "shift"),
    [
        ((1.01, 1.01), (0, 0)),
        ((0.99, 1.0), (0, 0)),
        ((1, 1), (0.5, -0.3)),
        ((0.99, 1.01), (0.2, 0)),
    ],
)
def test_a_known_scale_and_shift_are_found(scale, shift):
    result = found(lambda image: moved(image, scale, shift))
    assert [value for value, _ in result.scale] == pytest.approx(scale, abs=1e-3)
    # a gradient over three pixels is a little too small in fine detail
    assert [value for value, _ in result.shift] == pytest.approx(shift, abs=0.04)
    assert result.share > 0.95


@pytest.mark.parametrize(
    "change",
    [
        lambda image: 255 * (image / 255) ** 1.2,
        lambda image: 0.8 * image + 20,
        lambda image: image + np.random.default_rng(int(image.sum())).normal(0, 3, image.shape),
    ],
    ids=["gamma", "contrast", "noise"],
)
def test_a_change_of_levels_is_no_displacement(change):
    result = found(change)
    assert [value for value, _ in result.scale] == pytest.approx([1, 1], abs=1e-3)
    assert [value for value, _ in result.shift] == pytest.approx([0, 0], abs=0.02)
    assert result.share < 0.1


def test_a_blank_image_has_no_displacement():
    assert found(lambda image: image * 0 + 9, count=1) is None
    blank = displacement_terms(*np.full((2, 20, 20), 7, np.float32), (9.5, 9.5))
    assert displacement([blank] * 5) is None


def test_fewer_than_five_images_have_no_displacement():
    assert found(lambda image: moved(image, shift=(0.5, 0)), count=4) is None
    assert found(lambda image: moved(image, shift=(0.5, 0)), count=5) is not None


def test_the_part_of_an_image_has_the_scale_about_the_whole_images_centre():
    pairs = [(image, moved(image, (1.01, 1.01))) for image in map(smooth, range(6))]
    normals = [
        displacement_terms(*(each[:40, :64].astype(np.float32) for each in pair), CENTRE)
        for pair in pairs
    ]
    result = displacement(normals)
    assert [value for value, _ in result.scale] == pytest.approx([1.01, 1.01], abs=1e-3)
    assert [value for value, _ in result.shift] == pytest.approx([0, 0], abs=0.05)


def test_a_fit_is_that_of_least_squares_with_errors_over_images():
    draw = np.random.default_rng(1)
    images = []
    for count in (300, 500, 9000, 700):  # of unequal sizes, one in several parts
        terms = draw.normal(size=(3, count)).astype(np.float32)
        target = (2 * terms[0] - terms[2] + draw.normal(size=count)).astype(np.float32)
        images.append((terms, target))
    result = fit([Normal.of(*each) for each in images], [0, 2])
    every = np.concatenate([terms[[0, 2]].T for terms, _ in images]).astype(float)
    targets = np.concatenate([target for _, target in images]).astype(float)
    expected, left, *_ = np.linalg.lstsq(every, targets, rcond=None)
    assert result.coefficients == pytest.approx([expected[0], 0, expected[1]], rel=1e-5)
    assert result.left == pytest.approx(left[0], rel=1e-5)
    # the jackknife: by how much the fit moves without an image
    moves = []
    for place in range(len(images)):
        rest = [each for other, each in enumerate(images) if other != place]
        terms = np.concatenate([terms[[0, 2]].T for terms, _ in rest]).astype(float)
        targets = np.concatenate([target for _, target in rest]).astype(float)
        moves.append(np.linalg.lstsq(terms, targets, rcond=None)[0] - expected)
    errors = np.sqrt(3 / 4 * np.square(moves).sum(axis=0))
    assert result.errors == pytest.approx([errors[0], 0, errors[1]], rel=1e-3)


@pytest.mark.parametrize("count", [5, 8, 16])
def test_intervals_hold_the_true_value_in_95_of_100_draws(count):
    draw = np.random.default_rng(count)
    held, trials = 0, 1000
    for _ in range(trials):
        images = []
        for _ in range(count):  # of unequal contrast, each with an effect of its own
            line = draw.normal(0, np.exp(draw.normal(0, 0.25)), 30)
            target = draw.normal(1, 0.3) * line + draw.normal(0, 0.3, 30)
            terms = np.stack([line, np.ones(30)]).astype(np.float32)
            images.append(Normal.of(terms, target.astype(np.float32)))
        result = fit(images, [0, 1])
        estimate = interval(result.coefficients[0], result.errors[0], count)
        held += estimate.low <= 1 <= estimate.high
    assert held / trials == pytest.approx(0.95, abs=0.03)


def test_a_term_that_one_image_alone_determines_has_no_fit():
    line = np.arange(50, dtype=np.float32)
    images = [Normal.of(np.stack([line * (place == 0), line**2]), line) for place in range(5)]
    assert fit(images, [0, 1]) is None
    assert fit(images, [1]) is not None


def test_terms_that_depend_on_each_other_have_no_fit():
    line = np.arange(50, dtype=np.float32)
    assert fit([Normal.of(np.stack([line, 2 * line]), line)] * 3, [0, 1]) is None
